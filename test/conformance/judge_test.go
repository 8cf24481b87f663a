package conformance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodeadmit/nodeadmit/pkg/pod"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
	"github.com/nodeadmit/nodeadmit/test/conformance/translate"
)

// standard is a level of the Pod Security Standards at a version.
type standard struct {
	level   policy.Level
	version string
}

func (s standard) String() string { return string(s.level) + " " + s.version }

func (s standard) parsed() policy.Version {
	v, err := policy.ParseVersion(s.version)
	if err != nil {
		panic(err)
	}
	return v
}

// minor is the version's, of a fixture's that is no "latest".
func (s standard) minor() int {
	n, err := strconv.Atoi(strings.TrimPrefix(s.version, "v1."))
	if err != nil {
		panic(err)
	}
	return n
}

var upstream = sync.OnceValue(func() *pod.Evaluator {
	e, err := pod.NewEvaluator()
	if err != nil {
		panic(err)
	}
	return e
})

var policies sync.Map // standard -> *policy.Set

// set is a policy that is a preset and nothing else.
func (s standard) set() *policy.Set {
	if set, ok := policies.Load(s); ok {
		return set.(*policy.Set)
	}
	list, err := policy.Parse("preset.yaml", fmt.Appendf(nil,
		"apiVersion: nodeadmit.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: preset}\nspec: {preset: %s, version: %s}\n", s.level, s.version))
	if err != nil {
		panic(err)
	}
	set := &policy.Set{Policies: list}
	policies.Store(s, set)
	return set
}

// verdict is what nodeadmit says of a pod's bundles.
type verdict struct {
	refused bool
	// controls are those that are violated.
	controls []string
	// texts are the violations, for a test's output.
	texts []string
}

// effective judges bundles as a node would: the sandbox, then each container.
func effective(n *translate.Node, b *translate.Bundles, s standard) (verdict, error) {
	return judge(n, b, s.set())
}

func judge(n *translate.Node, b *translate.Bundles, set *policy.Set) (verdict, error) {
	var v verdict
	files, err := b.JSON()
	if err != nil {
		return v, err
	}
	for _, file := range files {
		doc, err := spec.Read(bytes.NewReader(file))
		if err != nil {
			return v, fmt.Errorf("%w: %s", err, file)
		}
		in, err := spec.Map(doc, spec.Options{Engine: n.SpecEngine(), Host: b.Host})
		if err != nil {
			return v, fmt.Errorf("%w: %s", err, file)
		}
		d := set.Evaluate(in)
		v.refused = v.refused || !d.Allowed
		for _, x := range d.Violations {
			if !slices.Contains(v.controls, x.Control) {
				v.controls = append(v.controls, x.Control)
			}
			v.texts = append(v.texts, x.Control+": "+x.Message+" ("+x.Field+")")
		}
	}
	slices.Sort(v.controls)
	return v, nil
}

// image is what of bundles must be the same for two pods to be one to a node.
type image struct {
	files [][]byte
	host  *translate.Host
}

// ignored is what of two documents need not be the same.
type ignored struct {
	// order: of the lists of capabilities, which are sets.
	order bool
	// sandboxUser: of the sandbox's process.
	sandboxUser bool
	// annotations: those with these prefixes, on CRI-O.
	annotations []string
}

func (i ignored) with(r *rule) ignored {
	return ignored{i.order || r.order, i.sandboxUser || r.sandboxUser, slices.Concat(i.annotations, r.annotations)}
}

// imageOf returns it, without what need not be the same.
func imageOf(n *translate.Node, b *translate.Bundles, not ignored) (image, error) {
	c := &translate.Bundles{Host: b.Host, Sandbox: b.Sandbox, Containers: slices.Clone(b.Containers)}
	if n.Engine == translate.CRIO || not.order || not.sandboxUser {
		if c.Sandbox != nil {
			c.Sandbox = not.without(n, clone(c.Sandbox), true)
		}
		for i, s := range c.Containers {
			c.Containers[i] = not.without(n, clone(s), false)
		}
	}
	files, err := c.JSON()
	return image{files, b.Host}, err
}

func (i ignored) without(n *translate.Node, s *specs.Spec, sandbox bool) *specs.Spec {
	if sandbox && i.sandboxUser {
		s.Process.User = specs.User{}
	}
	if i.order {
		for _, set := range []*[]string{&s.Process.Capabilities.Bounding, &s.Process.Capabilities.Effective, &s.Process.Capabilities.Permitted} {
			*set = slices.Sorted(slices.Values(*set))
		}
	}
	if n.Engine == translate.CRIO && len(i.annotations) > 0 {
		for k := range s.Annotations {
			if begins(k, i.annotations) || k == "io.kubernetes.cri-o.Annotations" {
				delete(s.Annotations, k)
			}
		}
	}
	return s
}

