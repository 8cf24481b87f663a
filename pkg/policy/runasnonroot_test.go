package policy

import (
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

func runAs(uid, gid uint32, additional ...uint32) func(*specs.Spec) {
	return func(s *specs.Spec) { s.Process.User = specs.User{UID: uid, GID: gid, AdditionalGids: additional} }
}

// joinedUsers is a user namespace that another process made.
func joinedUsers(s *specs.Spec) {
	podUsers(s)
	s.Linux.Namespaces[len(s.Linux.Namespaces)-1].Path = "/proc/42/ns/user"
}

func TestRunAsNonRoot(t *testing.T) {
	t.Parallel()
	root := runAs(0, 0)
	identity := userNamespaceOf(specs.LinuxIDMapping{ContainerID: 0, HostID: 0, Size: 4294967295})
	runRuleTests(t, "runAsNonRoot", map[string]ruleTest{
		"baseline allows root":                                 {level: Baseline, change: root, want: Satisfied},
		"root is refused":                                      {level: Restricted, change: root, want: Violated, says: "it runs as root (uid 0)"},
		"root is refused in v1.0":                              {level: Restricted, version: "v1.0", change: root, want: Violated, says: "it runs as root"},
		"a user is satisfied, whoever named it":                {level: Restricted, want: Satisfied},
		"root's group is nobody's business here":               {level: Restricted, change: runAs(1000, 0, 0), want: Satisfied},
		"root in a user namespace is refused in v1.34":         {level: Restricted, version: "v1.34", change: both(root, podUsers), want: Violated, says: "it runs as root"},
		"root in a user namespace is allowed in v1.35":         {level: Restricted, version: "v1.35", change: both(root, podUsers), want: Satisfied},
		"root in a map that changes no id is refused in v1.35": {level: Restricted, version: "v1.35", change: both(root, identity), want: Violated, says: "it runs as root"},
		"root in a namespace behind a path is assumed offline": {level: Restricted, change: both(root, joinedUsers), want: Satisfied, says: "taken as the pod's own"},
		"root in a namespace that is gone can't be told":       {level: Restricted, host: goneMachine{}, change: both(root, joinedUsers), want: Undetermined, says: "can't be told"},
		"a user in a namespace that is gone is satisfied":      {level: Restricted, host: goneMachine{}, change: joinedUsers, want: Satisfied},
		"a sandbox waits":                                      {level: Restricted, kind: spec.KindSandbox, change: root, want: Undetermined, says: "when the pod's containers"},
		"without a process nothing can be told":                {level: Restricted, change: noProcess, want: Undetermined, says: "can't be told"},
		"a policy can require it alone":                        {settings: "{}", change: root, want: Violated, says: "it runs as root"},
		"and refuse root in a user namespace then":             {settings: "{}", change: both(root, podUsers), want: Violated, says: "it runs as root"},
		"or allow it": {settings: "{allowInUserNamespace: true}", change: both(root, podUsers), want: Satisfied},
		"restricted may be told not to require it":                     {level: Restricted, settings: "{required: false}", change: root, want: Satisfied},
		"restricted may be told not to relax":                          {level: Restricted, settings: "{allowInUserNamespace: false}", change: both(root, podUsers), want: Violated, says: "it runs as root"},
		"an image user whose name is root's is root":                   {level: Restricted, change: runAs(0, 1000), want: Violated, says: "it runs as root"},
		"a container outside Kubernetes is judged as any other by uid": {level: Restricted, engine: spec.Podman, kind: spec.KindUnmanaged, change: root, want: Violated, says: "it runs as root"},
	})
}
