package translate

import (
	"errors"
	"fmt"
	"path"
	"sort"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var containerdCapabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID",
	"CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
}

// containerdMounts are pkg/oci/mounts.go defaultMounts without /run.
func containerdMounts() []specs.Mount {
	return []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{Destination: "/dev/shm", Type: "tmpfs", Source: "shm", Options: []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev", "ro"}},
	}
}

func (n *Node) containerdVersion() string {
	if n.Engine == Containerd1 {
		return "1.0.2-dev"
	}
	return "1.3.0"
}

const criGroup = "/io.containerd.grpc.v1.cri"

func (n *Node) sandboxRoot(who Identity) string {
	return n.Root + criGroup + "/sandboxes/" + who.Sandbox
}

func (n *Node) sandboxState(who Identity) string {
	return n.State + criGroup + "/sandboxes/" + who.Sandbox
}

// ContainerdSandbox is sandbox_run_linux.go sandboxContainerSpec.
func (n *Node) ContainerdSandbox(c *cri.PodSandboxConfig, who Identity) *specs.Spec {
	sc := c.GetLinux().GetSecurityContext()
	ns := sc.GetNamespaceOptions()
	// Supplemental groups are set first, and then undone by oci.WithUser.
	user := n.Pause.user("", sc.GetRunAsUser(), sc.GetRunAsGroup(), nil)
	shares := uint64(2)
	s := &specs.Spec{
		Version: n.containerdVersion(), Hostname: c.GetHostname(),
		Process: &specs.Process{
			User: user, Args: n.Pause.Args, Cwd: n.Pause.Cwd, Env: env([]string{"PATH=" + defaultPath}, n.Pause.Env),
			Capabilities: set(containerdCapabilities), NoNewPrivileges: true, OOMScoreAdj: new(int), SelinuxLabel: n.label(sc.GetSelinuxOptions(), who.defaultLabel()),
		},
		Root: &specs.Root{Path: "rootfs", Readonly: true},
		Linux: &specs.Linux{
			CgroupsPath: path.Join(c.GetLinux().GetCgroupParent(), who.Sandbox),
			Resources:   &specs.LinuxResources{CPU: &specs.LinuxCPU{Shares: &shares}, Devices: []specs.LinuxDeviceCgroup{{Access: "rwm"}}},
			MaskedPaths: []string{
				"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats",
				"/proc/sched_debug", "/sys/firmware", "/proc/scsi",
			},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
			Sysctl:        map[string]string{},
		},
	}
	*s.Process.OOMScoreAdj = -998
	if n.Engine == Containerd2 {
		s.Linux.MaskedPaths = []string{
			"/proc/acpi", "/proc/asound", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
			"/proc/timer_stats", "/proc/sched_debug", "/sys/firmware", "/sys/devices/virtual/powercap", "/proc/scsi",
		}
	}
	// Namespaces.
	if ns.GetPid() != cri.NamespaceMode_NODE {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.PIDNamespace})
	}
	if ns.GetIpc() != cri.NamespaceMode_NODE {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.IPCNamespace})
	}
	if ns.GetNetwork() != cri.NamespaceMode_NODE {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UTSNamespace})
	}
	s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.MountNamespace})
	if n.CgroupV2 && n.sandboxCgroupNamespace() {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.CgroupNamespace})
	}
	if ns.GetNetwork() != cri.NamespaceMode_NODE {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: n.NetNS + "/cni-" + who.Namespaces})
	}
	users := inUserNamespace(ns) && n.Engine == Containerd2 // 1.6 takes no notice
	if users {
		u := specs.LinuxNamespace{Type: specs.UserNamespace}
		if ns.GetNetwork() != cri.NamespaceMode_NODE {
			u.Path = n.sandboxState(who) + "/pinned-namespaces/user"
		}
		s.Linux.Namespaces = append(s.Linux.Namespaces, u)
		s.Linux.UIDMappings, s.Linux.GIDMappings = idMappings(ns.GetUsernsOptions().GetUids()), idMappings(ns.GetUsernsOptions().GetGids())
	}
	n.containerdSandboxMounts(s, c, who, users)
	for k, v := range c.GetLinux().GetSysctls() {
		s.Linux.Sysctl[k] = v
	}
	if n.Engine == Containerd2 && ns.GetNetwork() != cri.NamespaceMode_NODE {
		defaults := map[string]string{"net.ipv4.ip_unprivileged_port_start": "0"}
		if !users {
			defaults["net.ipv4.ping_group_range"] = "0 2147483647"
		}
		for k, v := range defaults {
			if _, ok := s.Linux.Sysctl[k]; !ok {
				s.Linux.Sysctl[k] = v
			}
		}
	}
	if len(s.Linux.Sysctl) == 0 {
		s.Linux.Sysctl = nil
	}
	if !sc.GetPrivileged() {
		s.Linux.Seccomp = seccompProfile(sc.GetSeccomp())
	} else {
		s.Process.SelinuxLabel = ""
	}
	s.Annotations = n.containerdAnnotations(c, nil, who)
	if r := c.GetLinux().GetResources(); r != nil {
		for k, v := range map[string]int64{"cpu-period": r.CpuPeriod, "cpu-quota": r.CpuQuota, "cpu-shares": r.CpuShares, "memory": r.MemoryLimitInBytes} {
			s.Annotations["io.kubernetes.cri.sandbox-"+k] = strconv.FormatInt(v, 10)
		}
	}
	return s
}

