package translate

import (
	"encoding/json"
	"fmt"
	"path"
	"sort"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var crioCapabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP",
	"CAP_NET_BIND_SERVICE", "CAP_KILL",
}

const crioPrefix = "io.kubernetes.cri-o."

// crioMounts are runtime-tools' defaults as CRI-O changes them.
func crioMounts(privileged bool) []specs.Mount {
	list := []specs.Mount{
		{Destination: "/proc", Type: "proc", Source: "proc", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{Destination: "/dev/pts", Type: "devpts", Source: "devpts", Options: []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{Destination: "/dev/mqueue", Type: "mqueue", Source: "mqueue", Options: []string{"nosuid", "noexec", "nodev"}},
		{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "noexec", "nodev"}},
	}
	if !privileged {
		list[4].Options = append(list[4].Options, "ro")
		return list
	}
	for i := range list {
		list[i].Options = append(list[i].Options, "rw")
	}
	list[4].Options = append(list[4].Options, "rslave")
	return list
}

func (n *Node) userData(id string) string {
	return n.State + "/overlay-containers/" + id + "/userdata"
}

// crioNamespaces are those of CRI-O's pinns: files with the host's namespace
// bound to them where the pod has that.
func (n *Node) crioNamespaces(s *specs.Spec, o *cri.NamespaceOption, who Identity, container bool) {
	add := func(t specs.LinuxNamespaceType, path string) {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: t, Path: path})
	}
	switch o.GetPid() {
	case cri.NamespaceMode_NODE:
	case cri.NamespaceMode_CONTAINER:
		add(specs.PIDNamespace, "")
	case cri.NamespaceMode_TARGET:
		add(specs.PIDNamespace, "/proc/"+o.GetTargetId()+"/ns/pid")
	default:
		if container {
			add(specs.PIDNamespace, fmt.Sprintf("/proc/%d/ns/pid", who.PID))
		} else {
			add(specs.PIDNamespace, "")
		}
	}
	if o.GetNetwork() != cri.NamespaceMode_NODE || !container {
		add(specs.NetworkNamespace, n.NetNS+"/netns/"+who.Namespaces)
	}
	add(specs.IPCNamespace, n.NetNS+"/ipcns/"+who.Namespaces)
	add(specs.UTSNamespace, n.NetNS+"/utsns/"+who.Namespaces)
	add(specs.MountNamespace, "")
	if n.CgroupV2 {
		add(specs.CgroupNamespace, "")
	}
	if inUserNamespace(o) {
		add(specs.UserNamespace, n.NetNS+"/userns/"+who.Namespaces)
		s.Linux.UIDMappings, s.Linux.GIDMappings = idMappings(o.GetUsernsOptions().GetUids()), idMappings(o.GetUsernsOptions().GetGids())
	}
}

