package policy

import (
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

func TestEnvironment(t *testing.T) {
	t.Parallel()
	env := func(list ...string) func(*specs.Spec) {
		return func(s *specs.Spec) { s.Process.Env = append(s.Process.Env, list...) }
	}
	preload := env("LD_PRELOAD=/proc/self/cwd/evil.so")
	runRuleTests(t, "environment", map[string]ruleTest{
		"no preset asks":                          {level: Restricted, change: preload, want: Satisfied},
		"a plain container sets none":             {settings: "{}", want: Satisfied},
		"LD_PRELOAD is refused":                   {settings: "{}", change: preload, want: Violated, says: "LD_PRELOAD is set to /proc/self/cwd/evil.so"},
		"LD_LIBRARY_PATH is refused":              {settings: "{}", change: env("LD_LIBRARY_PATH=/x"), want: Violated, says: "LD_LIBRARY_PATH"},
		"LD_AUDIT is refused":                     {settings: "{}", change: env("LD_AUDIT="), want: Violated, says: `LD_AUDIT is set to ""`},
		"others of the loader's are not":          {settings: "{}", change: env("LD_BIND_NOW=1", "LDFLAGS=-s", "GLIBC_TUNABLES=x"), want: Satisfied},
		"a variable without a value is refused":   {settings: "{}", change: env("LD_PRELOAD"), want: Violated, says: "LD_PRELOAD"},
		"each of two is judged":                   {settings: `{allow: [{name: LD_PRELOAD, value: /a}]}`, change: env("LD_PRELOAD=/a", "LD_PRELOAD=/b"), want: Violated, says: "LD_PRELOAD is set to /b\n"},
		"a name allows any value":                 {settings: "{allow: [LD_PRELOAD]}", change: preload, want: Satisfied},
		"a name is no other's":                    {settings: "{allow: [LD_AUDIT]}", change: preload, want: Violated, says: "LD_PRELOAD"},
		"a value's pattern crosses slashes":       {settings: `{allow: [{name: LD_LIBRARY_PATH, value: "/usr/local/*"}]}`, change: env("LD_LIBRARY_PATH=/usr/local/cuda/lib64"), want: Satisfied},
		"another value than the allowed isn't":    {settings: `{allow: [{name: LD_LIBRARY_PATH, value: "/usr/local/*"}]}`, change: env("LD_LIBRARY_PATH=/tmp"), want: Violated, says: "/tmp"},
		"a name may be a pattern":                 {settings: `{allow: [{name: "LD_*"}]}`, change: preload, want: Satisfied},
		"a sandbox's is judged":                   {settings: "{}", kind: spec.KindSandbox, change: preload, want: Violated, says: "LD_PRELOAD"},
		"a sandbox without waits":                 {settings: "{}", kind: spec.KindSandbox, want: Undetermined, says: "when the pod's containers"},
		"without a process nothing can be told":   {settings: "{}", change: noProcess, want: Undetermined, says: "can't be told"},
		"what a message quotes is on one line":    {settings: "{}", change: env("LD_PRELOAD=a\nb"), want: Violated, says: `"a\nb"`},
		"lower case is another variable's letter": {settings: "{}", change: env("ld_preload=/x"), want: Satisfied},
	})
}
