package policy

import (
	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// hostUsers
//
// The pod must have a user namespace of its own (hostUsers: false).
//
// Reads: linux.namespaces, linux.uidMappings, linux.gidMappings. A map that
// leaves root what it is on the host counts as none.
// Known: at the sandbox. A namespace behind a path is compared with the host's
// on a live look, and offline said to be assumed.
// Settings: allow (true or false; default false).
// Can't see: nothing.
// Upstream: none; no preset has it.
var hostUsersControl = Control{
	Name:   "hostUsers",
	reads:  []string{"linux"},
	preset: never,
	parse: func(d *decoder, settings *strictyaml.Object, _ rule) rule {
		return hostUsers{allow: d.allowSetting(settings)}
	},
}

type hostUsers struct{ allow bool }

func (r hostUsers) evaluate(in *spec.Intent) []finding {
	f := in.UserNamespace
	switch {
	case r.allow:
		return nil
	case f.Certainty == spec.Unknown:
		return []finding{undetermined(f.Source, "whose user namespace it uses can't be told")}
	case f.Value == spec.NamespaceHost:
		return []finding{violated(f.Source, "the host's user namespace is used")}
	case f.Certainty == spec.Assumed:
		return []finding{assumption(f.Source, "the user namespace is taken as the pod's own")}
	}
	return nil
}

// userNamespace says for a rule that a user namespace relaxes whether it does.
// The findings are what there is to say then, or instead of a violation.
func userNamespace(in *spec.Intent) (relaxed bool, findings []finding) {
	f := in.UserNamespace
	switch {
	case f.Certainty == spec.Unknown:
		return true, []finding{undetermined(f.Source, "whether it has a user namespace of its own can't be told")}
	case f.Value == spec.NamespaceHost:
		return false, nil
	case f.Certainty == spec.Assumed:
		return true, []finding{assumption(f.Source, "the user namespace is taken as the pod's own, in which this is allowed")}
	}
	return true, nil
}
