package cel

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"
	admission "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	kjson "sigs.k8s.io/json"

	upstream "k8s.io/apiserver/pkg/admission/plugin/cel"

	"github.com/nodeadmit/nodeadmit/pkg/pod"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// Control is the word for a policy's refusal where others have their control's name.
const Control = "cel"

// Node is what expressions know of the node as the variable node.
type Node struct{ Name, Kernel string }

// Input is what is judged: a bundle's intent, or a whole pod.
type Input struct {
	Intent *spec.Intent
	// Spec is config.json, for the variable oci.
	Spec []byte
	Node Node
	// Pod is the whole pod, where it is at hand. Nothing of it is unknown then.
	Pod *corev1.Pod
}

// moment is what an input shows.
type moment int

const (
	wholePod moment = iota
	sandboxMoment
	containerMoment
)

// Kind is what the input shows.
func (in *Input) Kind() moment {
	switch {
	case in.Pod != nil:
		return wholePod
	case in.Intent.Kind == spec.KindSandbox:
		return sandboxMoment
	}
	return containerMoment
}

func (in *Input) namespace() string {
	if in.Pod != nil {
		return in.Pod.Namespace
	}
	return in.Intent.Pod.Namespace.Value
}

func (in *Input) namespaceKnown() bool {
	return in.Pod != nil || in.Intent.Pod.Namespace.Certainty != spec.Unknown
}

func (in *Input) name() string {
	if in.Pod != nil {
		return in.Pod.Name
	}
	return in.Intent.Pod.Name.Value
}

func (in *Input) podLabel(key string) (string, bool, bool) {
	if in.Pod == nil {
		return "", false, false
	}
	value, has := in.Pod.Labels[key]
	return value, has, true
}

// Result is what all policies say.
type Result struct {
	Violations   []policy.Violation
	Undetermined []policy.Note
	// Notes are warnings and audit annotations.
	Notes []string
}

// Evaluate judges an input by all policies that are bound. The error is a fault of
// ours or a deadline that passed: nothing is decided then.
func (ps *Policies) Evaluate(ctx context.Context, in *Input) (*Result, error) {
	out := &Result{}
	if len(ps.bindings) == 0 {
		return out, nil
	}
	v, err := newViews(in)
	if err != nil {
		return nil, err
	}
	for _, b := range ps.bindings {
		if err := ps.binding(ctx, b, v, out); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("policy %q: %w", b.policy.name, err)
		}
	}
	return out, nil
}

func (ps *Policies) binding(ctx context.Context, b *binding, v *views, out *Result) error {
	p := b.policy
	m, why := ps.matches(p.object.Spec.MatchConstraints, v.in)
	if bm, bwhy := ps.matches(b.object.Spec.MatchResources, v.in); bm < m {
		m, why = bm, bwhy
	}
	if m == matchNo {
		return nil
	}
	e := &evaluation{ctx: ctx, ps: ps, b: b, views: v, out: out}
	if m == matchMaybe {
		e.maybe = "whether the policy is for this pod depends on " + why
	}
	if p.object.Spec.ParamKind == nil {
		return e.policy(nil)
	}
	params := ps.paramsFor(b, v.in.namespace())
	if len(params) == 0 {
		if *b.object.Spec.ParamRef.ParameterNotFoundAction == admission.DenyAction {
			e.failed("spec.paramRef", "no parameters found for binding "+strconv.Quote(b.object.Name))
		}
		return nil
	}
	for _, object := range params {
		if err := e.policy(object); err != nil {
			return err
		}
	}
	return nil
}

// evaluation is one binding on one input.
type evaluation struct {
	ctx    context.Context
	ps     *Policies
	b      *binding
	views  *views
	out    *Result
	params map[string]any
	// maybe is why it isn't known that the policy is for this pod, or "".
	maybe string
	// budget is what expressions may cost yet, in upstream's units.
	budget int64
}

func (e *evaluation) policy(params map[string]any) error {
	saved := e.maybe
	defer func() { e.maybe = saved }()
	e.params = params
	e.budget = celconfig.RuntimeCELCostBudgetMatchConditions
	var fault string
	for _, c := range e.b.policy.conditions {
		o := e.decide(c.expression, false)
		switch o.result {
		case isFalse:
			return nil
		case isUnknown:
			if e.maybe == "" {
				e.maybe = fmt.Sprintf("whether match condition %q holds depends on %s", c.name, o.paths())
			}
		case isError:
			fault = o.text
		}
	}
	if fault != "" {
		e.failed("spec.matchConditions", fault)
		return nil
	}
	e.budget = celconfig.RuntimeCELCostBudget
	for i := range e.b.policy.validations {
		v := &e.b.policy.validations[i]
		switch o := e.decide(v.expression, true); o.result {
		case isFalse:
			e.violated(v.field, e.message(v))
		case isUnknown:
			if !e.sandboxDecided(v.expression, o) {
				e.undetermined(v.field, v.field+" can't be decided on a node: it depends on "+o.paths())
			}
		case isError:
			e.failed(v.field, o.text)
		}
	}
	for _, a := range e.b.policy.annotations {
		o := e.decide(a.expression, false)
		if s, ok := o.value.(types.String); ok && strings.TrimSpace(string(s)) != "" && o.result == isOther {
			e.out.Notes = append(e.out.Notes, fmt.Sprintf("audit annotation %s/%s: %s", e.b.policy.name, a.name, quoted(string(s))))
		}
	}
	return e.ctx.Err()
}

