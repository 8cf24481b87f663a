package policy

import (
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

func TestSELinuxOptions(t *testing.T) {
	t.Parallel()
	label := func(l string) func(*specs.Spec) { return func(s *specs.Spec) { s.Process.SelinuxLabel = l } }
	typ := func(t string) func(*specs.Spec) { return label("system_u:system_r:" + t + ":s0:c1,c2") }
	unknown := func(s *specs.Spec) { typ("spc_t")(s); s.Linux.Seccomp = nil }
	runRuleTests(t, "seLinuxOptions", map[string]ruleTest{
		"privileged doesn't ask":                             {change: typ("spc_t"), want: Satisfied},
		"no label is satisfied":                              {level: Baseline, want: Satisfied},
		"container_t is allowed":                             {level: Baseline, version: "v1.0", change: typ("container_t"), want: Satisfied},
		"container_init_t is allowed":                        {level: Baseline, version: "v1.0", change: typ("container_init_t"), want: Satisfied},
		"container_kvm_t is allowed":                         {level: Restricted, version: "v1.0", change: typ("container_kvm_t"), want: Satisfied},
		"container_engine_t is refused in v1.30":             {level: Baseline, version: "v1.30", change: typ("container_engine_t"), want: Violated, says: "SELinux type container_engine_t is used"},
		"container_engine_t is allowed in v1.31":             {level: Baseline, version: "v1.31", change: typ("container_engine_t"), want: Satisfied},
		"container_engine_t is allowed in restricted v1.31":  {level: Restricted, version: "v1.31", change: typ("container_engine_t"), want: Satisfied},
		"spc_t is refused":                                   {level: Baseline, change: typ("spc_t"), want: Violated, says: "SELinux type spc_t is used"},
		"a user is refused":                                  {level: Baseline, change: label("unconfined_u:system_r:container_t:s0"), want: Violated, says: "SELinux user unconfined_u is used"},
		"a role is refused":                                  {level: Baseline, change: label("system_u:object_r:container_t:s0"), want: Violated, says: "SELinux role object_r is used"},
		"a level is anybody's":                               {level: Baseline, change: label("system_u:system_r:container_t:s0-s0:c0.c1023"), want: Satisfied},
		"a label without a level is read":                    {level: Baseline, change: label("system_u:system_r:container_t"), want: Satisfied},
		"a label without a type is refused":                  {level: Baseline, change: label("container_t"), want: Violated, says: "has no type"},
		"a sandbox's label is judged":                        {level: Baseline, kind: spec.KindSandbox, change: typ("unconfined_t"), want: Violated, says: "SELinux type unconfined_t"},
		"a sandbox with a good label waits":                  {level: Baseline, kind: spec.KindSandbox, change: typ("container_t"), want: Undetermined, says: "when the pod's containers"},
		"a sandbox without one waits":                        {level: Baseline, kind: spec.KindSandbox, want: Undetermined, says: "when the pod's containers"},
		"spc_t at a sandbox that may be privileged waits":    {level: Baseline, kind: spec.KindSandbox, change: unknown, want: Undetermined, says: "when the pod's containers"},
		"spc_t at a sandbox that isn't privileged doesn't":   {level: Baseline, kind: spec.KindSandbox, change: typ("spc_t"), want: Violated, says: "spc_t"},
		"without a process nothing can be told":              {level: Baseline, change: noProcess, want: Undetermined, says: "can't be told"},
		"a type is added to the preset's":                    {level: Baseline, settings: "{types: [spc_t]}", change: typ("spc_t"), want: Satisfied},
		"the preset's stay allowed":                          {level: Baseline, settings: "{types: [spc_t]}", change: typ("container_t"), want: Satisfied},
		"the types of v1.30 stay those of v1.30":             {level: Baseline, version: "v1.30", settings: "{types: [spc_t]}", change: typ("container_engine_t"), want: Violated, says: "container_engine_t"},
		"without a preset baseline's hold":                   {settings: "{}", change: typ("container_engine_t"), want: Satisfied},
		"without a preset spc_t is refused":                  {settings: "{}", change: typ("spc_t"), want: Violated, says: "spc_t"},
		"without a preset listed types stand alone":          {settings: "{types: [my_t]}", change: typ("container_t"), want: Violated, says: "container_t"},
		"a user may be allowed":                              {level: Baseline, settings: "{users: [staff_u]}", change: label("staff_u:system_r:container_t:s0"), want: Satisfied},
		"a role may be allowed":                              {level: Baseline, settings: "{roles: [staff_r]}", change: label("system_u:staff_r:container_t:s0"), want: Satisfied},
		"levels may be limited":                              {level: Baseline, settings: `{levels: ["s0:c1,*"]}`, change: typ("container_t"), want: Satisfied},
		"another level than the listed is refused":           {level: Baseline, settings: `{levels: ["s0:c9,*"]}`, change: typ("container_t"), want: Violated, says: "SELinux level"},
		"a label may be required":                            {level: Baseline, settings: "{required: true}", want: Violated, says: "there is no SELinux label"},
		"a required one may come with the sandbox's workers": {level: Baseline, settings: "{required: true}", kind: spec.KindSandbox, want: Undetermined, says: "when the pod's containers"},
	})
}
