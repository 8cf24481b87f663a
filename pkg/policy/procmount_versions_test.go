package policy

import (
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

func TestProcMountInAUserNamespace(t *testing.T) {
	t.Parallel()
	unmasked := func(s *specs.Spec) { s.Linux.MaskedPaths, s.Linux.ReadonlyPaths = nil, nil }
	runRuleTests(t, "procMount", map[string]ruleTest{
		"baseline v1.34 refuses it":                     {level: Baseline, version: "v1.34", change: both(unmasked, podUsers), want: Violated, says: "/proc is not masked"},
		"baseline v1.35 allows it":                      {level: Baseline, version: "v1.35", change: both(unmasked, podUsers), want: Satisfied},
		"baseline allows it in no other":                {level: Baseline, change: unmasked, want: Violated, says: "/proc is not masked"},
		"restricted v1.34 refuses it":                   {level: Restricted, version: "v1.34", change: both(unmasked, podUsers), want: Violated, says: "/proc is not masked"},
		"restricted v1.35 refuses it":                   {level: Restricted, version: "v1.35", change: both(unmasked, podUsers), want: Violated, says: "/proc is not masked"},
		"restricted refuses it":                         {level: Restricted, change: both(unmasked, podUsers), want: Violated, says: "/proc is not masked"},
		"a namespace behind a path is assumed":          {level: Baseline, change: both(unmasked, joinedUsers), want: Satisfied, says: "taken as the pod's own"},
		"a namespace that is gone can't be told":        {level: Baseline, host: goneMachine{}, change: both(unmasked, joinedUsers), want: Undetermined, says: "can't be told"},
		"CRI-O masks nothing in a sandbox":              {level: Baseline, engine: spec.CRIO, kind: spec.KindSandbox, change: unmasked, want: Undetermined, says: "when the pod's containers"},
		"containerd's sandbox with an open one is seen": {level: Baseline, kind: spec.KindSandbox, change: unmasked, want: Violated, says: "/proc is not masked"},
	})
}
