package conformance

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/test/conformance/translate"
)

// view is a node, and what is done to the fixtures before.
type view struct {
	name string
	node *translate.Node
	// prepare changes a pod for this view, or is nil.
	prepare func(*corev1.Pod)
}

// views are the nodes on which all fixtures are looked at.
var views = sync.OnceValue(func() []view {
	node := func(e translate.Engine, change func(*translate.Node)) *translate.Node {
		n := translate.NewNode(e)
		if change != nil {
			change(n)
		}
		return n
	}
	root := func(n *translate.Node) { n.Image.UID, n.Image.GID = 0, 0 }
	plain := func(n *translate.Node) { n.AppArmor, n.SELinux = false, false }
	return []view{
		{"containerd 2", node(translate.Containerd2, nil), nil},
		{"containerd 1.6", node(translate.Containerd1, nil), nil},
		{"CRI-O", node(translate.CRIO, nil), nil},
		{"CRI-O with infra containers", node(translate.CRIO, func(n *translate.Node) { n.KeepInfra = true }), nil},
		{"containerd 2, image with USER root", node(translate.Containerd2, root), nil},
		{"containerd 2, no AppArmor, no SELinux", node(translate.Containerd2, plain), nil},
		{"containerd 2, volumes mounted", node(translate.Containerd2, nil), mountAll},
	}
})

// mountAll mounts every volume into every container.
func mountAll(p *corev1.Pod) {
	each(p, func(c *corev1.Container) {
		for i := range p.Spec.Volumes {
			name := p.Spec.Volumes[i].Name
			c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/mnt/" + name})
		}
	})
}

// tally counts what came of the fixtures in a view.
type tally struct {
	passes, passNotStarted, passAllowed, passAmbiguous int
	fails, failNotStarted, failRefused, failUnseen     int
	// classes count the fixtures that a class explains, alone or with others.
	classes map[string]int
	// witnesses are a first fixture of each class that no other explains.
	witnesses map[string]witness
}

// witness is a pair of pods that upstream judges differently, with bundles that
// are the same.
type witness struct {
	fixture *fixture
	other   *corev1.Pod
}

var tallies = sync.OnceValues(func() (map[string]*tally, []string) {
	list, err := upstreamFixtures()
	if err != nil {
		return nil, []string{err.Error()}
	}
	out := map[string]*tally{}
	faults := make([][]string, len(views()))
	var wait sync.WaitGroup
	for i, v := range views() {
		c := &tally{classes: map[string]int{}, witnesses: map[string]witness{}}
		out[v.name] = c
		wait.Go(func() { faults[i] = c.run(v, list) })
	}
	wait.Wait()
	return out, slices.Concat(faults...)
})

// run looks at all fixtures and returns what is not explained.
func (c *tally) run(v view, list []fixture) (faults []string) {
	for i := range list {
		f := &list[i]
		p := f.pod
		if v.prepare != nil {
			p = p.DeepCopy()
			v.prepare(p)
		}
		o, err := look(v.node, p, f.standard)
		if err != nil {
			faults = append(faults, v.name+": "+f.String()+": "+err.Error())
			continue
		}
		c.count(f, &o)
	}
	return faults
}

func (c *tally) count(f *fixture, o *outcome) {
	add := func(n *int) { *n++ }
	if f.pass {
		add(&c.passes)
	} else {
		add(&c.fails)
	}
	switch {
	case o.notStarted && f.pass:
		add(&c.passNotStarted)
	case o.notStarted:
		add(&c.failNotStarted)
	case !o.agrees():
		if f.pass {
			add(&c.passAmbiguous)
		} else {
			add(&c.failUnseen)
		}
		for _, class := range o.classes {
			c.classes[class]++
		}
		if _, ok := c.witnesses[o.classes[0]]; !ok && len(o.classes) == 1 {
			c.witnesses[o.classes[0]] = witness{f, o.other}
		}
	case f.pass:
		add(&c.passAllowed)
	default:
		add(&c.failRefused)
	}
}

// TestEffective judges the bundles of all of upstream's fixtures, on several
// nodes. A pod that upstream allows is refused nowhere, and one that it refuses
// is refused or explained by another pod with the same bundles.
func TestEffective(t *testing.T) {
	fixturesOf(t)
	tallies, faults := tallies()
	for _, f := range faults {
		t.Error(f)
	}
	for _, v := range views() {
		c := tallies[v.name]
		if c.passAmbiguous > 0 {
			t.Errorf("%s: %d pods that upstream allows are refused", v.name, c.passAmbiguous)
		}
		t.Logf("%-40s pass %d: allowed %d, not started %d; fail %d: refused %d, not started %d, unseen %d: %v",
			v.name, c.passes, c.passAllowed, c.passNotStarted, c.fails, c.failRefused, c.failNotStarted, c.failUnseen, c.classes)
	}
}

// TestUpstreamSaysWhatTheFixturesAreFor holds the fixtures' directories, and
// the evaluator with names, to upstream's verdicts.
func TestUpstreamSaysWhatTheFixturesAreFor(t *testing.T) {
	list := fixturesOf(t)
	for i := range list {
		f := &list[i]
		if failed := upstream().Evaluate(f.pod, f.level, f.parsed()); (len(failed) == 0) != f.pass {
			t.Errorf("%s: %v", f, failed)
		}
	}
}

// TestSeccompDefault: where the kubelet runs with seccompDefault, no profile is
// an explicit Unconfined, and a policy that requires a profile is upstream's
// baseline.
func TestSeccompDefault(t *testing.T) {
	n := translate.NewNode(translate.Containerd2)
	n.SeccompDefault = true
	list, looked := fixturesOf(t), 0
	for i := range list {
		f := &list[i]
		if f.level != policy.Baseline || !(f.minor() >= 19 && strings.HasPrefix(f.name, "seccomp") || f.pass) {
			continue
		}
		b, err := n.Pod(f.pod)
		if err != nil {
			t.Fatal(err)
		}
		policies, err := policy.Parse("p", fmt.Appendf(nil,
			"apiVersion: nodeadmit.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: p}\nspec: {preset: baseline, version: %s, controls: {seccompProfile: {required: true}}}\n", f.version))
		if err != nil {
			t.Fatal(err)
		}
		v, err := judge(n, b, &policy.Set{Policies: policies})
		if err != nil {
			t.Fatal(err)
		}
		if v.refused == f.pass {
			t.Errorf("%s: refused is %v: %v", f, v.refused, v.texts)
		}
		looked++
	}
	if looked < 300 {
		t.Errorf("looked at %d fixtures", looked)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
