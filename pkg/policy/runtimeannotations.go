package policy

import (
	"slices"
	"strings"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// runtimeAnnotations
//
// No annotation may steer the runtime: have it open a file, read another bundle,
// set properties of its systemd unit or choose what runs the container.
//
// Reads: annotations bundle, org.criu.*, org.systemd.property.*, run.oci.*,
// module.wasm.* and krun.*. Allowed are the systemd properties that CRI-O and
// podman set, with harmless values: TimeoutStopUSec, CollectMode, KillSignal,
// DefaultDependencies=true, After=['crio.service'].
// Known: at the sandbox for its own, else at the container.
// Settings: allow, a list of names and of {name, value}, all patterns.
// Can't see: who wrote one, a pod or its engine.
// Upstream: none. In baseline and restricted at every version: CRI-O filters them,
// containerd passes none that it isn't configured to, and the runtime itself
// names them as unsafe (runc features, potentiallyUnsafeConfigAnnotations).
var runtimeAnnotationsControl = Control{
	Name: "runtimeAnnotations",
	preset: func(l Level, _ Version) rule {
		if !baselineUp(l) {
			return nil
		}
		return runtimeAnnotations{}
	},
	parse: func(d *decoder, settings *strictyaml.Object, _ rule) rule {
		var r runtimeAnnotations
		for _, f := range settings.Fields {
			switch f.Name {
			case "allow":
				r.allow = slices.Concat(r.allow, d.pairs(f))
			default:
				d.UnknownField(settings, f, "allow")
			}
		}
		return r
	},
}

type runtimeAnnotations struct{ allow []pair }

func (r runtimeAnnotations) evaluate(in *spec.Intent) []finding {
	var out []finding
	for i := range in.UnsafeAnnotation {
		a := &in.UnsafeAnnotation[i]
		if engineProperty(a.Key, a.Value) || anyPair(r.allow, a.Key, a.Value) {
			continue
		}
		out = append(out, violated("annotations", "annotation "+spec.Quote(a.Key)+" is set to "+spec.Quote(a.Value)+" and steers the runtime"))
	}
	if len(out) == 0 && in.Kind == spec.KindSandbox {
		return waits("annotations")
	}
	return out
}

// engineProperty knows the systemd properties that engines set on every
// container (CRI-O internal/factory/container, podman
// libpod/container_internal_common.go). They are harmless whoever sets them.
func engineProperty(key, value string) bool {
	name, ok := strings.CutPrefix(key, "org.systemd.property.")
	if !ok {
		return false
	}
	switch name {
	case "TimeoutStopUSec":
		number, ok := strings.CutPrefix(value, "uint64 ")
		return ok && digits(number)
	case "KillSignal":
		return digits(value)
	case "CollectMode":
		return value == "'inactive-or-failed'"
	case "DefaultDependencies":
		return value == "true"
	case "After":
		return value == "['crio.service']"
	}
	return false
}
