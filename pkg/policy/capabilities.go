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
// of all others only those that are allowed. Capabilities that must be dropped
// it may not have at all.
//
// Reads: all five sets of process.capabilities, united, names compared without
// "CAP_" and without regard to case. Names that nobody knows count as added.
// Known: at the container; what a sandbox has beyond the engine's default, there.
// Of a privileged container it is judged by the control privileged alone.
// Settings: allowAdd (names, added to what the preset allows), requireDrop
// (names; ALL leaves what allowAdd lists here, and in restricted
// NET_BIND_SERVICE).
// Can't see: a default that was asked for by name from one that was not. Whether
// ALL was dropped is judged by what is left.
// Upstream: baseline, Capabilities (check_capabilities_baseline.go): only
// AUDIT_WRITE, CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, MKNOD,
// NET_BIND_SERVICE, SETFCAP, SETGID, SETPCAP, SETUID, SYS_CHROOT may be added.
// Restricted since v1.22 (check_capabilities_restricted.go): ALL must be dropped,
// and only NET_BIND_SERVICE may be added.
var capabilitiesControl = Control{
	Name:              "capabilities",
	reads:             []string{"process"},
	followsPrivileged: true,
	preset: func(l Level, v Version) rule {
		switch {
		case l == Restricted && v.atLeast(22):
			only := []string{"NET_BIND_SERVICE"}
			return capabilities{allowAdd: only, requireDrop: []string{allCapabilities}, keep: only}
		case baselineUp(l):
			return capabilities{allowAdd: baselineCapabilities}
		}
		return nil
	},
	parse: func(d *decoder, settings *strictyaml.Object, preset rule) rule {
		var r capabilities
		if p, ok := preset.(capabilities); ok {
			r = capabilities{slices.Clone(p.allowAdd), slices.Clone(p.requireDrop), slices.Clone(p.keep)}
		}
		for _, f := range settings.Fields {
			switch f.Name {
			case "allowAdd":
				names := d.capabilities(f)
				r.allowAdd, r.keep = append(r.allowAdd, names...), append(r.keep, names...)
			case "requireDrop":
				r.requireDrop = append(r.requireDrop, d.capabilities(f)...)
			default:
				d.UnknownField(settings, f, "allowAdd", "requireDrop")
			}
		}
		return r
	},
}

var baselineCapabilities = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD",
	"NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

// capabilities may be added if allowAdd has them, and must be absent if
// requireDrop has them, or ALL and keep doesn't.
type capabilities struct{ allowAdd, requireDrop, keep []string }

func (r capabilities) evaluate(in *spec.Intent) []finding {
	f := in.Capabilities
	if f.Certainty == spec.Unknown {
		return []finding{undetermined(f.Source, "its capabilities can't be told")}
	}
	var added, left []string
	for _, c := range f.Value.Added {
		if !contains(r.allowAdd, c) && !contains(r.allowAdd, allCapabilities) {
			added = append(added, c)
		}
	}
	if len(r.requireDrop) > 0 && in.Kind != spec.KindSandbox {
		for _, c := range f.Value.All {
			if r.mustDrop(c) && !contains(added, c) {
				left = append(left, c)
			}
		}
	}
	var out []finding
	switch {
	case len(added) >= 20:
		return []finding{violated(f.Value.Field, "all capabilities are added")}
	case len(added) > 0:
		out = append(out, violated(f.Value.Field, are(strings.Join(quoteAll(added), ", "), len(added))+" added"))
	}
	if len(left) > 0 {
		out = append(out, violated("process.capabilities", are(list(quoteAll(left)), len(left))+" not dropped"))
	}
	if len(out) == 0 && in.Kind == spec.KindSandbox {
		return waits(f.Source)
	}
	return out
}

func (r capabilities) mustDrop(c string) bool {
	if contains(r.requireDrop, c) {
		return true
	}
	return contains(r.requireDrop, allCapabilities) && !contains(r.keep, c) && !contains(r.keep, allCapabilities)
}

func quoteAll(words []string) []string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = spec.Quote(w)
	}
	return out
}

func are(words string, n int) string {
	if n == 1 {
		return words + " is"
	}
	return words + " are"
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
