package policy

import (
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

func hasCapabilities(names ...string) func(*specs.Spec) {
	return func(s *specs.Spec) {
		s.Process.Capabilities = &specs.LinuxCapabilities{}
		for _, n := range names {
			s.Process.Capabilities.Bounding = append(s.Process.Capabilities.Bounding, "CAP_"+n)
		}
	}
}

func TestCapabilitiesThatMustBeDropped(t *testing.T) {
	t.Parallel()
	inherited := func(s *specs.Spec) {
		s.Process.Capabilities = &specs.LinuxCapabilities{Inheritable: []string{"cap_chown"}}
	}
	defaults := hasCapabilities(spec.NewEngine(spec.Containerd).DefaultCapabilities...)
	runRuleTests(t, "capabilities", map[string]ruleTest{
		"restricted v1.21 is baseline":                          {level: Restricted, version: "v1.21", change: defaults, want: Satisfied},
		"restricted v1.22 wants all dropped":                    {level: Restricted, version: "v1.22", change: defaults, want: Violated, says: "AUDIT_WRITE, CHOWN, DAC_OVERRIDE, FOWNER and 9 more are not dropped"},
		"restricted v1.25 wants all dropped":                    {level: Restricted, version: "v1.25", change: defaults, want: Violated, says: "are not dropped"},
		"none is satisfied":                                     {level: Restricted, change: hasCapabilities(), want: Satisfied},
		"no section at all is none":                             {level: Restricted, change: func(s *specs.Spec) { s.Process.Capabilities = nil }, want: Satisfied},
		"NET_BIND_SERVICE may be added back":                    {level: Restricted, change: hasCapabilities("NET_BIND_SERVICE"), want: Satisfied},
		"CHOWN may not":                                         {level: Restricted, change: hasCapabilities("CHOWN"), want: Violated, says: "CHOWN is not dropped"},
		"in any of the sets":                                    {level: Restricted, change: inherited, want: Violated, says: "CHOWN is not dropped"},
		"SYS_ADMIN is named once":                               {level: Restricted, change: hasCapabilities("SYS_ADMIN"), want: Violated, says: "SYS_ADMIN is added\n"},
		"baseline allows CHOWN":                                 {level: Baseline, change: hasCapabilities("CHOWN"), want: Satisfied},
		"what a policy allows may be there in restricted":       {level: Restricted, settings: "{allowAdd: [CHOWN]}", change: hasCapabilities("CHOWN", "NET_BIND_SERVICE"), want: Satisfied},
		"a capability that nobody knows is refused":             {level: Restricted, change: hasCapabilities("FOO"), want: Violated, says: "FOO is added"},
		"drop ALL satisfies a drop of NET_RAW (CASE 3)":         {settings: "{requireDrop: [NET_RAW]}", change: hasCapabilities(), want: Satisfied},
		"NET_RAW that is there is not dropped":                  {level: Baseline, settings: "{requireDrop: [NET_RAW]}", change: defaults, want: Violated, says: "NET_RAW is not dropped"},
		"others may be there then":                              {level: Baseline, settings: "{requireDrop: [NET_RAW]}", change: hasCapabilities("CHOWN"), want: Satisfied},
		"baseline allows no drop to be skipped":                 {level: Baseline, settings: "{requireDrop: [CHOWN]}", change: hasCapabilities("CHOWN"), want: Violated, says: "CHOWN is not dropped"},
		"all in any case of letters (CASE 4)":                   {settings: `{requireDrop: ["all"]}`, change: hasCapabilities("CHOWN"), want: Violated, says: "CHOWN is not dropped"},
		"all with nothing left is satisfied":                    {settings: `{requireDrop: ["all"]}`, change: hasCapabilities(), want: Satisfied},
		"all with the prefix":                                   {settings: `{requireDrop: [CAP_ALL]}`, change: hasCapabilities("CHOWN"), want: Violated, says: "CHOWN is not dropped"},
		"baseline's list doesn't stand against a drop of all":   {level: Baseline, settings: "{requireDrop: [ALL]}", change: hasCapabilities("CHOWN"), want: Violated, says: "CHOWN is not dropped"},
		"a policy's own list does":                              {level: Baseline, settings: "{requireDrop: [ALL], allowAdd: [CHOWN]}", change: hasCapabilities("CHOWN"), want: Satisfied},
		"a sandbox keeps the engine's default in restricted":    {level: Restricted, kind: spec.KindSandbox, change: defaults, want: Undetermined, says: "when the pod's containers"},
		"a sandbox with more is refused":                        {level: Restricted, kind: spec.KindSandbox, change: hasCapabilities("SYS_ADMIN"), want: Violated, says: "SYS_ADMIN is added"},
		"a policy that allows all may be told to in restricted": {level: Restricted, settings: "{allowAdd: [ALL]}", change: defaults, want: Satisfied},
	})
}
