package policy

import (
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// The controls that only permit or refuse.

func TestAllowPrivilegeEscalation(t *testing.T) {
	t.Parallel()
	noNewPrivileges := func(s *specs.Spec) { s.Process.NoNewPrivileges = true }
	runRuleTests(t, "allowPrivilegeEscalation", map[string]ruleTest{
		"baseline allows it":                    {level: Baseline, want: Satisfied},
		"restricted v1.7 doesn't ask":           {level: Restricted, version: "v1.7", want: Satisfied},
		"restricted v1.8 refuses it":            {level: Restricted, version: "v1.8", want: Violated, says: "privilege escalation is possible"},
		"restricted refuses it":                 {level: Restricted, want: Violated, says: "privilege escalation is possible"},
		"noNewPrivileges satisfies":             {level: Restricted, change: noNewPrivileges, want: Satisfied},
		"a sandbox's own value isn't judged":    {level: Restricted, kind: spec.KindSandbox, want: Undetermined, says: "when the pod's containers"},
		"without a process nothing can be told": {level: Restricted, change: noProcess, want: Undetermined, says: "can't be told"},
		"a policy can allow it":                 {level: Restricted, settings: "{allow: true}", want: Satisfied},
		"a policy can refuse it alone":          {settings: "{}", want: Violated, says: "privilege escalation is possible"},
	})
}

func TestReadOnlyRootFilesystem(t *testing.T) {
	t.Parallel()
	readOnly := func(s *specs.Spec) { s.Root.Readonly = true }
	runRuleTests(t, "readOnlyRootFilesystem", map[string]ruleTest{
		"no preset asks for it":                 {level: Restricted, want: Satisfied},
		"a writable one is refused":             {settings: "{}", want: Violated, says: "the root filesystem can be written"},
		"a read-only one satisfies":             {settings: "{}", change: readOnly, want: Satisfied},
		"it need not be required":               {settings: "{required: false}", want: Satisfied},
		"a sandbox waits":                       {settings: "{}", kind: spec.KindSandbox, change: readOnly, want: Undetermined, says: "when the pod's containers"},
		"without a root nothing can be told":    {settings: "{}", change: func(s *specs.Spec) { s.Root = nil }, want: Undetermined, says: "can't be told"},
		"without a process it can all the same": {settings: "{}", change: both(readOnly, noProcess), want: Satisfied},
	})
}

func TestCgroupWritable(t *testing.T) {
	t.Parallel()
	writable := func(s *specs.Spec) { s.Mounts[2].Options = []string{"rw"} }
	v2 := func(s *specs.Spec) { s.Mounts[2] = specs.Mount{Destination: "/sys/fs/cgroup", Type: "cgroup2"} }
	again := func(s *specs.Spec) { s.Mounts = append(s.Mounts, specs.Mount{Destination: "/x", Type: "cgroup2"}) }
	runRuleTests(t, "cgroupWritable", map[string]ruleTest{
		"no preset asks":                          {level: Restricted, change: writable, want: Satisfied},
		"a read-only one satisfies":               {settings: "{}", want: Satisfied},
		"a writable one is refused":               {settings: "{}", change: writable, want: Violated, says: "the cgroup filesystem can be written"},
		"one without options is writable":         {settings: "{}", change: v2, want: Violated, says: "the cgroup filesystem can be written"},
		"a second one counts, wherever it is":     {settings: "{}", change: again, want: Violated, says: "the cgroup filesystem can be written"},
		"it may be allowed":                       {settings: "{allow: true}", change: writable, want: Satisfied},
		"a sandbox waits":                         {settings: "{}", kind: spec.KindSandbox, want: Undetermined, says: "when the pod's containers"},
		"a writable /sys is another control's":    {settings: "{}", change: func(s *specs.Spec) { s.Mounts[1].Options = nil }, want: Satisfied},
		"the cgroup filesystem isn't a host path": {level: Restricted, settings: "{}", change: writable, want: Violated, says: "the cgroup filesystem can be written"},
	})
}

func TestSysWritable(t *testing.T) {
	t.Parallel()
	writable := func(s *specs.Spec) { s.Mounts[1].Options = []string{"rw"} }
	runRuleTests(t, "sysWritable", map[string]ruleTest{
		"no preset asks":                    {level: Restricted, change: writable, want: Satisfied},
		"a read-only one satisfies":         {settings: "{}", want: Satisfied},
		"a writable one is refused":         {settings: "{}", change: writable, want: Violated, says: "/sys can be written"},
		"it may be allowed":                 {settings: "{allow: true}", change: writable, want: Satisfied},
		"a sandbox's is the pod's, waiting": {settings: "{}", kind: spec.KindSandbox, change: writable, want: Undetermined, says: "when the pod's containers"},
	})
}