// violated is a validation that doesn't hold.
func (e *evaluation) violated(field, text string) {
	if e.maybe != "" {
		e.undetermined(field, text+", but "+e.maybe)
		return
	}
	e.add(field, text)
}

func (e *evaluation) add(field, text string) {
	v := policy.Violation{Policy: e.b.policy.name, Control: Control, Field: field, Mode: policy.Audit,
		Message: fmt.Sprintf("policy %q: %s", e.b.policy.name, text)}
	if e.b.deny {
		v.Mode = policy.Enforce
	}
	if e.b.warn {
		e.out.Notes = append(e.out.Notes, "warning: "+v.Message)
	}
	if !slices.Contains(e.out.Violations, v) {
		e.out.Violations = append(e.out.Violations, v)
	}
}

// failed is an expression that can't be evaluated.
func (e *evaluation) failed(field, text string) {
	if f := e.b.policy.object.Spec.FailurePolicy; f != nil && *f == admission.Ignore {
		return
	}
	e.violated(field, text)
}

// undetermined waits at a sandbox for the containers. At a container it refuses,
// unless the policy says otherwise.
func (e *evaluation) undetermined(field, text string) {
	if e.views.in.Kind() == containerMoment && e.b.onMaybe != "Allow" {
		e.add(field, text)
		return
	}
	n := policy.Note{Policy: e.b.policy.name, Control: Control, Field: field, Message: fmt.Sprintf("policy %q: %s", e.b.policy.name, text)}
	if !slices.Contains(e.out.Undetermined, n) {
		e.out.Undetermined = append(e.out.Undetermined, n)
	}
}

// message is a validation's, as upstream chooses it: messageExpression, message, or
// the expression itself.
func (e *evaluation) message(v *validation) string {
	if v.message != nil {
		o := e.run(v.message, e.views.first())
		if s, ok := o.value.(types.String); ok {
			text := strings.TrimSpace(string(s))
			if text != "" && len(text) <= celconfig.MaxEvaluatedMessageExpressionSizeBytes && !strings.Contains(text, "\n") {
				return quoted(text)
			}
		}
	}
	if text := oneLine(v.text); text != "" {
		return cut(text)
	}
	return cut("failed expression: " + oneLine(v.expression.text))
}

// maxText bounds a policy's text in a message, in bytes.
const maxText = 300

func cut(s string) string { return cutTo(s, maxText) }

func cutTo(s string, n int) string {
	if len(s) <= n {
		return s
	}
	s = s[:n]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "..."
}

// quoted is a text that a pod's author may have written part of.
func quoted(s string) string { return strconv.Quote(cut(s)) }

// sandboxDecided reports whether an expression that depends on what only a sandbox's
// bundle shows was decided there.
func (e *evaluation) sandboxDecided(x *expression, o outcome) bool {
	in := e.views.in
	if in.Kind() != containerMoment || in.Intent.Engine.Dialect != spec.Containerd {
		return false
	}
	for _, p := range unknownPaths(o.unknown) {
		if p != "object.spec.securityContext.sysctls" {
			return false
		}
	}
	for _, p := range x.reads {
		if path, ok := podPath(p); ok && !seenAtSandbox(path) {
			return false
		}
	}
	return true
}

// result is what an expression comes to.
type result int

const (
	isTrue result = iota
	isFalse
	isUnknown
	isError
	isOther
)

type outcome struct {
	result  result
	value   ref.Val
	unknown *types.Unknown
	text    string
}

func (o *outcome) paths() string {
	list := unknownPaths(o.unknown)
	const most = 3
	if len(list) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:most], ", "), len(list)-most)
	}
	return strings.Join(list, ", ")
}

