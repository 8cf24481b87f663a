package translate

import (
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Bundles are what a runtime is given for a pod.
type Bundles struct {
	// Sandbox is nil where the engine makes the sandbox without a runtime.
	Sandbox    *specs.Spec
	Containers []*specs.Spec
	// Host is the machine as far as these bundles name it.
	Host *Host
}

// Pod translates a pod. Ids, the sandbox's process and what else an engine
// makes up depend on the pod's name alone.
func (n *Node) Pod(p *corev1.Pod) (*Bundles, error) {
	r, err := n.Kubelet(p)
	if err != nil {
		return nil, err
	}
	return n.Bundles(r)
}

// Bundles does what the engine does with the kubelet's requests.
func (n *Node) Bundles(r *Requests) (*Bundles, error) {
	meta := r.Sandbox.GetMetadata()
	h := id(meta.Namespace + "/" + meta.Name)
	who := Identity{
		Sandbox: h, PID: 4242, Level: "s0:c112,c934",
		Namespaces: h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:32],
	}
	b := &Bundles{Host: newHost(n, r, who)}
	sandbox, container := n.ContainerdSandbox, n.ContainerdContainer
	if n.Engine == CRIO {
		sandbox, container = n.CRIOSandbox, n.CRIOContainer
	}
	// CRI-O needs a sandbox's process for a shared PID namespace alone.
	pid := r.Sandbox.GetLinux().GetSecurityContext().GetNamespaceOptions().GetPid()
	if n.Engine != CRIO || n.KeepInfra || pid == cri.NamespaceMode_POD {
		b.Sandbox = sandbox(r.Sandbox, who)
	}
	for _, c := range r.Containers {
		s, err := container(r.Sandbox, c, who, id(h+c.GetMetadata().GetName()))
		if err != nil {
			return nil, err
		}
		b.Containers = append(b.Containers, s)
	}
	return b, nil
}

// JSON returns the bundles' config.json files, the sandbox's first.
func (b *Bundles) JSON() ([][]byte, error) {
	var out [][]byte
	for _, s := range append([]*specs.Spec{b.Sandbox}, b.Containers...) {
		if s == nil {
			continue
		}
		data, err := json.Marshal(s)
		if err != nil {
			return nil, err
		}
		out = append(out, data)
	}
	return out, nil
}

func in(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}

// inFold is the engines' InStringSlice.
func inFold(list []string, s string) bool {
	for _, l := range list {
		if strings.EqualFold(l, s) {
			return true
		}
	}
	return false
}

func set(caps []string) *specs.LinuxCapabilities {
	return &specs.LinuxCapabilities{Bounding: caps, Effective: caps, Permitted: caps}
}

func idMappings(list []*cri.IDMapping) []specs.LinuxIDMapping {
	var out []specs.LinuxIDMapping
	for _, m := range list {
		out = append(out, specs.LinuxIDMapping{ContainerID: m.ContainerId, HostID: m.HostId, Size: m.Length})
	}
	return out
}

// inUserNamespace reports whether a pod has a user namespace of its own.
func inUserNamespace(o *cri.NamespaceOption) bool {
	return o.GetUsernsOptions() != nil && o.GetUsernsOptions().GetMode() == cri.NamespaceMode_POD
}

// user finds a process's user.
func (i *Image) user(name string, uid, gid *cri.Int64Value, groups []int64) specs.User {
	u := specs.User{UID: uint32(i.UID), GID: uint32(i.GID)}
	switch {
	case name != "":
		u.UID, u.GID = uint32(i.Users[name][0]), uint32(i.Users[name][1])
	case uid != nil:
		u.UID, u.GID = uint32(uid.Value), 0
		for _, ids := range i.Users {
			if ids[0] == uid.Value {
				u.GID = uint32(ids[1])
			}
		}
	}
	if gid != nil {
		u.GID = uint32(gid.Value)
	}
	all := map[uint32]bool{u.GID: true}
	for _, g := range groups {
		all[uint32(g)] = true
	}
	for g := range all {
		u.AdditionalGids = append(u.AdditionalGids, g)
	}
	sort.Slice(u.AdditionalGids, func(a, b int) bool { return u.AdditionalGids[a] < u.AdditionalGids[b] })
	return u
}

