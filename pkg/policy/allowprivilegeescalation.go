package policy

import (
	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// allowPrivilegeEscalation
//
// A process must not gain more privileges than its parent has, as through a
// set-user-ID file.
//
// Reads: process.noNewPrivileges.
// Known: at the container. A sandbox's own value is the engine's.
// Settings: allow (true or false; default false).
// Can't see: nothing.
// Upstream: restricted since v1.8, Privilege escalation
// (check_allowPrivilegeEscalation.go).
var allowPrivilegeEscalationControl = Control{
	Name:  "allowPrivilegeEscalation",
	reads: []string{"process"},
	preset: func(l Level, v Version) rule {
		if l != Restricted || !v.atLeast(8) {
			return nil
		}
		return allowPrivilegeEscalation{}
	},
	parse: func(d *decoder, settings *strictyaml.Object, _ rule) rule {
		return allowPrivilegeEscalation{allow: d.allowSetting(settings)}
	},
}

type allowPrivilegeEscalation struct{ allow bool }

func (r allowPrivilegeEscalation) evaluate(in *spec.Intent) []finding {
	f := in.NoNewPrivileges
	switch {
	case r.allow:
		return nil
	case in.Kind == spec.KindSandbox:
		return waits(f.Source)
	case f.Certainty == spec.Unknown:
		return []finding{undetermined(f.Source, "whether it can gain privileges can't be told")}
	case f.Value:
		return nil
	}
	return []finding{violated(f.Source, "privilege escalation is possible (noNewPrivileges is off)")}
}
