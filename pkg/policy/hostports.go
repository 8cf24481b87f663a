package policy

import (
	"strconv"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// hostPorts
//
// No port of the node may be taken by a container's ports.
//
// Reads: the kubelet's annotation io.kubernetes.container.ports.
// Known: at the container, on CRI-O. containerd's config.json has no ports: the
// control is undetermined there, which the presets allow (onUndetermined:
// Allow), unless containerd is configured with container_annotations
// ["io.kubernetes.container.*"] and the container does take one.
// Settings: allow, a list of ports and of {min, max}.
// Can't see: on containerd, any host port without a pod source.
// Upstream: baseline, Host Ports (check_hostPorts.go).
var hostPortsControl = Control{
	Name:                "hostPorts",
	undeterminedAllowed: true,
	preset: func(l Level, _ Version) rule {
		if !baselineUp(l) {
			return nil
		}
		return hostPorts{}
	},
	parse: func(d *decoder, settings *strictyaml.Object, _ rule) rule {
		var r hostPorts
		for _, f := range settings.Fields {
			switch f.Name {
			case "allow":
				r.allow = d.intervals(f, 65535)
			default:
				d.UnknownField(settings, f, "allow")
			}
		}
		return r
	},
}

type hostPorts struct{ allow []interval }

func (r hostPorts) evaluate(in *spec.Intent) []finding {
	f := in.HostPorts
	if f.Certainty == spec.Unknown {
		if in.Kind == spec.KindSandbox {
			return waits(f.Source)
		}
		return []finding{undetermined(f.Source, "its config.json doesn't show the ports of the node that it takes")}
	}
	var bad []string
	for _, p := range f.Value {
		if !within(r.allow, int64(p)) {
			bad = append(bad, strconv.Itoa(p))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return []finding{violated(f.Source, "port "+list(bad)+" of the node is taken")}
}
