package cel

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	admission "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	kjson "sigs.k8s.io/json"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

// OnUndetermined is the annotation of a policy or its binding that says what
// happens at the last moment to what can't be decided: Deny, which is the default, or
// Allow. A binding's counts before its policy's.
const OnUndetermined = "nodeadmit.dev/on-undetermined"

// Policies are all ValidatingAdmissionPolicies of a policy directory with their
// bindings, compiled.
type Policies struct {
	bindings []*binding
	policies []*compiled
	// namespaces are the labels of those that the directory defines.
	namespaces map[string]map[string]string
	params     []param
}

// compiled is one policy.
type compiled struct {
	name, file  string
	object      *admission.ValidatingAdmissionPolicy
	conditions  []named
	variables   []named
	validations []validation
	annotations []named
	// mentions are the lists of containers that it has words for.
	mentions lists
	bound    bool
}

type named struct {
	name string
	*expression
}

type validation struct {
	*expression
	// field is its place in the policy.
	field, text string
	message     *expression
}

type binding struct {
	object  *admission.ValidatingAdmissionPolicyBinding
	file    string
	policy  *compiled
	deny    bool
	warn    bool
	audit   bool
	onMaybe string // Deny or Allow
}

// param is a document that a policy may have as its parameters.
type param struct {
	apiVersion, kind, namespace, name string
	labels                            labels.Set
	object                            map[string]any
}

// Load compiles the policies of a directory. All faults are in the error.
func Load(documents []policy.External) (*Policies, error) {
	l := &loader{out: &Policies{namespaces: map[string]map[string]string{}}, byName: map[string]*compiled{}}
	for i := range documents {
		d := &documents[i]
		switch {
		case d.Kind == policy.KindPolicy:
			l.policy(d)
		case d.Kind == policy.KindBinding:
			var b admission.ValidatingAdmissionPolicyBinding
			if l.decode(d, &b) {
				l.bindings = append(l.bindings, &binding{object: &b, file: d.File})
			}
		default:
			l.param(d)
		}
	}
	for _, b := range l.bindings {
		l.bind(b)
	}
	if err := errors.Join(l.errs...); err != nil {
		return nil, err
	}
	return l.out, nil
}

type loader struct {
	out      *Policies
	byName   map[string]*compiled
	bindings []*binding
	errs     []error
}

func (l *loader) errorf(file, kind, name, format string, args ...any) {
	l.errs = append(l.errs, &strictyaml.Error{File: file, Text: fmt.Sprintf("%s %q: %s", kind, name, fmt.Sprintf(format, args...))})
}

// toJSON is the document in JSON.
func toJSON(d *policy.External) (data []byte, object map[string]any, err error) {
	if err := d.Node.Decode(&object); err != nil {
		return nil, nil, err
	}
	data, err = json.Marshal(object)
	return data, object, err
}

// decode reads a document strictly: what the API server would not take, or would
// drop, is a fault.
func (l *loader) decode(d *policy.External, into any) bool {
	data, _, err := toJSON(d)
	if err == nil {
		var faults []error
		faults, err = kjson.UnmarshalStrict(data, into)
		err = errors.Join(append(faults, err)...)
	}
	if err == nil && d.Name == "" {
		err = errors.New("metadata.name is missing")
	}
	if err != nil {
		l.errs = append(l.errs, &strictyaml.Error{File: d.File, Line: d.Node.Line, Column: d.Node.Column, Text: fmt.Sprintf("%s %q: %s", d.Kind, d.Name, oneLine(err.Error()))})
	}
	return err == nil
}

