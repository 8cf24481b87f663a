package policy

import (
	"slices"
	"strings"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// capabilities
//
// A container may have the capabilities that its engine gives by default, and
// of all others only those that are allowed. A default that was asked for by
// name can't be told from one that was not.
//
// Reads: all five sets of process.capabilities, united, names compared without
// "CAP_" and without regard to case. Names that nobody knows count as added. A
// privileged container is judged by the control privileged alone.
// Settings: allowAdd (names, added to what the preset allows).
//
// Upstream: baseline, Capabilities (check_capabilities_baseline.go): only
// AUDIT_WRITE, CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, MKNOD,
// NET_BIND_SERVICE, SETFCAP, SETGID, SETPCAP, SETUID, SYS_CHROOT may be added.
var capabilitiesControl = Control{
	Name:  "capabilities",
	reads: []string{"process"},
	preset: func(l Level, _ Version) rule {
		if !baselineUp(l) {
			return nil
		}
		return capabilities{allowAdd: baselineCapabilities}
	},
	parse: func(d *decoder, settings *strictyaml.Object, preset rule) rule {
		var r capabilities
		if p, ok := preset.(capabilities); ok {
			r.allowAdd = slices.Clone(p.allowAdd)
		}
		for _, f := range settings.Fields {
			switch f.Name {
			case "allowAdd":
				r.allowAdd = append(r.allowAdd, d.capabilities(f)...)
			default:
				d.UnknownField(settings, f, "allowAdd")
			}
		}
		return r
	},
}

var baselineCapabilities = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
	"NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

type capabilities struct{ allowAdd []string }

func (r capabilities) evaluate(in *spec.Intent) []finding {
	f := in.Capabilities
	if f.Certainty == spec.Unknown {
		return []finding{undetermined(f.Source, "its capabilities can't be told")}
	}
	var bad []string
	for _, c := range f.Value.Added {
		if !contains(r.allowAdd, c) && !contains(r.allowAdd, allCapabilities) {
			bad = append(bad, c)
		}
	}
	switch {
	case spec.Is(in.Privileged, true) && in.Kind != spec.KindSandbox:
		return nil
	case len(bad) == 0 && in.Kind == spec.KindSandbox:
		return waits(f.Source)
	case len(bad) == 0:
		return nil
	case len(bad) >= 20:
		return []finding{violated(f.Value.Field, "all capabilities are added")}
	}
	for i := range bad {
		bad[i] = spec.Quote(bad[i])
	}
	verb := " is added"
	if len(bad) > 1 {
		verb = " are added"
	}
	return []finding{violated(f.Value.Field, strings.Join(bad, ", ")+verb)}
}

// allCapabilities stands for every capability in an allow list.
const allCapabilities = "ALL"

// knownCapabilities are the kernel's, as of Linux 6.12
// (include/uapi/linux/capability.h).
var knownCapabilities = []string{
	"AUDIT_CONTROL", "AUDIT_READ", "AUDIT_WRITE", "BLOCK_SUSPEND", "BPF", "CHECKPOINT_RESTORE", "CHOWN",
	"DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "IPC_LOCK", "IPC_OWNER", "KILL", "LEASE",
	"LINUX_IMMUTABLE", "MAC_ADMIN", "MAC_OVERRIDE", "MKNOD", "NET_ADMIN", "NET_BIND_SERVICE", "NET_BROADCAST",
	"NET_RAW", "PERFMON", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYSLOG", "SYS_ADMIN", "SYS_BOOT",
	"SYS_CHROOT", "SYS_MODULE", "SYS_NICE", "SYS_PACCT", "SYS_PTRACE", "SYS_RAWIO", "SYS_RESOURCE", "SYS_TIME",
	"SYS_TTY_CONFIG", "WAKE_ALARM",
}

func (d *decoder) capabilities(f strictyaml.Field) []string {
	var out []string
	for _, item := range d.List(f) {
		name := spec.CapabilityName(d.Str(item))
		if name != allCapabilities && !contains(knownCapabilities, name) {
			d.Errorf(item.Node, "unknown capability %q%s", item.Node.Value, strictyaml.Nearest(name, knownCapabilities))
		}
		out = append(out, name)
	}
	return out
}
