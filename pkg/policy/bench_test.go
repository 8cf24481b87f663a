package policy

import (
	"fmt"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// budgetAllocs is how many allocations all controls together may make on one
// pod. Their time is to be under 4 microseconds.
const budgetAllocs = 50

// allControls is a policy that has every control, restricted's with it.
func allControls(t testing.TB) *Set {
	t.Helper()
	text := "apiVersion: " + APIVersion + "\nkind: NodePolicy\nmetadata: {name: p}\nspec:\n  preset: restricted\n  controls:\n"
	for _, c := range Controls() {
		if !c.Restricts(Restricted, Version{latest: true}) {
			text += "    " + c.Name + ": {}\n"
		}
	}
	policies, err := Parse("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(policies[0].active), len(Controls()); got != want {
		t.Fatalf("%d of %d controls", got, want)
	}
	return &Set{Policies: policies}
}

// benchPods are a pod's sandbox, a container that is refused for much, and one
// that passes.
func benchPods(t testing.TB) map[string]*spec.Intent {
	t.Helper()
	usual := both(bind("/etc/hosts", "/var/lib/kubelet/pods/"+testUID+"/etc-hosts"), bind("/data", testVolumes+"kubernetes.io~empty-dir/data"),
		bind("/config", testVolumes+"kubernetes.io~configmap/config"), bind("/var/run/secrets/kubernetes.io/serviceaccount", testVolumes+"kubernetes.io~projected/token"))
	honest := both(usual, podUsers, hasCapabilities(), func(s *specs.Spec) { s.Process.NoNewPrivileges, s.Root.Readonly = true, true })
	return map[string]*spec.Intent{
		"sandbox":   ruleIntent(t, ruleTest{kind: spec.KindSandbox}),
		"plain":     ruleIntent(t, ruleTest{change: usual}),
		"honest":    ruleIntent(t, ruleTest{change: honest}),
		"malicious": ruleIntent(t, ruleTest{change: both(usual, runAs(0, 0), bind("/host", "/"), hasCapabilities("SYS_ADMIN"), hostNamespaceOf(specs.NetworkNamespace))}),
	}
}

func BenchmarkEvaluate(b *testing.B) {
	for name, in := range benchPods(b) {
		b.Run(name, func(b *testing.B) {
			set := allControls(b)
			b.ReportAllocs()
			for b.Loop() {
				set.Evaluate(in)
			}
		})
	}
}

func TestAllControlsStayWithinTheBudgetOfAllocations(t *testing.T) {
	set := allControls(t)
	for name, in := range benchPods(t) {
		if n := testing.AllocsPerRun(100, func() { set.Evaluate(in) }); n > budgetAllocs {
			t.Errorf("%s: %v allocations, want at most %d", name, n, budgetAllocs)
		}
	}
}

func TestTheOrderOfControlsIsTheOrderOfViolations(t *testing.T) {
	t.Parallel()
	in := benchPods(t)["malicious"]
	a, b := rulePolicy(t, Restricted, "", "", ""), rulePolicy(t, Baseline, "", "devices", "{}")
	b.Name = "q"
	place := map[string]int{}
	for i, name := range ControlNames() {
		place[name] = i
	}
	var last, n int
	seen := map[string]bool{}
	for _, v := range (&Set{Policies: []*Policy{a, b}}).Evaluate(in).Violations {
		if place[v.Control] < last {
			t.Errorf("%s comes after a less serious control", v.Control)
		}
		last = place[v.Control]
		n++
		seen[fmt.Sprint(v.Policy, v.Control)] = true
	}
	if n < 6 || !seen["qhostNetwork"] || !seen["phostNetwork"] {
		t.Errorf("%d violations: %v", n, seen)
	}
}