// decide evaluates an expression for the container as each kind of container that
// it may be. alone says that what holds of each container holds of the pod.
func (e *evaluation) decide(x *expression, alone bool) outcome {
	if e.views.in.Kind() != containerMoment {
		return e.run(x, e.views.first())
	}
	alone = alone && x.trait.form <= universal || x.trait.lists == 0 && x.trait.form == constant
	var out outcome
	for i, place := range []lists{containers, initContainers, ephemeralContainers} {
		if i > 0 && (e.b.policy.mentions&place == 0 || x.trait.lists == 0 && x.trait.form == constant) {
			continue
		}
		o := e.run(x, e.views.of(place, alone))
		switch {
		case i == 0:
			out = o
		case out.result == o.result && out.result == isUnknown:
			out.unknown = types.MergeUnknowns(out.unknown, o.unknown)
		case out.result == o.result && (o.result != isOther || types.Equal(out.value, o.value) == types.True):
		case out.result == isUnknown:
		case o.result == isUnknown:
			out = o
		default:
			out = outcome{result: isUnknown, unknown: unknown("which kind of container this is")}
		}
	}
	return out
}

// run evaluates an expression once.
func (e *evaluation) run(x *expression, v *view) outcome {
	if e.budget < 0 {
		return outcome{result: isError, text: "validation failed due to running out of cost budget, no further validation rules will be run"}
	}
	a := &activation{e: e, view: v, looks: looks{}}
	value := e.program(x, a)
	if len(a.looks) > 0 {
		var unk *types.Unknown
		for path := range a.looks {
			unk = types.MergeUnknowns(unk, unknown(path))
		}
		if u, ok := value.(*types.Unknown); ok {
			unk = types.MergeUnknowns(unk, u)
		}
		return outcome{result: isUnknown, unknown: unk}
	}
	switch value := value.(type) {
	case *types.Unknown:
		return outcome{result: isUnknown, unknown: value}
	case *types.Err:
		return outcome{result: isError, text: fmt.Sprintf("expression '%s' resulted in error: %s", cutTo(oneLine(x.text), maxText/2), cut(oneLine(value.String())))}
	case types.Bool:
		if value {
			return outcome{result: isTrue, value: value}
		}
		return outcome{result: isFalse, value: value}
	}
	return outcome{result: isOther, value: value}
}

// program runs an expression's program and takes its cost off the budget.
func (e *evaluation) program(x *expression, a *activation) ref.Val {
	value, details, err := x.program.ContextEval(e.ctx, a)
	if details == nil || details.ActualCost() == nil {
		e.budget = -1
		return types.NewErr("runtime cost could not be calculated: %v", err)
	}
	if cost := *details.ActualCost(); cost > math.MaxInt64 || int64(cost) > e.budget {
		e.budget = -1
		return types.NewErr("validation failed due to running out of cost budget, no further validation rules will be run")
	} else {
		e.budget -= int64(cost)
	}
	if err != nil {
		return types.WrapErr(err)
	}
	return value
}

// activation is what an expression's variables stand for.
type activation struct {
	e         *evaluation
	view      *view
	looks     looks
	variables ref.Val
}

// Parent is nil: there is no other.
func (a *activation) Parent() interpreter.Activation { return nil }

// ResolveName finds a variable.
func (a *activation) ResolveName(name string) (any, bool) {
	v := a.e.views
	switch name {
	case upstream.ObjectVarName:
		return wrap(a.view.object, "object", a.view.u, a.looks), true
	case upstream.OldObjectVarName:
		return types.NullValue, true
	case upstream.ParamsVarName:
		if a.e.params == nil {
			return types.NullValue, true
		}
		return wrap(a.e.params, "params", nil, a.looks), true
	case upstream.RequestVarName:
		return wrap(v.request, "request", requestUnseen, a.looks), true
	case upstream.NamespaceVarName:
		return a.e.ps.namespaceObject(v.in, a.looks), true
	case upstream.AuthorizerVarName, upstream.RequestResourceAuthorizerVarName:
		return unknown(name), true
	case upstream.VariableVarName:
		if a.variables == nil {
			a.variables = newVariables(a)
		}
		return a.variables, true
	case ociVariable:
		return v.oci(a.looks), true
	case nodeVariable:
		return v.node(a.looks), true
	}
	return nil, false
}

// requestUnseen is what only an API server knows of a request.
var requestUnseen = newUnseen([]string{"userInfo", "options", "uid"})

var namespaceFields = []string{
	"metadata.labels", "metadata.annotations", "metadata.UID", "metadata.uid", "metadata.creationTimestamp", "metadata.deletionTimestamp",
	"metadata.deletionGracePeriodSeconds", "metadata.generation", "metadata.resourceVersion", "metadata.finalizers", "metadata.generateName", "spec", "status",
}

func (ps *Policies) namespaceObject(in *Input, l looks) ref.Val {
	if !in.namespaceKnown() {
		return unknown("namespaceObject")
	}
	meta := map[string]any{"name": in.namespace()}
	fields := namespaceFields
	if set, ok := ps.namespaces[in.namespace()]; ok {
		all := map[string]any{nameLabel: in.namespace()}
		for k, v := range set {
			all[k] = v
		}
		meta["labels"] = all
		fields = fields[1:]
	}
	return wrap(map[string]any{"metadata": meta}, "namespaceObject", newUnseen(fields), l)
}

