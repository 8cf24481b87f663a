package policy

import (
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

func TestHostUsers(t *testing.T) {
	t.Parallel()
	joined := func(s *specs.Spec) {
		podUsers(s)
		s.Linux.Namespaces[len(s.Linux.Namespaces)-1].Path = "/proc/42/ns/user"
	}
	identity := userNamespaceOf(specs.LinuxIDMapping{ContainerID: 0, HostID: 0, Size: 4294967295})
	runRuleTests(t, "hostUsers", map[string]ruleTest{
		"no preset asks for a user namespace":          {level: Restricted, want: Satisfied},
		"a container without one is refused":           {settings: "{}", want: Violated, says: "the host's user namespace is used"},
		"a sandbox without one is refused":             {settings: "{}", kind: spec.KindSandbox, want: Violated, says: "the host's user namespace"},
		"it may be allowed":                            {settings: "{allow: true}", want: Satisfied},
		"one of its own satisfies":                     {settings: "{}", change: podUsers, want: Satisfied},
		"at the sandbox too":                           {settings: "{}", kind: spec.KindSandbox, change: podUsers, want: Satisfied},
		"a map that changes no id is none":             {settings: "{}", change: identity, want: Violated, says: "the host's user namespace"},
		"one behind a path is assumed offline":         {settings: "{}", change: joined, want: Satisfied, says: "taken as the pod's own"},
		"one behind a path is compared on a live look": {settings: "{}", change: joined, host: machine{}, want: Satisfied},
	})
}