// sandboxCgroupNamespace: containerd gives a sandbox none.
func (n *Node) sandboxCgroupNamespace() bool { return false }

func (n *Node) containerdSandboxMounts(s *specs.Spec, c *cri.PodSandboxConfig, who Identity, users bool) {
	sc := c.GetLinux().GetSecurityContext()
	ns := sc.GetNamespaceOptions()
	s.Mounts = containerdMounts()
	shm, options := n.sandboxState(who)+"/shm", []string{"rbind", "ro"}
	if ns.GetIpc() == cri.NamespaceMode_NODE {
		shm = "/dev/shm"
	}
	if n.Engine == Containerd2 {
		options = append(options, "nosuid", "nodev", "noexec")
		s.Mounts = without(s.Mounts, "/dev/shm")
	}
	s.Mounts = append(s.Mounts,
		specs.Mount{Destination: "/dev/shm", Type: "bind", Source: shm, Options: options},
		specs.Mount{Destination: "/etc/resolv.conf", Type: "bind", Source: n.sandboxRoot(who) + "/resolv.conf", Options: options},
	)
	if ns.GetNetwork() == cri.NamespaceMode_NODE && users {
		s.Mounts = append(without(s.Mounts, "/sys"), sysBind)
	}
	if sc.GetPrivileged() && n.Engine == Containerd2 {
		writable(s.Mounts, "/sys")
	}
}

// sysBind is instead of sysfs, which can't be mounted in a user namespace that
// doesn't own the network namespace.
var sysBind = specs.Mount{Destination: "/sys", Type: "bind", Source: "/sys", Options: []string{"rbind", "rro", "nosuid", "nodev", "noexec"}}

func without(list []specs.Mount, destination string) []specs.Mount {
	var out []specs.Mount
	for _, m := range list {
		if path.Clean(m.Destination) != destination {
			out = append(out, m)
		}
	}
	return out
}

func writable(list []specs.Mount, destination string) {
	for i := range list {
		if list[i].Destination != destination {
			continue
		}
		for j, o := range list[i].Options {
			if o == "ro" {
				list[i].Options[j] = "rw"
			}
		}
	}
}