// view is the pod as one evaluation sees it.
type view struct {
	object map[string]any
	u      *unseen
}

// views are all that there are of an input. They are made when needed.
type views struct {
	in      *Input
	request map[string]any
	object  map[string]any
	unknown []string
	made    map[[2]int]*view
	spec    any
	specErr error
}

func newViews(in *Input) (*views, error) {
	v := &views{in: in, made: map[[2]int]*view{}}
	p := in.Pod
	if p == nil {
		p, v.unknown = pod.Rebuild(in.Intent)
	} else {
		p = p.DeepCopy()
		p.APIVersion, p.Kind = "v1", "Pod"
	}
	var err error
	if v.object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(p); err != nil {
		return nil, err
	}
	if in.Pod == nil {
		delete(v.object, "status")
		v.unknown = append(v.unknown, "status")
	}
	gvk := map[string]any{"group": "", "version": "v1", "kind": "Pod"}
	gvr := map[string]any{"group": "", "version": "v1", "resource": "pods"}
	v.request = map[string]any{
		"kind": gvk, "resource": gvr, "requestKind": gvk, "requestResource": gvr, "name": in.name(), "namespace": in.namespace(),
		"operation": "CREATE", "dryRun": false,
	}
	return v, nil
}

// first is the view of the whole, of a sandbox, or of a container alone.
func (v *views) first() *view {
	if v.in.Kind() == containerMoment {
		return v.of(containers, true)
	}
	return v.cached(0, 0, func() *view { return &view{v.object, newUnseen(v.unknown)} })
}

func (v *views) cached(a, b int, make func() *view) *view {
	key := [2]int{a, b}
	if v.made[key] == nil {
		v.made[key] = make()
	}
	return v.made[key]
}

var placeNames = map[lists]string{containers: "containers", initContainers: "initContainers", ephemeralContainers: "ephemeralContainers"}

// of is the view of a container as one of a list: alone, or with others that
// aren't known.
func (v *views) of(place lists, alone bool) *view {
	mode := 1
	if alone {
		mode = 2
	}
	return v.cached(int(place), mode, func() *view {
		podSpec := map[string]any{}
		for k, x := range v.object["spec"].(map[string]any) {
			podSpec[k] = x
		}
		container, _ := podSpec["containers"].([]any)
		const here = "spec.containers[0]"
		var unknown []string
		for _, p := range v.unknown {
			switch {
			case p == "spec.initContainers" || p == "spec.ephemeralContainers":
			case strings.HasPrefix(p, here):
				unknown = append(unknown, "spec."+placeNames[place]+"[0]"+p[len(here):])
			default:
				unknown = append(unknown, p)
			}
		}
		podSpec["containers"] = []any{}
		podSpec[placeNames[place]] = container
		u := newUnseen(unknown)
		if !alone {
			for list, name := range placeNames {
				n := u.at("spec." + name)
				switch {
				case list == place || list == containers:
					n.more = true
				default:
					n.all = true
				}
			}
			if _, ok := podSpec["volumes"]; ok {
				u.at("spec.volumes").more = true
			} else {
				u.at("spec.volumes").all = true
			}
		}
		object := map[string]any{}
		for k, x := range v.object {
			object[k] = x
		}
		object["spec"] = podSpec
		return &view{object, u}
	})
}

func (v *views) oci(l looks) ref.Val {
	if v.in.Spec == nil {
		return unknown(ociVariable)
	}
	if v.spec == nil && v.specErr == nil {
		v.specErr = kjson.UnmarshalCaseSensitivePreserveInts(v.in.Spec, &v.spec)
	}
	if v.specErr != nil {
		return types.WrapErr(v.specErr)
	}
	return wrap(v.spec, ociVariable, nil, l)
}

func (v *views) node(l looks) ref.Val {
	node := map[string]any{"name": v.in.Node.Name, "kernel": v.in.Node.Kernel}
	var unknown []string
	if v.in.Node.Name == "" {
		unknown = append(unknown, "name", "kernel")
	}
	switch in := v.in.Intent; {
	case in == nil:
		unknown = append(unknown, "engine", "runtimeHandler")
	default:
		node["engine"] = string(in.Engine.Dialect)
		node["runtimeHandler"] = in.RuntimeHandler.Value
		if in.RuntimeHandler.Certainty == spec.Unknown {
			unknown = append(unknown, "runtimeHandler")
		}
	}
	return wrap(node, nodeVariable, newUnseen(unknown), l)
}
