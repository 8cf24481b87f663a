package policy

import (
	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// hostNetwork, hostPID, hostIPC
//
// The container must not run in the host's network, PID or IPC namespace.
//
// Reads: linux.namespaces. A missing entry is the host's.
// Known: at the sandbox, and again at the container, where the namespace behind
// a path is compared with the host's own by inode, and once the process exists,
// the process's own. Offline a path is taken as the pod's own, and said to be
// assumed.
// Settings: allow (true or false; default false).
// Can't see: nothing on a live look.
// Upstream: baseline, Host Namespaces (check_hostNamespaces.go).
var (
	hostNetworkControl = hostNamespaceControl("hostNetwork", "network",
		func(in *spec.Intent) spec.Fact[spec.NamespaceMode] { return in.HostNetwork })
	hostPIDControl = hostNamespaceControl("hostPID", "PID",
		func(in *spec.Intent) spec.Fact[spec.NamespaceMode] { return in.HostPID })
	hostIPCControl = hostNamespaceControl("hostIPC", "IPC",
		func(in *spec.Intent) spec.Fact[spec.NamespaceMode] { return in.HostIPC })
)

type namespaceFact func(*spec.Intent) spec.Fact[spec.NamespaceMode]

type hostNamespace struct {
	word  string
	fact  namespaceFact
	allow bool
}

func hostNamespaceControl(name, word string, fact namespaceFact) Control {
	return Control{
		Name:  name,
		reads: []string{"linux"},
		preset: func(l Level, _ Version) rule {
			if !baselineUp(l) {
				return nil
			}
			return hostNamespace{word: word, fact: fact}
		},
		parse: func(d *decoder, settings *strictyaml.Object, _ rule) rule {
			return hostNamespace{word: word, fact: fact, allow: d.allowSetting(settings)}
		},
	}
}

func (r hostNamespace) evaluate(in *spec.Intent) []finding {
	if r.allow {
		return nil
	}
	f := r.fact(in)
	switch {
	case f.Certainty == spec.Unknown:
		return []finding{undetermined(f.Source, "whose "+r.word+" namespace it uses can't be told")}
	case f.Value == spec.NamespaceHost:
		return []finding{violated(f.Source, "the host's "+r.word+" namespace is used")}
	case f.Certainty == spec.Assumed:
		return []finding{assumption(f.Source, "the "+r.word+" namespace is taken as the pod's own")}
	}
	return nil
}