func begins(s string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(s, p) })
}

func (i image) same(o image) bool {
	return slices.EqualFunc(i.files, o.files, bytes.Equal) && reflect.DeepEqual(i.host, o.host)
}

// unseen finds out why upstream refuses a pod of which a node allows all
// bundles: the classes of what the node doesn't see, and the other pod, which
// upstream allows. The other pod is nil if there is no such reason.
func unseen(n *translate.Node, p *corev1.Pod, s standard) (classes []string, other *corev1.Pod) {
	base, err := n.Pod(p)
	if err != nil {
		return nil, nil
	}
	original := p
	p = p.DeepCopy()
	failed := upstream().Evaluate(p, s.level, s.parsed())
	var not ignored
	for i := range rules {
		r := &rules[i]
		q := p.DeepCopy()
		r.apply(n, q)
		if reflect.DeepEqual(p, q) || !sameImage(n, base, q, not.with(r)) {
			continue
		}
		p, not = q, not.with(r)
		if now := upstream().Evaluate(p, s.level, s.parsed()); !reflect.DeepEqual(now, failed) {
			failed = now
			classes = append(classes, r.name)
		}
	}
	if len(failed) > 0 {
		return classes, nil
	}
	return classes, least(n, base, original, s, classes, p)
}

// least leaves out of the other pod what need not be changed, if that is enough.
func least(n *translate.Node, base *translate.Bundles, p *corev1.Pod, s standard, classes []string, other *corev1.Pod) *corev1.Pod {
	q := p.DeepCopy()
	var not ignored
	for i := range rules {
		if slices.Contains(classes, rules[i].name) {
			rules[i].apply(n, q)
			not = not.with(&rules[i])
		}
	}
	if sameImage(n, base, q, not) && len(upstream().Evaluate(q, s.level, s.parsed())) == 0 {
		return q
	}
	return other
}

// ambiguous finds out why a node refuses a pod that upstream allows: another
// pod, which upstream refuses, has the same bundles.
func ambiguous(n *translate.Node, p *corev1.Pod, s standard) (class string, other *corev1.Pod) {
	base, err := n.Pod(p)
	if err != nil {
		return "", nil
	}
	for i := range reverse {
		r := &reverse[i]
		q := p.DeepCopy()
		r.apply(n, q)
		if reflect.DeepEqual(p, q) || !sameImage(n, base, q, ignored{}.with(r)) {
			continue
		}
		if len(upstream().Evaluate(q, s.level, s.parsed())) > 0 {
			return r.name, q
		}
	}
	return "", nil
}

func sameImage(n *translate.Node, base *translate.Bundles, q *corev1.Pod, not ignored) bool {
	b, err := n.Pod(q)
	if err != nil {
		return false
	}
	x, err := imageOf(n, base, not)
	if err != nil {
		panic(err)
	}
	y, err := imageOf(n, b, not)
	if err != nil {
		panic(err)
	}
	return x.same(y)
}

// outcome is what comes of one pod at one standard.
type outcome struct {
	allowedUpstream bool
	// notStarted: the kubelet refuses it, so that no bundle is made.
	notStarted bool
	refused    bool
	// classes explain a difference; other is the pod that proves it.
	classes []string
	other   *corev1.Pod
}

// agrees reports whether upstream and the node say the same.
func (o *outcome) agrees() bool { return o.notStarted || o.refused != o.allowedUpstream }

// look judges a pod both ways. It returns an error for a difference that isn't
// explained.
func look(n *translate.Node, p *corev1.Pod, s standard) (outcome, error) {
	failed := upstream().Evaluate(p, s.level, s.parsed())
	o := outcome{allowedUpstream: len(failed) == 0}
	b, err := n.Pod(p)
	if errors.Is(err, translate.ErrNotStarted) {
		o.notStarted = true
		return o, nil
	}
	if err != nil {
		return o, err
	}
	v, err := effective(n, b, s)
	if err != nil {
		return o, err
	}
	o.refused = v.refused
	switch {
	case o.agrees():
		return o, nil
	case o.allowedUpstream:
		var class string
		if class, o.other = ambiguous(n, p, s); o.other != nil {
			o.classes = []string{class}
			return o, nil
		}
		return o, fmt.Errorf("upstream allows it at %s, on %s it is refused: %s", s, n.Engine, strings.Join(v.texts, "; "))
	}
	if o.classes, o.other = unseen(n, p, s); o.other != nil {
		return o, nil
	}
	var texts []string
	for _, f := range failed {
		texts = append(texts, f.Check+": "+f.Reason+" ("+f.Detail+")")
	}
	return o, fmt.Errorf("upstream refuses it at %s, on %s it is allowed (seen through: %v): %s", s, n.Engine, o.classes, strings.Join(texts, "; "))
}

func mustJSON(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}