func (n *Node) containerdAnnotations(sb *cri.PodSandboxConfig, c *cri.ContainerConfig, who Identity) map[string]string {
	const prefix = "io.kubernetes.cri."
	out := map[string]string{}
	for k, v := range sb.GetAnnotations() {
		if begins(k, n.PodAnnotations) {
			out[k] = v
		}
	}
	for k, v := range c.GetAnnotations() {
		if begins(k, n.ContainerAnnotations) {
			out[k] = v
		}
	}
	meta := sb.GetMetadata()
	out[prefix+"sandbox-id"], out[prefix+"sandbox-uid"] = who.Sandbox, meta.GetUid()
	out[prefix+"sandbox-name"], out[prefix+"sandbox-namespace"] = meta.GetName(), meta.GetNamespace()
	if c == nil {
		out[prefix+"container-type"] = "sandbox"
		out[prefix+"sandbox-log-directory"] = sb.GetLogDirectory()
		if n.Engine == Containerd2 {
			out[prefix+"podsandbox.image-name"] = n.Pause.Name
		}
		return out
	}
	out[prefix+"container-type"], out[prefix+"container-name"] = "container", c.GetMetadata().GetName()
	out[prefix+"image-name"] = n.Image.Name
	if n.Image.Name == "" {
		out[prefix+"image-name"] = c.GetImage().GetUserSpecifiedImage()
	}
	return out
}

// ContainerdContainer is container_create.go buildContainerSpec.
func (n *Node) ContainerdContainer(sb *cri.PodSandboxConfig, c *cri.ContainerConfig, who Identity, id string) (*specs.Spec, error) {
	sc := c.GetLinux().GetSecurityContext()
	ns := sc.GetNamespaceOptions()
	oom := int(c.GetLinux().GetResources().GetOomScoreAdj())
	devices, rules := asked(c.GetDevices())
	user := n.Image.user(sc.GetRunAsUsername(), sc.GetRunAsUser(), sc.GetRunAsGroup(), sc.GetSupplementalGroups())
	s := &specs.Spec{
		Version: n.containerdVersion(),
		Process: &specs.Process{
			User: user, Terminal: c.GetTty(), Args: append(c.GetCommand(), c.GetArgs()...), Cwd: n.Image.Cwd,
			Env:          n.containerdEnv(sb, c),
			Capabilities: set(n.containerdCapabilities(sc)), NoNewPrivileges: sc.GetNoNewPrivs(), OOMScoreAdj: &oom,
		},
		Root: &specs.Root{Path: "rootfs", Readonly: sc.GetReadonlyRootfs()},
		Linux: &specs.Linux{
			CgroupsPath: path.Join(sb.GetLinux().GetCgroupParent(), id), Devices: devices,
			Resources:   resources(c.GetLinux().GetResources(), rules),
			MaskedPaths: sc.GetMaskedPaths(), ReadonlyPaths: sc.GetReadonlyPaths(),
		},
	}
	if len(s.Process.Args) == 0 {
		s.Process.Args = n.Image.Args
	}
	if c.GetWorkingDir() != "" {
		s.Process.Cwd = c.GetWorkingDir()
	}
	users := inUserNamespace(ns) && n.Engine == Containerd2
	n.containerdNamespaces(s, sc, who, users)
	if err := n.containerdContainerMounts(s, sb, c, who, users); err != nil {
		return nil, err
	}
	// The container's options, or else its sandbox's label.
	from := n.label(sb.GetLinux().GetSecurityContext().GetSelinuxOptions(), who.defaultLabel())
	if o := sc.GetSelinuxOptions(); o != nil && *labelOf(o) != (selinuxOptions{}) {
		from = who.defaultLabel()
	}
	s.Process.SelinuxLabel = n.label(sc.GetSelinuxOptions(), from)
	s.Linux.Seccomp = seccompProfile(sc.GetSeccomp())
	s.Process.ApparmorProfile = n.appArmor(sc.GetApparmor(), "cri-containerd.apparmor.d")
	if sc.GetPrivileged() {
		if !sb.GetLinux().GetSecurityContext().GetPrivileged() {
			return nil, errors.New("no privileged container allowed in sandbox")
		}
		s.Linux.MaskedPaths, s.Linux.ReadonlyPaths, s.Linux.Seccomp = nil, nil, nil
		s.Process.SelinuxLabel, s.Process.ApparmorProfile = "", ""
		writable(s.Mounts, "/sys")
		writable(s.Mounts, "/sys/fs/cgroup")
		if !n.PrivilegedWithoutHostDevices {
			s.Linux.Devices, s.Linux.Resources.Devices = hostDevices(n.HostDevices)
		}
	}
	s.Annotations = n.containerdAnnotations(sb, c, who)
	return s, nil
}