// seccompProfile stands for every profile: what is in it decides nothing here.
func seccompProfile(p *cri.SecurityProfile) *specs.LinuxSeccomp {
	if p == nil || p.ProfileType == cri.SecurityProfile_Unconfined {
		return nil
	}
	return &specs.LinuxSeccomp{
		DefaultAction: specs.ActErrno, Architectures: []specs.Arch{specs.ArchX86_64},
		Syscalls: []specs.LinuxSyscall{{Names: []string{"read", "write", "exit_group"}, Action: specs.ActAllow}},
	}
}

// label is an SELinux label with what the pod asks for over the policy's
// default (go-selinux label.InitLabels).
func (n *Node) label(o *cri.SELinuxOption, from string) string {
	if !n.SELinux {
		return ""
	}
	part := strings.SplitN(from, ":", 4)
	for i, v := range []string{o.GetUser(), o.GetRole(), o.GetType(), o.GetLevel()} {
		if v != "" {
			part[i] = v
		}
	}
	return strings.Join(part, ":")
}

func (w Identity) defaultLabel() string { return "system_u:system_r:container_t:" + w.Level }

// env puts variables over others, in the order in which they first come.
func env(lists ...[]string) []string {
	var out []string
	at := map[string]int{}
	for _, list := range lists {
		for _, e := range list {
			name, _, _ := strings.Cut(e, "=")
			if i, ok := at[name]; ok {
				out[i] = e
				continue
			}
			at[name] = len(out)
			out = append(out, e)
		}
	}
	return out
}

func envs(list []*cri.KeyValue) []string {
	var out []string
	for _, e := range list {
		out = append(out, e.Key+"="+string(e.Value))
	}
	return out
}

// resolve follows a symbolic link of the last path element, as engines do.
func (n *Node) resolve(path string) string {
	if to, ok := n.Links[path]; ok {
		return to
	}
	return path
}

// begins reports whether a key begins with one of the prefixes.
func begins(key string, prefixes []string) bool {
	for _, p := range prefixes {
		if strings.HasPrefix(key, p) {
			return true
		}
	}
	return false
}

func resources(r *cri.LinuxContainerResources, devices []specs.LinuxDeviceCgroup) *specs.LinuxResources {
	out := &specs.LinuxResources{Devices: devices, Memory: &specs.LinuxMemory{}, CPU: &specs.LinuxCPU{}}
	if v := uint64(r.GetCpuPeriod()); v != 0 {
		out.CPU.Period = &v
	}
	if v := r.GetCpuQuota(); v != 0 {
		out.CPU.Quota = &v
	}
	if v := uint64(r.GetCpuShares()); v != 0 {
		out.CPU.Shares = &v
	}
	if v := r.GetMemoryLimitInBytes(); v != 0 {
		out.Memory.Limit, out.Memory.Swap = &v, &v
	}
	return out
}

func hostDevices(list []specs.LinuxDevice) ([]specs.LinuxDevice, []specs.LinuxDeviceCgroup) {
	return list, []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}
}

// asked are the devices that a container is given (device plugins).
func asked(list []*cri.Device) (devices []specs.LinuxDevice, rules []specs.LinuxDeviceCgroup) {
	rules = []specs.LinuxDeviceCgroup{{Access: "rwm"}}
	for _, d := range list {
		major, minor := deviceNumber(d.HostPath)
		devices = append(devices, specs.LinuxDevice{Path: d.ContainerPath, Type: "c", Major: major, Minor: minor})
		rules = append(rules, specs.LinuxDeviceCgroup{Allow: true, Type: "c", Major: &major, Minor: &minor, Access: d.Permissions})
	}
	return devices, rules
}

// deviceNumber knows the devices that tests ask for.
func deviceNumber(path string) (major, minor int64) {
	switch path {
	case "/dev/kmsg":
		return 1, 11
	case "/dev/null":
		return 1, 3
	case "/dev/fuse":
		return 10, 229
	}
	panic(fmt.Sprintf("no number for device %s", path))
}