func (l *loader) param(d *policy.External) {
	data, _, err := toJSON(d)
	var object map[string]any
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, &object)
	}
	if err != nil {
		l.errorf(d.File, d.Kind, d.Name, "%v", err)
		return
	}
	var meta struct {
		Metadata metav1.ObjectMeta `json:"metadata"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, &meta); err != nil {
		l.errorf(d.File, d.Kind, d.Name, "%v", err)
		return
	}
	p := param{d.APIVersion, d.Kind, meta.Metadata.Namespace, d.Name, meta.Metadata.Labels, object}
	if d.APIVersion == "v1" && d.Kind == "Namespace" {
		l.out.namespaces[d.Name] = meta.Metadata.Labels
		if l.out.namespaces[d.Name] == nil {
			l.out.namespaces[d.Name] = map[string]string{}
		}
	}
	l.out.params = append(l.out.params, p)
}

func (l *loader) policy(d *policy.External) {
	var v admission.ValidatingAdmissionPolicy
	if !l.decode(d, &v) {
		return
	}
	p := &compiled{name: d.Name, file: d.File, object: &v}
	fault := func(field string, err error) { l.errorf(d.File, d.Kind, d.Name, "%s: %v", field, err) }
	l.byName[d.Name] = p
	c, err := newCompiler(v.Spec.ParamKind != nil, len(v.Spec.Variables) > 0)
	if err != nil {
		fault("spec", err)
		return
	}
	if v.Spec.MatchConstraints == nil || len(v.Spec.MatchConstraints.ResourceRules) == 0 {
		fault("spec.matchConstraints", errors.New("want resourceRules"))
	} else if err := checkMatch(v.Spec.MatchConstraints); err != nil {
		fault("spec.matchConstraints", err)
	}
	switch f := v.Spec.FailurePolicy; {
	case f != nil && *f != admission.Fail && *f != admission.Ignore:
		fault("spec.failurePolicy", fmt.Errorf("is %q: want Fail or Ignore", *f))
	}
	if len(v.Spec.Validations)+len(v.Spec.AuditAnnotations) == 0 {
		fault("spec", errors.New("want validations or auditAnnotations"))
	}
	for i, x := range v.Spec.Variables {
		e, err := c.variable(x.Name, x.Expression)
		if err != nil {
			fault(fmt.Sprintf("spec.variables[%d]", i), err)
			return
		}
		p.variables = append(p.variables, named{x.Name, e})
	}
	for i, x := range v.Spec.MatchConditions {
		e, _, err := c.compile(x.Expression, cel.BoolType)
		if err != nil {
			fault(fmt.Sprintf("spec.matchConditions[%d]", i), err)
			continue
		}
		p.conditions = append(p.conditions, named{x.Name, e})
	}
	for i, x := range v.Spec.Validations {
		field := fmt.Sprintf("spec.validations[%d]", i)
		e, _, err := c.compile(x.Expression, cel.BoolType)
		if err != nil {
			fault(field, err)
			continue
		}
		val := validation{expression: e, field: field, text: x.Message}
		if x.MessageExpression != "" {
			if val.message, _, err = c.compile(x.MessageExpression, cel.StringType); err != nil {
				fault(field+".messageExpression", err)
			}
		}
		p.validations = append(p.validations, val)
	}
	for i, x := range v.Spec.AuditAnnotations {
		e, _, err := c.compile(x.ValueExpression, cel.StringType, cel.NullType)
		if err != nil {
			fault(fmt.Sprintf("spec.auditAnnotations[%d]", i), err)
			continue
		}
		p.annotations = append(p.annotations, named{x.Key, e})
	}
	p.mentions = c.analysis.mentions
	if err := checkOnUndetermined(v.Annotations); err != nil {
		fault("metadata.annotations", err)
	}
	l.out.policies = append(l.out.policies, p)
}

func checkOnUndetermined(annotations map[string]string) error {
	if v, ok := annotations[OnUndetermined]; ok && v != "Deny" && v != "Allow" {
		return fmt.Errorf("%s is %q: want Deny or Allow", OnUndetermined, v)
	}
	return nil
}

// bind joins a binding with its policy. One without is left out by API servers, and
// is an error here, as in their manifests on disk: it would enforce nothing.
func (l *loader) bind(b *binding) {
	o := b.object
	fault := func(format string, args ...any) { l.errorf(b.file, policy.KindBinding, o.Name, format, args...) }
	p := l.byName[o.Spec.PolicyName]
	if p == nil {
		fault("spec.policyName %q: there is no such policy", o.Spec.PolicyName)
		return
	}
	b.policy, p.bound = p, true
	for _, a := range o.Spec.ValidationActions {
		switch a {
		case admission.Deny:
			b.deny = true
		case admission.Warn:
			b.warn = true
		case admission.Audit:
			b.audit = true
		default:
			fault("spec.validationActions: %q: want Deny, Warn or Audit", a)
		}
	}
	if len(o.Spec.ValidationActions) == 0 || b.deny && b.warn {
		fault("spec.validationActions: want Deny, Warn or Audit, and not both Deny and Warn")
	}
	if o.Spec.MatchResources != nil {
		if err := checkMatch(o.Spec.MatchResources); err != nil {
			fault("spec.matchResources: %v", err)
		}
	}
	if err := checkOnUndetermined(o.Annotations); err != nil {
		fault("metadata.annotations: %v", err)
	}
	b.onMaybe = "Deny"
	for _, annotations := range []map[string]string{p.object.Annotations, o.Annotations} {
		if v, ok := annotations[OnUndetermined]; ok {
			b.onMaybe = v
		}
	}
	switch ref := o.Spec.ParamRef; {
	case ref == nil && p.object.Spec.ParamKind != nil:
		fault("spec.paramRef is missing: policy %q has a paramKind", p.name)
	case ref == nil:
	case p.object.Spec.ParamKind == nil:
		fault("spec.paramRef: policy %q has no paramKind", p.name)
	case (ref.Name == "") == (ref.Selector == nil):
		fault("spec.paramRef: want name or selector")
	case ref.ParameterNotFoundAction == nil || *ref.ParameterNotFoundAction != admission.AllowAction && *ref.ParameterNotFoundAction != admission.DenyAction:
		fault("spec.paramRef.parameterNotFoundAction: want Allow or Deny")
	}
	l.out.bindings = append(l.out.bindings, b)
}

func checkMatch(m *admission.MatchResources) error {
	for _, s := range []*metav1.LabelSelector{m.NamespaceSelector, m.ObjectSelector} {
		if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
			return err
		}
	}
	return nil
}

// paramsFor returns the parameters of a binding for a pod of a namespace.
func (ps *Policies) paramsFor(b *binding, namespace string) []map[string]any {
	ref, kind := b.object.Spec.ParamRef, b.policy.object.Spec.ParamKind
	if ref.Namespace != "" {
		namespace = ref.Namespace
	}
	selector := labels.Nothing()
	if ref.Selector != nil {
		selector, _ = metav1.LabelSelectorAsSelector(ref.Selector)
	}
	var out []map[string]any
	for _, p := range ps.params {
		switch {
		case p.apiVersion != kind.APIVersion || p.kind != kind.Kind:
		case p.namespace != "" && p.namespace != namespace || p.namespace == "" && ref.Namespace != "":
		case ref.Name != "" && ref.Name != p.name:
		case ref.Name == "" && !selector.Matches(p.labels):
		default:
			out = append(out, p.object)
		}
	}
	return out
}

// matches tells whether a policy or a binding is for pods of a namespace. It is
// maybe where that depends on labels that aren't known; what they are of is said then.
func (ps *Policies) matches(m *admission.MatchResources, in *Input) (match, string) {
	if m == nil {
		return matchYes, ""
	}
	if len(m.ResourceRules) > 0 && !slices.ContainsFunc(m.ResourceRules, func(r admission.NamedRuleWithOperations) bool { return rules(r, in) }) ||
		slices.ContainsFunc(m.ExcludeResourceRules, func(r admission.NamedRuleWithOperations) bool { return rules(r, in) }) {
		return matchNo, ""
	}
	out, why := matchYes, ""
	for _, s := range []struct {
		selector *metav1.LabelSelector
		what     string
		labels   func(string) (string, bool, bool)
	}{{m.NamespaceSelector, "the labels of namespace " + in.namespace(), ps.namespaceLabel(in)}, {m.ObjectSelector, "the pod's labels", in.podLabel}} {
		switch selects(s.selector, s.labels) {
		case matchNo:
			return matchNo, ""
		case matchMaybe:
			out, why = matchMaybe, s.what
		}
	}
	return out, why
}

type match int

const (
	matchNo match = iota
	matchMaybe
	matchYes
)

// rules reports whether a rule is about pods that are made. Ephemeral containers come
// by an update of pods/ephemeralcontainers, and here as any container: a rule about
// them is about all.
func rules(r admission.NamedRuleWithOperations, in *Input) bool {
	has := func(list []string, word string) bool {
		return slices.Contains(list, "*") || slices.Contains(list, word)
	}
	if !has(r.APIGroups, "") || !has(r.APIVersions, "v1") || r.Scope != nil && *r.Scope == admission.ClusterScope {
		return false
	}
	if len(r.ResourceNames) > 0 && !slices.Contains(r.ResourceNames, in.name()) {
		return false
	}
	operation := func(op admission.OperationType) bool {
		return slices.Contains(r.Operations, op) || slices.Contains(r.Operations, admission.OperationAll)
	}
	for _, resource := range r.Resources {
		main, sub, _ := strings.Cut(resource, "/")
		if main != "pods" && main != "*" {
			continue
		}
		if sub == "" && operation(admission.Create) {
			return true
		}
		if (sub == "ephemeralcontainers" || sub == "*") && operation(admission.Update) && in.Kind() == containerMoment {
			return true
		}
	}
	return false
}

// selects evaluates a selector on labels of which not all are known. label returns
// a value, whether there is one, and whether that is known.
func selects(s *metav1.LabelSelector, label func(string) (value string, has, known bool)) match {
	if s == nil {
		return matchYes
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return matchMaybe
	}
	requirements, selectable := selector.Requirements()
	if !selectable {
		return matchNo
	}
	out := matchYes
	for _, r := range requirements {
		value, has, known := label(r.Key())
		if !known {
			out = min(out, matchMaybe)
			continue
		}
		set := labels.Set{}
		if has {
			set[r.Key()] = value
		}
		if !r.Matches(set) {
			return matchNo
		}
	}
	return out
}

// nameLabel is what every namespace has.
const nameLabel = "kubernetes.io/metadata.name"

func (ps *Policies) namespaceLabel(in *Input) func(string) (string, bool, bool) {
	return func(key string) (string, bool, bool) {
		if key == nameLabel {
			return in.namespace(), true, in.namespaceKnown()
		}
		set, known := ps.namespaces[in.namespace()]
		value, has := set[key]
		return value, has, known && in.namespaceKnown()
	}
}