type selinuxOptions struct{ user, role, typ, level string }

func labelOf(o *cri.SELinuxOption) *selinuxOptions {
	return &selinuxOptions{o.GetUser(), o.GetRole(), o.GetType(), o.GetLevel()}
}

func (n *Node) containerdEnv(sb *cri.PodSandboxConfig, c *cri.ContainerConfig) []string {
	hostname := sb.GetHostname()
	if hostname == "" {
		hostname = n.Name
	}
	first := []string{"PATH=" + defaultPath}
	if c.GetTty() {
		first = append(first, "TERM=xterm")
	}
	return env(append(first, "HOSTNAME="+hostname), n.Image.Env, envs(c.GetEnvs()))
}

// containerdCapabilities are opts.WithCapabilities: all, none, then by name.
func (n *Node) containerdCapabilities(sc *cri.LinuxContainerSecurityContext) []string {
	if sc.GetPrivileged() {
		return n.AllCapabilities
	}
	caps := append([]string{}, containerdCapabilities...)
	add, drop := sc.GetCapabilities().GetAddCapabilities(), sc.GetCapabilities().GetDropCapabilities()
	if inFold(add, "ALL") {
		caps = append([]string{}, n.AllCapabilities...)
	}
	if inFold(drop, "ALL") {
		caps = nil
	}
	for _, a := range add {
		if a = strings.ToUpper(a); a != "ALL" && !in(caps, "CAP_"+a) {
			caps = append(caps, "CAP_"+a)
		}
	}
	var out []string
	for _, c := range caps {
		if !inFold(drop, strings.TrimPrefix(c, "CAP_")) {
			out = append(out, c)
		}
	}
	return out
}

// containerdNamespaces are opts.WithPodNamespaces: all by path of the
// sandbox's process, whosoever they are.
func (n *Node) containerdNamespaces(s *specs.Spec, sc *cri.LinuxContainerSecurityContext, who Identity, users bool) {
	ns := sc.GetNamespaceOptions()
	at := func(name string) string { return fmt.Sprintf("/proc/%d/ns/%s", who.PID, name) }
	pid := specs.LinuxNamespace{Type: specs.PIDNamespace}
	switch ns.GetPid() {
	case cri.NamespaceMode_CONTAINER:
	case cri.NamespaceMode_TARGET:
		pid.Path = "/proc/" + ns.GetTargetId() + "/ns/pid"
	default:
		pid.Path = at("pid")
	}
	s.Linux.Namespaces = []specs.LinuxNamespace{
		pid, {Type: specs.IPCNamespace, Path: at("ipc")}, {Type: specs.UTSNamespace, Path: at("uts")}, {Type: specs.MountNamespace},
	}
	if n.CgroupV2 && !sc.GetPrivileged() {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.CgroupNamespace})
	}
	s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: at("net")})
	if users {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace, Path: at("user")})
		s.Linux.UIDMappings, s.Linux.GIDMappings = idMappings(ns.GetUsernsOptions().GetUids()), idMappings(ns.GetUsernsOptions().GetGids())
	}
}

