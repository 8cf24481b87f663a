package spec

import (
	"path"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// mapProcess reads what the container's first process may do and who it is.
func mapProcess(in *Intent, s *specs.Spec) {
	in.RootPath, in.ReadOnlyRoot = unknown[string]("root"), unknown[bool]("root")
	if s.Root != nil {
		in.RootPath = known(s.Root.Path, "root.path")
		in.ReadOnlyRoot = known(s.Root.Readonly, "root.readonly")
	}
	p := s.Process
	if p == nil {
		in.Capabilities = unknown[Capabilities]("process")
		in.NoNewPrivileges = unknown[bool]("process")
		in.UID, in.GID = unknown[uint32]("process"), unknown[uint32]("process")
		in.AdditionalGIDs = unknown[[]uint32]("process")
		in.Cwd = unknown[string]("process")
		in.Args = unknown[[]string]("process")
		in.AppArmor, in.SELinux = unknown[string]("process"), unknown[string]("process")
		return
	}
	in.Capabilities = known(capabilities(p.Capabilities, in.Engine.DefaultCapabilities), "process.capabilities")
	in.NoNewPrivileges = known(p.NoNewPrivileges, "process.noNewPrivileges")
	in.UID = known(p.User.UID, "process.user.uid")
	in.GID = known(p.User.GID, "process.user.gid")
	in.AdditionalGIDs = known(p.User.AdditionalGids, "process.user.additionalGids")
	in.Cwd = known(p.Cwd, "process.cwd")
	in.Args = known(p.Args, "process.args")
	// An unconfined profile by name is no profile.
	profile := p.ApparmorProfile
	if profile == "unconfined" {
		profile = ""
	}
	in.AppArmor = known(profile, "process.apparmorProfile")
	in.SELinux = known(p.SelinuxLabel, "process.selinuxLabel")
	for i, e := range p.Env {
		name, value, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, "LD_") || name == "GCONV_PATH" || name == "GLIBC_TUNABLES" {
			in.LoaderVariables = append(in.LoaderVariables, Variable{name, value, fieldOf("process.env", i, "")})
		}
	}
}

// CapabilityName returns a capability as Kubernetes writes it: upper case,
// without "CAP_".
func CapabilityName(s string) string {
	s = strings.ToUpper(strings.TrimSpace(s))
	return strings.TrimPrefix(s, "CAP_")
}

// capabilities unites all five sets: a capability in any of them can be had by
// the process or its children. Names that nobody knows are kept: a newer
// kernel may know them.
func capabilities(c *specs.LinuxCapabilities, defaults []string) Capabilities {
	out := Capabilities{Field: "process.capabilities.bounding"}
	if c == nil {
		return out
	}
	sets := []struct {
		name string
		caps []string
	}{
		{"bounding", c.Bounding}, {"effective", c.Effective}, {"permitted", c.Permitted},
		{"inheritable", c.Inheritable}, {"ambient", c.Ambient},
	}
	for _, set := range sets {
		for _, name := range set.caps {
			name = CapabilityName(name)
			if slices.Contains(out.All, name) {
				continue
			}
			out.All = append(out.All, name)
			if !slices.Contains(defaults, name) {
				if len(out.Added) == 0 {
					out.Field = "process.capabilities." + set.name
				}
				out.Added = append(out.Added, name)
			}
		}
	}
	slices.Sort(out.All)
	slices.Sort(out.Added)
	return out
}

// mapLinux reads the rest of the linux section.
func mapLinux(in *Intent, s *specs.Spec) {
	l := linux(s)
	in.MaskedPaths = known(l.MaskedPaths, "linux.maskedPaths")
	in.ReadOnly = known(l.ReadonlyPaths, "linux.readonlyPaths")
	in.ProcUnmasked = procUnmasked(in, l)
	in.Seccomp = seccomp(l.Seccomp)
	in.Sysctls = known(sysctls(l.Sysctl), "linux.sysctl")
	mapDevices(in, l)
	in.SysWritable = writable(in, "sysfs")
	in.CgroupWritable = writable(in, "cgroup", "cgroup2")
	for k, v := range s.Annotations {
		if SteersRuntime(k) {
			in.UnsafeAnnotation = append(in.UnsafeAnnotation, Annotation{k, v})
		}
	}
	slices.SortFunc(in.UnsafeAnnotation, func(a, b Annotation) int { return strings.Compare(a.Key, b.Key) })
}

// coreMasked and coreReadOnly are paths that every engine since docker 1.x
// hides or protects in a container with procMount: Default. Newer versions
// hide more, so a list must have at least these.
var (
	coreMasked   = []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"}
	coreReadOnly = []string{"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"}
)

// procUnmasked is true if the container's /proc is not covered as procMount:
// Default covers it, or if a second proc is mounted, over which no list goes.
func procUnmasked(in *Intent, l *specs.Linux) Fact[bool] {
	for i := range in.Mounts {
		m := &in.Mounts[i]
		if m.Class == MountSystem && m.Type == "proc" && path.Clean(m.Destination) != "/proc" {
			return known(true, m.Field)
		}
	}
	if !coversAll(l.MaskedPaths, coreMasked) {
		return known(true, "linux.maskedPaths")
	}
	// What is masked can't be written either.
	if !coversAll(slices.Concat(l.ReadonlyPaths, l.MaskedPaths), coreReadOnly) {
		return known(true, "linux.readonlyPaths")
	}
	return known(false, "linux.maskedPaths")
}

func coversAll(list, want []string) bool {
	for _, w := range want {
		if !slices.ContainsFunc(list, func(p string) bool { return below(w, path.Clean(p)) }) {
			return false
		}
	}
	return true
}

