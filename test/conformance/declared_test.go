package conformance

import (
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

// declaredAllows judges the pod object by a policy that is a preset.
func declaredAllows(p *corev1.Pod, s standard) bool {
	return s.set().EvaluateDeclared(upstream().Declare(p)).Allowed
}

// TestDeclared judges all of upstream's fixtures as pod objects: the verdict is
// that of the directory they are in.
func TestDeclared(t *testing.T) {
	list := fixturesOf(t)
	for i := range list {
		f := &list[i]
		if got := declaredAllows(f.pod, f.standard); got != f.pass {
			t.Errorf("%s: allowed is %v, want %v", f, got, f.pass)
		}
	}
}

// TestDeclaredOfRandomPods judges random pods as objects, and as their
// containers one by one: a pod is refused if one of them is, which exemptions
// rest on.
func TestDeclaredOfRandomPods(t *testing.T) {
	for i := range *pods {
		seed := *seed + uint64(i)
		g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))}
		p := randomPod(g.Rand)
		for _, level := range []policy.Level{policy.Baseline, policy.Restricted} {
			s := g.randomStandard(level)
			failed := upstream().Evaluate(p, s.level, s.parsed())
			if got := declaredAllows(p, s); got != (len(failed) == 0) {
				t.Fatalf("seed %d: %s: allowed is %v, upstream has %v\n%s", seed, s, got, failed, text(p))
			}
			d := upstream().Declare(p)
			one := false
			for c := range d.Containers {
				one = one || len(d.Upstream(s.level, s.parsed(), c)) > 0
			}
			if one != (len(failed) > 0) {
				t.Fatalf("seed %d: %s: one of the containers fails is %v, upstream has %v\n%s", seed, s, one, failed, text(p))
			}
		}
	}
}