// containerdContainerMounts are opts.WithMounts.
func (n *Node) containerdContainerMounts(s *specs.Spec, sb *cri.PodSandboxConfig, c *cri.ContainerConfig, who Identity, users bool) error {
	sc := c.GetLinux().GetSecurityContext()
	ns := sc.GetNamespaceOptions()
	mounts := append([]*cri.Mount{}, c.GetMounts()...)
	shm := n.sandboxState(who) + "/shm"
	if ns.GetIpc() == cri.NamespaceMode_NODE {
		shm = "/dev/shm"
	}
	var ids []*cri.IDMapping
	if users {
		ids = ns.GetUsernsOptions().GetUids()
	}
	for _, m := range []*cri.Mount{
		{ContainerPath: "/etc/hostname", HostPath: n.sandboxRoot(who) + "/hostname", Readonly: sc.GetReadonlyRootfs(), UidMappings: ids, GidMappings: ids},
		{ContainerPath: "/etc/hosts", HostPath: n.sandboxRoot(who) + "/hosts", Readonly: sc.GetReadonlyRootfs(), UidMappings: ids, GidMappings: ids},
		{ContainerPath: "/etc/resolv.conf", HostPath: n.sandboxRoot(who) + "/resolv.conf", Readonly: sc.GetReadonlyRootfs(), UidMappings: ids, GidMappings: ids},
		{ContainerPath: "/dev/shm", HostPath: shm},
	} {
		found := false
		for _, o := range c.GetMounts() {
			found = found || path.Clean(o.ContainerPath) == m.ContainerPath
		}
		if !found {
			mounts = append(mounts, m)
		}
	}
	sort.SliceStable(mounts, func(a, b int) bool { return depth(mounts[a]) < depth(mounts[b]) })
	s.Mounts = append(containerdMounts(), specs.Mount{
		Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "relatime", "ro"},
	})
	for _, m := range mounts {
		dst := path.Clean(m.ContainerPath)
		var kept []specs.Mount
		for _, d := range s.Mounts {
			if d.Type == "bind" || d.Destination != dst && !(dst == "/dev" && strings.HasPrefix(d.Destination, "/dev/")) {
				kept = append(kept, d)
			}
		}
		s.Mounts = kept
	}
	for _, m := range mounts {
		out, err := n.containerdBind(s, m, who)
		if err != nil {
			return err
		}
		s.Mounts = append(s.Mounts, out)
	}
	if sb.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == cri.NamespaceMode_NODE && users {
		s.Mounts = append(without(s.Mounts, "/sys"), sysBind)
	}
	return nil
}

func depth(m *cri.Mount) int { return strings.Count(path.Clean(m.ContainerPath), "/") }

func (n *Node) containerdBind(s *specs.Spec, m *cri.Mount, who Identity) (specs.Mount, error) {
	out := specs.Mount{Destination: m.ContainerPath, Type: "bind", Source: n.resolve(m.HostPath), Options: []string{"rbind"}}
	if m.Image != nil {
		out.Source = n.State + criGroup + "/image-volumes/" + who.Sandbox + "/" + id(m.Image.Image)
	}
	switch m.Propagation {
	case cri.MountPropagation_PROPAGATION_BIDIRECTIONAL:
		out.Options = append(out.Options, "rshared")
		s.Linux.RootfsPropagation = "rshared"
	case cri.MountPropagation_PROPAGATION_HOST_TO_CONTAINER:
		out.Options = append(out.Options, "rslave")
		if s.Linux.RootfsPropagation == "" {
			s.Linux.RootfsPropagation = "rslave"
		}
	default:
		out.Options = append(out.Options, "rprivate")
	}
	switch {
	case m.Readonly && m.RecursiveReadOnly:
		out.Options = append(out.Options, "rro")
	case m.Readonly:
		out.Options = append(out.Options, "ro")
	default:
		out.Options = append(out.Options, "rw")
	}
	out.UIDMappings, out.GIDMappings = idMappings(m.UidMappings), idMappings(m.GidMappings)
	return out, nil
}

// appArmor is generateApparmorSpecOpts: without a word from the pod the
// engine's own profile.
func (n *Node) appArmor(p *cri.SecurityProfile, own string) string {
	switch {
	case !n.AppArmor, p != nil && p.ProfileType == cri.SecurityProfile_Unconfined:
		return ""
	case p != nil && p.ProfileType == cri.SecurityProfile_Localhost:
		return strings.TrimPrefix(p.LocalhostRef, "localhost/")
	}
	return own
}