// seccomp sorts a profile by its default action: one that lets everything
// through which no rule names stops nothing that is new.
func seccomp(p *specs.LinuxSeccomp) Fact[SeccompKind] {
	const source = "linux.seccomp"
	if p == nil {
		return known(SeccompNone, source)
	}
	switch p.DefaultAction {
	case specs.ActAllow, specs.ActLog, specs.ActTrace, specs.ActNotify:
		return known(SeccompAllowAll, source+".defaultAction")
	}
	return known(SeccompProfile, source)
}

// sysctls returns the settings with keys in dot form. runc takes a key whose
// first separator is a slash as a path (libcontainer/configs/validate,
// convertSysctlVariableToDotsSeparator): net/ipv4/conf/eth0.1/forwarding.
func sysctls(m map[string]string) map[string]string {
	if m == nil {
		return nil
	}
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[SysctlName(k)] = v
	}
	return out
}

// SysctlName returns a sysctl's name in dot form, in which a dot inside an
// interface's name is a slash.
func SysctlName(k string) string {
	i := strings.IndexAny(k, "./")
	if i < 0 || k[i] == '.' {
		return k
	}
	return strings.Map(func(r rune) rune {
		switch r {
		case '/':
			return '.'
		case '.':
			return '/'
		}
		return r
	}, k)
}

func mapDevices(in *Intent, l *specs.Linux) {
	for i, d := range l.Devices {
		in.Devices = append(in.Devices, Device{Path: d.Path, Type: d.Type, Major: d.Major, Minor: d.Minor, Field: fieldOf("linux.devices", i, "")})
	}
	in.AllowAllDevices = known(false, "linux.resources.devices")
	if l.Resources == nil {
		return
	}
	for i, r := range l.Resources.Devices {
		if !r.Allow {
			continue
		}
		field := fieldOf("linux.resources.devices", i, "")
		d := Device{Type: r.Type, Major: wildcard(r.Major), Minor: wildcard(r.Minor), Access: r.Access, Field: field}
		if d.Type == "" {
			d.Type = "a"
		}
		// Engines let containers make any node (c *:* m), which opens none.
		if d.Type == "a" || d.Major < 0 && d.Minor < 0 && strings.ContainsAny(d.Access, "rw") {
			in.AllowAllDevices = known(true, field)
		}
		in.Devices = append(in.Devices, d)
	}
}

func wildcard(n *int64) int64 {
	if n == nil {
		return -1
	}
	return *n
}

// writable reports whether a filesystem of one of the types is mounted
// writable.
func writable(in *Intent, types ...string) Fact[bool] {
	for i := range in.Mounts {
		m := &in.Mounts[i]
		if m.Class == MountSystem && slices.Contains(types, m.Type) && !m.ReadOnly {
			return known(true, m.Field)
		}
	}
	return known(false, "mounts")
}

// SteersRuntime reports whether an annotation changes what a runtime does
// (runc features.go potentiallyUnsafeConfigAnnotations; crun container.c).
func SteersRuntime(key string) bool {
	switch key {
	case "bundle", "org.criu.config":
		return true
	}
	for _, p := range []string{"run.oci.", "org.systemd.property.", "org.criu.", "module.wasm.", "krun."} {
		if strings.HasPrefix(key, p) {
			return true
		}
	}
	return false
}

// mapPrivileged weighs the signs of securityContext.privileged. No field of a
// spec says it. For a container two signs are conclusive, since engines give
// them to privileged containers alone: a writable /sys, and a device rule that
// allows all (containerd pkg/oci WithPrivileged and
// privileged_without_host_devices; CRI-O, podman and docker alike).
//
// A sandbox is privileged if some container of its pod is. containerd 2 mounts
// its /sys writable then; before, it only has no seccomp profile, as an
// unconfined one has. A profile rules it out: the kubelet asks for one always,
// and engines drop it for privileged pods.
func mapPrivileged(in *Intent, s *specs.Spec) {
	sign := func(name string, f Fact[bool]) bool {
		if f.Certainty == Known && f.Value {
			in.PrivilegedSigns = append(in.PrivilegedSigns, Sign{name, f.Source})
			return true
		}
		return false
	}
	sys := sign("a writable /sys", in.SysWritable)
	devices := sign("access to all devices", in.AllowAllDevices)
	sign("a writable cgroup filesystem", in.CgroupWritable)
	sign("an uncovered /proc", in.ProcUnmasked)
	noSeccomp := in.Seccomp.Value == SeccompNone
	sign("no seccomp profile", Fact[bool]{Value: noSeccomp, Certainty: in.Seccomp.Certainty, Source: in.Seccomp.Source})
	sign("all capabilities", Fact[bool]{Value: allCapabilities(in.Capabilities.Value.All), Certainty: in.Capabilities.Certainty, Source: in.Capabilities.Value.Field})

	switch {
	case sys:
		in.Privileged = known(true, in.SysWritable.Source)
	case devices:
		in.Privileged = known(true, in.AllowAllDevices.Source)
	case in.Kind == KindSandbox && noSeccomp:
		in.Privileged = unknown[bool]("linux.seccomp")
	default:
		in.Privileged = known(false, "mounts")
	}
}

// allCapabilities reports whether a set is what "ALL" expands to. An engine
// that lacks some itself hands on the rest, so that a few may be missing.
func allCapabilities(all []string) bool {
	for _, c := range []string{"SYS_ADMIN", "SYS_MODULE", "SYS_RAWIO", "NET_ADMIN", "SYS_PTRACE", "DAC_READ_SEARCH"} {
		if !slices.Contains(all, c) {
			return false
		}
	}
	return len(all) >= 30
}