func text(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// CRIOSandbox is server/sandbox_run_linux.go.
func (n *Node) CRIOSandbox(c *cri.PodSandboxConfig, who Identity) *specs.Spec {
	sc := c.GetLinux().GetSecurityContext()
	o := sc.GetNamespaceOptions()
	// sandbox_run.go: a pod with a host namespace is made so too.
	privileged := sc.GetPrivileged() || o.GetNetwork() == cri.NamespaceMode_NODE || o.GetPid() == cri.NamespaceMode_NODE || o.GetIpc() == cri.NamespaceMode_NODE
	shares, oom := uint64(2), -998
	s := &specs.Spec{
		Version: "1.3.0", Hostname: c.GetHostname(),
		Process: &specs.Process{
			User: specs.User{}, Args: n.Pause.Args, Cwd: "/", Env: []string{"PATH=" + defaultPath, "TERM=xterm"},
			Capabilities: set(crioCapabilities), OOMScoreAdj: &oom,
		},
		Root: &specs.Root{Path: n.Root + "/overlay/" + id("root"+who.Sandbox) + "/merged", Readonly: true},
		Linux: &specs.Linux{
			CgroupsPath: path.Join(c.GetLinux().GetCgroupParent(), "crio-"+who.Sandbox),
			Resources:   &specs.LinuxResources{CPU: &specs.LinuxCPU{Shares: &shares}, Devices: []specs.LinuxDeviceCgroup{{Access: "rwm"}}},
		},
	}
	if u := sc.GetRunAsUser(); u != nil {
		s.Process.User.UID = uint32(u.Value)
	}
	if g := sc.GetRunAsGroup(); g != nil {
		s.Process.User.GID = uint32(g.Value)
	}
	for _, g := range sc.GetSupplementalGroups() {
		s.Process.User.AdditionalGids = append(s.Process.User.AdditionalGids, uint32(g))
	}
	n.crioNamespaces(s, o, who, false)
	if len(c.GetLinux().GetSysctls()) > 0 {
		s.Linux.Sysctl = c.GetLinux().GetSysctls()
	}
	shm := n.userData(who.Sandbox) + "/shm"
	if o.GetIpc() == cri.NamespaceMode_NODE {
		shm = "/dev/shm"
	}
	s.Mounts = append(crioMounts(false),
		specs.Mount{Destination: "/etc/resolv.conf", Type: "bind", Source: n.userData(who.Sandbox) + "/resolv.conf", Options: []string{"ro", "bind", "nodev", "nosuid", "noexec"}},
		specs.Mount{Destination: "/dev/shm", Type: "bind", Source: shm, Options: []string{"rw", "bind"}},
		specs.Mount{Destination: "/etc/hostname", Type: "bind", Source: n.userData(who.Sandbox) + "/hostname", Options: []string{"ro", "bind", "nodev", "nosuid", "noexec"}},
	)
	profile := sc.GetSeccomp()
	s.Linux.Seccomp = seccompProfile(profile)
	path := crioSeccomp(profile)
	if privileged {
		// The profile for privileged sandboxes (privileged_seccomp_profile).
		path = "Unconfined"
		s.Linux.Seccomp = seccompProfile(&cri.SecurityProfile{})
	}
	if o.GetPid() != cri.NamespaceMode_NODE && o.GetIpc() != cri.NamespaceMode_NODE && !sc.GetPrivileged() {
		s.Process.SelinuxLabel = n.label(sc.GetSelinuxOptions(), who.defaultLabel())
	}
	s.Annotations = n.crioSandboxAnnotations(c, who, privileged, path)
	return s
}

func (n *Node) crioSandboxAnnotations(c *cri.PodSandboxConfig, who Identity, privileged bool, seccomp string) map[string]string {
	meta := c.GetMetadata()
	a := map[string]string{
		"io.container.manager":           "cri-o",
		crioPrefix + "Annotations":       text(c.GetAnnotations()),
		crioPrefix + "Labels":            text(c.GetLabels()),
		crioPrefix + "ContainerType":     "sandbox",
		crioPrefix + "SandboxID":         who.Sandbox,
		crioPrefix + "Namespace":         meta.GetNamespace(),
		crioPrefix + "KubeName":          meta.GetName(),
		crioPrefix + "HostNetwork":       strconv.FormatBool(c.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == cri.NamespaceMode_NODE),
		crioPrefix + "PrivilegedRuntime": strconv.FormatBool(privileged),
		crioPrefix + "PortMappings":      text(c.GetPortMappings()),
		crioPrefix + "Image":             n.Pause.Name,
		"io.kubernetes.container.name":   "POD",
	}
	for k, v := range c.GetAnnotations() {
		a[k] = v
	}
	for k, v := range c.GetLabels() {
		a[k] = v
	}
	a["io.kubernetes.container.name"] = "POD"
	a[crioPrefix+"SeccompProfilePath"] = seccomp
	return a
}

// crioSeccomp is what CRI-O writes of a profile.
func crioSeccomp(p *cri.SecurityProfile) string {
	switch {
	case p == nil:
		return ""
	case p.ProfileType == cri.SecurityProfile_RuntimeDefault:
		return "RuntimeDefault"
	case p.ProfileType == cri.SecurityProfile_Localhost:
		return p.LocalhostRef
	}
	return "Unconfined"
}

// CRIOContainer is server/container_create_linux.go.
func (n *Node) CRIOContainer(sb *cri.PodSandboxConfig, c *cri.ContainerConfig, who Identity, cid string) (*specs.Spec, error) {
	sc := c.GetLinux().GetSecurityContext()
	o := sc.GetNamespaceOptions()
	oom := int(c.GetLinux().GetResources().GetOomScoreAdj())
	devices, rules := asked(c.GetDevices())
	s := &specs.Spec{
		Version: "1.3.0", Hostname: sb.GetHostname(),
		Process: &specs.Process{
			User: n.Image.user(sc.GetRunAsUsername(), sc.GetRunAsUser(), sc.GetRunAsGroup(), sc.GetSupplementalGroups()),
			Args: append(c.GetCommand(), c.GetArgs()...), Cwd: n.Image.Cwd, Terminal: c.GetTty(),
			Env:          env([]string{"PATH=" + defaultPath, "TERM=xterm", "HOSTNAME=" + sb.GetHostname()}, n.Image.Env, envs(c.GetEnvs())),
			Capabilities: n.crioCapabilities(sc), NoNewPrivileges: sc.GetNoNewPrivs(), OOMScoreAdj: &oom,
		},
		Root: &specs.Root{Path: n.Root + "/overlay/" + id("root"+cid) + "/merged", Readonly: sc.GetReadonlyRootfs()},
		Linux: &specs.Linux{
			CgroupsPath: path.Join(sb.GetLinux().GetCgroupParent(), "crio-"+cid), Devices: devices,
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
	n.crioNamespaces(s, o, who, true)
	n.crioContainerMounts(s, c, who, cid)
	s.Linux.Seccomp = seccompProfile(sc.GetSeccomp())
	s.Process.ApparmorProfile = n.appArmor(sc.GetApparmor(), "crio-default")
	if o.GetPid() != cri.NamespaceMode_NODE && o.GetIpc() != cri.NamespaceMode_NODE {
		// The sandbox's label, with the container's options over it.
		from := n.label(sb.GetLinux().GetSecurityContext().GetSelinuxOptions(), who.defaultLabel())
		s.Process.SelinuxLabel = n.label(sc.GetSelinuxOptions(), from)
	}
	if sc.GetPrivileged() {
		s.Linux.MaskedPaths, s.Linux.ReadonlyPaths, s.Linux.Seccomp = nil, nil, nil
		s.Process.SelinuxLabel, s.Process.ApparmorProfile = "", ""
		s.Linux.Devices, s.Linux.Resources.Devices = hostDevices(n.HostDevices)
	}
	s.Annotations = n.crioContainerAnnotations(sb, c, who, cid)
	return s, nil
}

// crioCapabilities are setupCapabilities: what is asked for first, then the
// defaults.
func (n *Node) crioCapabilities(sc *cri.LinuxContainerSecurityContext) *specs.LinuxCapabilities {
	if sc.GetPrivileged() {
		all := set(n.AllCapabilities)
		all.Inheritable, all.Ambient = n.AllCapabilities, n.AllCapabilities
		return all
	}
	add, drop := sc.GetCapabilities().GetAddCapabilities(), sc.GetCapabilities().GetDropCapabilities()
	var caps []string
	if inFold(add, "ALL") {
		caps = append(caps, n.AllCapabilities...)
	}
	for _, a := range add {
		if a = strings.ToUpper(a); a != "ALL" && !in(caps, "CAP_"+a) {
			caps = append(caps, "CAP_"+a)
		}
	}
	if !inFold(drop, "ALL") && !inFold(add, "ALL") {
		for _, d := range crioCapabilities {
			if !in(caps, d) {
				caps = append(caps, d)
			}
		}
	}
	var out []string
	for _, c := range caps {
		if !inFold(drop, strings.TrimPrefix(c, "CAP_")) {
			out = append(out, c)
		}
	}
	return set(out)
}

func (n *Node) crioContainerMounts(s *specs.Spec, c *cri.ContainerConfig, who Identity, cid string) {
	sc := c.GetLinux().GetSecurityContext()
	o := sc.GetNamespaceOptions()
	mode := "rw"
	if sc.GetReadonlyRootfs() {
		mode = "ro"
	}
	shm := n.userData(who.Sandbox) + "/shm"
	if o.GetIpc() == cri.NamespaceMode_NODE {
		shm = "/dev/shm"
	}
	cgroup := specs.Mount{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"nosuid", "noexec", "nodev", "relatime", "ro"}}
	if sc.GetPrivileged() {
		cgroup.Options = []string{"nosuid", "noexec", "nodev", "rw", "relatime", "rslave"}
	}
	own := append(crioMounts(sc.GetPrivileged()), cgroup,
		specs.Mount{Destination: "/dev/shm", Type: "bind", Source: shm, Options: []string{"rw", "bind"}},
		specs.Mount{Destination: "/etc/resolv.conf", Type: "bind", Source: n.userData(who.Sandbox) + "/resolv.conf", Options: []string{mode, "bind", "nodev", "nosuid", "noexec"}},
		specs.Mount{Destination: "/etc/hostname", Type: "bind", Source: n.userData(who.Sandbox) + "/hostname", Options: []string{mode, "bind"}},
		specs.Mount{Destination: "/run/.containerenv", Type: "bind", Source: n.Root + "/overlay-containers/" + who.Sandbox + "/userdata/.containerenv", Options: []string{mode, "bind"}},
	)
	asked := append([]*cri.Mount{}, c.GetMounts()...)
	sort.SliceStable(asked, func(a, b int) bool { return depth(asked[a]) < depth(asked[b]) })
	taken := map[string]bool{}
	for _, m := range asked {
		taken[path.Clean(m.ContainerPath)] = true
	}
	for _, m := range own {
		if !taken[m.Destination] {
			s.Mounts = append(s.Mounts, m)
		}
	}
	if o.GetNetwork() == cri.NamespaceMode_NODE && !taken["/etc/hosts"] {
		s.Mounts = append(s.Mounts, specs.Mount{Destination: "/etc/hosts", Type: "bind", Source: "/etc/hosts", Options: []string{mode, "bind"}})
	}
	for _, m := range asked {
		out := specs.Mount{Destination: m.ContainerPath, Type: "bind", Source: n.resolve(m.HostPath), Options: []string{"rbind"}}
		if m.Image != nil {
			out.Type, out.Source = "overlay", "overlay"
			out.Options = []string{"lowerdir=" + n.Root + "/overlay/" + id(m.Image.Image) + "/merged:/var/run/crio/image-volumes"}
			s.Mounts = append(s.Mounts, out)
			continue
		}
		propagation := m.Propagation
		if out.Source == "/" && propagation == cri.MountPropagation_PROPAGATION_PRIVATE {
			// The node's root holds the engine's own mounts.
			propagation = cri.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
		}
		switch propagation {
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
		if m.Readonly {
			out.Options = append(out.Options, "ro", "bind")
		} else {
			out.Options = append(out.Options, "rw", "bind")
		}
		s.Mounts = append(s.Mounts, out)
	}
}

func (n *Node) crioContainerAnnotations(sb *cri.PodSandboxConfig, c *cri.ContainerConfig, who Identity, cid string) map[string]string {
	a := map[string]string{}
	for k, v := range sb.GetAnnotations() {
		a[k] = v
	}
	image := c.GetImage().GetUserSpecifiedImage()
	if image == "" {
		image = c.GetImage().GetImage()
	}
	for k, v := range map[string]string{
		"io.container.manager":            "cri-o",
		crioPrefix + "Annotations":        text(c.GetAnnotations()),
		crioPrefix + "ContainerID":        cid,
		crioPrefix + "ContainerType":      "container",
		crioPrefix + "Image":              image,
		crioPrefix + "ImageName":          image,
		crioPrefix + "Labels":             text(c.GetLabels()),
		crioPrefix + "SandboxID":          who.Sandbox,
		crioPrefix + "SeccompProfilePath": crioSeccomp(c.GetLinux().GetSecurityContext().GetSeccomp()),
		crioPrefix + "Metadata":           text(c.GetMetadata()),
		crioPrefix + "TTY":                strconv.FormatBool(c.GetTty()),
	} {
		a[k] = v
	}
	if c.GetLinux().GetSecurityContext().GetPrivileged() {
		a[crioPrefix+"SeccompProfilePath"] = "Unconfined"
	}
	for _, list := range []map[string]string{c.GetAnnotations(), c.GetLabels()} {
		for k, v := range list {
			a[k] = v
		}
	}
	return a
}
