package policy

import (
	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// runAsNonRoot
//
// No container may run as root.
//
// Reads: process.user.uid, which is what the engine made of the pod's fields and
// the image's USER.
// Known: at the container.
// Settings: required (true or false; default true), allowInUserNamespace (true or
// false: root of a user namespace of the pod's own is allowed).
// Can't see: runAsNonRoot itself. A pod that doesn't set it and runs as another
// user than root is satisfied.
// Upstream: restricted, Running as Non-root (check_runAsNonRoot.go); since v1.35
// allowed in a user namespace.
var runAsNonRootControl = Control{
	Name:  "runAsNonRoot",
	reads: []string{"process", "linux"},
	preset: func(l Level, v Version) rule {
		if l != Restricted {
			return nil
		}
		return runAsNonRoot{required: true, allowInUserNamespace: v.atLeast(35)}
	},
	parse: func(d *decoder, settings *strictyaml.Object, preset rule) rule {
		r, ok := preset.(runAsNonRoot)
		r.required = r.required || !ok
		for _, f := range settings.Fields {
			switch f.Name {
			case "required":
				r.required = d.Bool(f)
			case "allowInUserNamespace":
				r.allowInUserNamespace = d.Bool(f)
			default:
				d.UnknownField(settings, f, "required", "allowInUserNamespace")
			}
		}
		return r
	},
}

type runAsNonRoot struct{ required, allowInUserNamespace bool }

func (r runAsNonRoot) evaluate(in *spec.Intent) []finding {
	f := in.UID
	switch {
	case !r.required:
		return nil
	case in.Kind == spec.KindSandbox:
		return waits(f.Source)
	case f.Certainty == spec.Unknown:
		return []finding{undetermined(f.Source, "the user that it runs as can't be told")}
	case f.Value != 0:
		return nil
	}
	if r.allowInUserNamespace {
		if relaxed, findings := userNamespace(in); relaxed {
			return findings
		}
	}
	return []finding{violated(f.Source, "it runs as root (uid 0)")}
}
