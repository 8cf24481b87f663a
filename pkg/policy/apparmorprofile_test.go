package policy

import (
	"errors"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

func TestAppArmorProfile(t *testing.T) {
	t.Parallel()
	profile := func(name string) func(*specs.Spec) { return func(s *specs.Spec) { s.Process.ApparmorProfile = name } }
	has, hasNot, broken := machine{appArmor: true}, machine{}, machine{appArmorErr: errors.New("permission denied")}
	engines := profile("cri-containerd.apparmor.d")
	runRuleTests(t, "appArmorProfile", map[string]ruleTest{
		"privileged doesn't ask":                               {host: has, want: Satisfied},
		"the engine's profile satisfies":                       {level: Baseline, version: "v1.0", host: has, change: engines, want: Satisfied},
		"a Localhost profile satisfies":                        {level: Restricted, host: has, change: profile("k8s-apparmor-example-deny-write"), want: Satisfied},
		"none is refused where the host has AppArmor":          {level: Baseline, host: has, want: Violated, says: "there is no AppArmor profile"},
		"none is refused in restricted too":                    {level: Restricted, version: "v1.0", host: has, want: Violated, says: "there is no AppArmor profile"},
		"unconfined by name is none":                           {level: Baseline, host: has, change: profile("unconfined"), want: Violated, says: "there is no AppArmor profile"},
		"unconfined in a namespace is none":                    {level: Baseline, host: has, change: profile(":root:unconfined"), want: Violated, says: "there is no AppArmor profile"},
		"unconfined behind slashes is none":                    {level: Baseline, host: has, change: profile(":root://unconfined"), want: Violated, says: "there is no AppArmor profile"},
		"none is satisfied where the host has none":            {level: Baseline, host: hasNot, want: Satisfied},
		"unconfined is satisfied where the host has none":      {level: Baseline, host: hasNot, change: profile("unconfined"), want: Satisfied},
		"none is assumed offline":                              {level: Baseline, want: Satisfied, says: "taken to have no AppArmor"},
		"a host that can't tell leaves it undetermined":        {level: Baseline, host: broken, want: Undetermined, says: "can't be told"},
		"a host that can't tell doesn't matter with a profile": {level: Baseline, host: broken, change: engines, want: Satisfied},
		"a sandbox never has one and waits":                    {level: Restricted, kind: spec.KindSandbox, host: has, want: Undetermined, says: "when the pod's containers"},
		"without a process nothing can be told":                {level: Baseline, host: has, change: noProcess, want: Undetermined, says: "can't be told"},
		"a listed profile satisfies":                           {level: Baseline, settings: `{profiles: ["cri-*"]}`, host: has, change: engines, want: Satisfied},
		"another than the listed is refused":                   {level: Baseline, settings: `{profiles: ["crio-default"]}`, host: has, change: engines, want: Violated, says: "AppArmor profile cri-containerd.apparmor.d is used"},
		"a node without AppArmor may be refused":               {level: Baseline, settings: "{onHostWithout: Deny}", host: hasNot, want: Violated, says: "as on a node without AppArmor"},
		"that node is refused offline as well":                 {level: Baseline, settings: "{onHostWithout: Deny}", want: Violated, says: "as on a node without AppArmor"},
		"and may be allowed by name":                           {level: Baseline, settings: "{onHostWithout: Allow}", host: hasNot, want: Satisfied},
	})
}
