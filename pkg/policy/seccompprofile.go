package policy

import (
	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// seccompProfile
//
// System calls must be filtered by a seccomp profile.
//
// Reads: linux.seccomp; on CRI-O its annotation for the profile's type.
// Known: at the container. Of a privileged container it is judged by the control
// privileged alone.
// Settings: required (true or false; default false in baseline, else true),
// refuseAllowAll (true or false: a profile that lets every call through is as
// none), types (RuntimeDefault, Localhost; implies required, and is known on
// CRI-O alone where only one is listed).
// Can't see: unset from Unconfined: in baseline, which allows the one and forbids
// the other, no profile is satisfied, with a note. RuntimeDefault from Localhost
// on containerd.
// Upstream: baseline, Seccomp (check_seccompProfile_baseline.go); restricted
// since v1.19 (check_seccompProfile_restricted.go).
var seccompProfileControl = Control{
	Name:              "seccompProfile",
	reads:             []string{"linux"},
	followsPrivileged: true,
	preset: func(l Level, v Version) rule {
		if !baselineUp(l) {
			return nil
		}
		return seccompProfile{required: l == Restricted && v.atLeast(19)}
	},
	parse: func(d *decoder, settings *strictyaml.Object, preset rule) rule {
		r, ok := preset.(seccompProfile)
		r.required = r.required || !ok
		for _, f := range settings.Fields {
			switch f.Name {
			case "required":
				r.required = d.Bool(f)
			case "refuseAllowAll":
				r.refuseAllowAll = d.Bool(f)
			case "types":
				r.types = d.words(f, "seccomp profile type", "RuntimeDefault", "Localhost")
			default:
				d.UnknownField(settings, f, "required", "refuseAllowAll", "types")
			}
		}
		r.required = r.required || len(r.types) > 0
		return r
	},
}

type seccompProfile struct {
	required, refuseAllowAll bool
	types                    []string
}

func (r seccompProfile) evaluate(in *spec.Intent) []finding {
	f := in.Seccomp
	switch {
	case in.Kind == spec.KindSandbox:
		return waits(f.Source)
	case f.Value == spec.SeccompNone && r.required:
		return []finding{violated(f.Source, "there is no seccomp profile")}
	case f.Value == spec.SeccompNone:
		return []finding{assumption(f.Source, "there is no seccomp profile: unset and Unconfined look the same")}
	case f.Value == spec.SeccompAllowAll && r.refuseAllowAll:
		return []finding{violated(f.Source, "the seccomp profile lets every system call through by default")}
	}
	if len(r.types) == 1 {
		switch t := in.SeccompType; {
		case t.Certainty == spec.Unknown:
			return []finding{undetermined(t.Source, "whether the seccomp profile is "+r.types[0]+" can't be told")}
		case t.Value != r.types[0]:
			return []finding{violated(t.Source, "the seccomp profile is of type "+t.Value)}
		}
	}
	if f.Value == spec.SeccompAllowAll {
		return []finding{assumption(f.Source, "the seccomp profile is weak: it lets every system call through by default")}
	}
	return nil
}
