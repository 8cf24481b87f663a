package policy

import (
	"slices"
	"sort"
	"strings"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// sysctls
//
// Only kernel parameters that are listed may be set, and none that would be set
// for the whole node: net.* in the host's network namespace, kernel.shm*,
// kernel.msg*, kernel.sem and fs.mqueue.* in its IPC namespace, and those that
// no namespace has. A value or name with "+", "=" or control characters is
// refused by itself (CVE-2022-0811).
//
// Reads: linux.sysctl, linux.namespaces.
// Known: at the sandbox, which alone has them on containerd. A container without
// any was judged at its sandbox.
// Settings: allow (names, added to the preset's; "*" at the end stands for any
// rest), allowHostWide (the same, for those that act on the whole node).
// Can't see: on CRI-O the parameters of a pod without an infra container, which
// CRI-O sets itself (drop_infra_ctr, its default).
// Upstream: baseline, Sysctls (check_sysctls.go), by version 1.0, 1.27, 1.29,
// 1.32 and 1.37. That a safe one with a host namespace is refused is the
// kubelet's rule (pkg/kubelet/sysctl).
var sysctlsControl = Control{
	Name:  "sysctls",
	reads: []string{"linux"},
	preset: func(l Level, v Version) rule {
		if !baselineUp(l) {
			return nil
		}
		var r sysctls
		for _, s := range safeSysctls {
			if v.atLeast(s.since) {
				r.allow = append(r.allow, s.names...)
			}
		}
		return r
	},
	parse: func(d *decoder, settings *strictyaml.Object, preset rule) rule {
		var r sysctls
		if p, ok := preset.(sysctls); ok {
			r.allow = slices.Clone(p.allow)
		}
		for _, f := range settings.Fields {
			switch f.Name {
			case "allow":
				r.allow = append(r.allow, d.sysctls(f)...)
			case "allowHostWide":
				r.hostWide = append(r.hostWide, d.sysctls(f)...)
			default:
				d.UnknownField(settings, f, "allow", "allowHostWide")
			}
		}
		return r
	},
}

var safeSysctls = []struct {
	since int
	names []string
}{
	{0, []string{
		"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
		"net.ipv4.ip_unprivileged_port_start",
	}},
	{27, []string{"net.ipv4.ip_local_reserved_ports"}},
	{29, []string{
		"net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes",
	}},
	{32, []string{"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}},
	{37, []string{"net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"}},
}

type sysctls struct{ allow, hostWide []string }

// sysctls reads names, of which the last letter may be "*".
func (d *decoder) sysctls(f strictyaml.Field) []string {
	var out []string
	for _, item := range d.List(f) {
		s := spec.SysctlName(d.Str(item))
		if prefix := strings.TrimSuffix(s, "*"); prefix == "" || !plainSysctl(strings.TrimSuffix(prefix, ".")) {
			d.Errorf(item.Node, "sysctl %q: want a name as net.core.somaxconn, or the start of one and \"*\"", item.Node.Value)
		}
		out = append(out, s)
	}
	return out
}

func (r sysctls) evaluate(in *spec.Intent) []finding {
	f := in.Sysctls
	names := make([]string, 0, len(f.Value))
	for name := range f.Value {
		names = append(names, name)
	}
	sort.Strings(names)
	var out []finding
	for _, name := range names {
		if x, ok := r.judge(in, f.Source, name, f.Value[name]); ok {
			out = append(out, x)
		}
	}
	if len(out) == 0 && in.Kind == spec.KindContainer && in.Engine.Dialect == spec.CRIO {
		return []finding{assumption(f.Source, "the pod's sysctls are taken as judged at its sandbox, which CRI-O makes without a runtime by default")}
	}
	return out
}

func (r sysctls) judge(in *spec.Intent, source, name, value string) (finding, bool) {
	what := "sysctl " + spec.Quote(name)
	if !plainSysctl(name) || !plainValue(value) {
		return violated(source, what+" is set to "+spec.Quote(value)+", which can carry another"), true
	}
	if sysctlListed(r.hostWide, name) {
		return finding{}, false
	}
	if !sysctlListed(r.allow, name) {
		return violated(source, what+" is set"), true
	}
	var ns spec.Fact[spec.NamespaceMode]
	switch {
	case strings.HasPrefix(name, "net."):
		ns = in.HostNetwork
	case name == "kernel.sem", strings.HasPrefix(name, "kernel.shm"), strings.HasPrefix(name, "kernel.msg"), strings.HasPrefix(name, "fs.mqueue."):
		ns = in.HostIPC
	case name == "kernel.hostname", name == "kernel.domainname":
		ns = in.HostUTS
	default:
		return violated(source, what+" is set, for the whole node"), true
	}
	switch {
	case ns.Certainty == spec.Unknown:
		return undetermined(ns.Source, what+" is set, in a namespace that can't be told from the host's"), true
	case ns.Value == spec.NamespaceHost:
		return violated(source, what+" is set, for the whole node"), true
	}
	return finding{}, false
}

func sysctlListed(list []string, name string) bool {
	for _, l := range list {
		if prefix, ok := strings.CutSuffix(l, "*"); l == name || ok && strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// plainSysctl reports whether a name in dot form has letters, digits and "_-"
// between its dots, and a slash only for the dot of an interface's name.
func plainSysctl(name string) bool {
	for part := range strings.SplitSeq(name, ".") {
		if part == "" || part[0] == '/' || part[len(part)-1] == '/' || strings.Contains(part, "//") {
			return false
		}
		for i := 0; i < len(part); i++ {
			c := part[i]
			if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '/' && c != '@' && c != ':' {
				return false
			}
		}
	}
	return true
}

// plainValue reports whether a value can't carry a second setting past an
// engine that writes them on one command line.
func plainValue(value string) bool {
	for i := 0; i < len(value); i++ {
		if c := value[i]; c == '+' || c == '=' || c == 0x7f || c < ' ' && c != '\t' {
			return false
		}
	}
	return true
}
