package policy

import (
	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// procMount
//
// /proc must be covered as procMount: Default covers it.
//
// Reads: linux.maskedPaths and linux.readonlyPaths, which must hold at least
// what every engine hides; mounts, since a second mount of proc is uncovered.
// Known: at the container. Of a privileged container it is judged by the control
// privileged alone.
// Settings: allow (a list of Default and Unmasked).
// Can't see: masks that a runtime's fault lets a container undo (CVE-2025-31133).
// Upstream: baseline, /proc Mount Type (check_procMount_baseline.go); since v1.35
// a pod with a user namespace of its own may have it Unmasked, in baseline only
// (check_procMount_restricted.go).
var procMountControl = Control{
	Name:              "procMount",
	reads:             []string{"linux", "mounts"},
	followsPrivileged: true,
	preset: func(l Level, v Version) rule {
		if !baselineUp(l) {
			return nil
		}
		return procMount{allowInUserNamespace: l == Baseline && v.atLeast(35)}
	},
	parse: func(d *decoder, settings *strictyaml.Object, preset rule) rule {
		r, _ := preset.(procMount)
		for _, f := range settings.Fields {
			switch f.Name {
			case "allow":
				for _, item := range d.List(f) {
					switch d.Str(item) {
					case "Unmasked":
						r.allow = true
					case "Default":
					default:
						d.Errorf(item.Node, "unknown proc mount type %q: want Default or Unmasked", item.Node.Value)
					}
				}
			default:
				d.UnknownField(settings, f, "allow")
			}
		}
		return r
	},
}

type procMount struct{ allow, allowInUserNamespace bool }

func (r procMount) evaluate(in *spec.Intent) []finding {
	f := in.ProcUnmasked
	switch {
	case r.allow:
		return nil
	case f.Certainty == spec.Unknown:
		return []finding{undetermined(f.Source, "whether /proc is covered can't be told")}
	case in.Kind == spec.KindSandbox && (!f.Value || in.Engine.Dialect == spec.CRIO):
		// CRI-O masks nothing in a sandbox, in which the pause process runs.
		return waits(f.Source)
	case !f.Value:
		return nil
	}
	if r.allowInUserNamespace {
		if relaxed, findings := userNamespace(in); relaxed {
			return findings
		}
	}
	return []finding{violated(f.Source, "/proc is not masked")}
}
