package policy

import (
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

func TestSeccompProfile(t *testing.T) {
	t.Parallel()
	none := func(s *specs.Spec) { s.Linux.Seccomp = nil }
	allowAll := func(s *specs.Spec) { s.Linux.Seccomp.DefaultAction = specs.ActAllow }
	runtimeDefault := annotate("io.kubernetes.cri-o.SeccompProfilePath", "runtime/default")
	localhost := annotate("io.kubernetes.cri-o.SeccompProfilePath", "localhost/strict.json")
	runRuleTests(t, "seccompProfile", map[string]ruleTest{
		"a profile satisfies baseline":                           {level: Baseline, want: Satisfied},
		"a profile satisfies restricted":                         {level: Restricted, want: Satisfied},
		"none is satisfied in baseline, with a note":             {level: Baseline, change: none, want: Satisfied, says: "unset and Unconfined look the same"},
		"none is satisfied in baseline v1.0":                     {level: Baseline, version: "v1.0", change: none, want: Satisfied, says: "unset and Unconfined"},
		"none is refused in restricted":                          {level: Restricted, change: none, want: Violated, says: "there is no seccomp profile"},
		"none is refused in restricted v1.19":                    {level: Restricted, version: "v1.19", change: none, want: Violated, says: "there is no seccomp profile"},
		"none is baseline's in restricted v1.18":                 {level: Restricted, version: "v1.18", change: none, want: Satisfied, says: "unset and Unconfined"},
		"a profile that allows all is weak and allowed":          {level: Baseline, change: allowAll, want: Satisfied, says: "the seccomp profile is weak"},
		"upstream's restricted takes any Localhost profile":      {level: Restricted, change: allowAll, want: Satisfied, says: "the seccomp profile is weak"},
		"a policy can refuse it":                                 {level: Baseline, settings: "{refuseAllowAll: true}", change: allowAll, want: Violated, says: "lets every system call through"},
		"refusing it doesn't make baseline require one":          {level: Baseline, settings: "{refuseAllowAll: true}", change: none, want: Satisfied, says: "unset and Unconfined"},
		"baseline may require one":                               {level: Baseline, settings: "{required: true}", change: none, want: Violated, says: "there is no seccomp profile"},
		"restricted may be told not to":                          {level: Restricted, settings: "{required: false}", change: none, want: Satisfied, says: "unset and Unconfined"},
		"without a preset it is required":                        {settings: "{}", change: none, want: Violated, says: "there is no seccomp profile"},
		"a sandbox waits":                                        {level: Restricted, kind: spec.KindSandbox, change: none, want: Undetermined, says: "when the pod's containers are made"},
		"types imply that one is required":                       {level: Baseline, settings: "{types: [RuntimeDefault, Localhost]}", change: none, want: Violated, says: "there is no seccomp profile"},
		"both types are any profile":                             {level: Baseline, settings: "{types: [RuntimeDefault, Localhost]}", want: Satisfied},
		"containerd doesn't say of which type one is":            {level: Baseline, settings: "{types: [RuntimeDefault]}", want: Undetermined, says: "whether the seccomp profile is RuntimeDefault can't be told"},
		"CRI-O says that it is the runtime's":                    {level: Baseline, settings: "{types: [RuntimeDefault]}", engine: spec.CRIO, change: runtimeDefault, want: Satisfied},
		"CRI-O says that it is a file":                           {level: Baseline, settings: "{types: [RuntimeDefault]}", engine: spec.CRIO, change: localhost, want: Violated, says: "of type Localhost"},
		"containerd's pods can't say so with CRI-O's key":        {level: Baseline, settings: "{types: [RuntimeDefault]}", change: runtimeDefault, want: Undetermined, says: "can't be told"},
		"a sandbox without a profile waits outside the preset":   {settings: "{}", kind: spec.KindSandbox, change: none, want: Undetermined, says: "when the pod's containers"},
		"a container outside Kubernetes is judged in restricted": {level: Restricted, engine: spec.Podman, kind: spec.KindUnmanaged, change: none, want: Violated, says: "there is no seccomp profile"},
	})
}
