package translate

import (
	"fmt"
	"io/fs"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// Host answers for the machine on which the bundles would be: whose the
// namespaces are that they name, and what the kubelet has in its directories.
type Host struct {
	appArmor   bool
	namespaces map[string]spec.NamespaceID
	files      map[string]string
	bound      map[string]string
}

// hostInode and podInode tell namespaces apart.
const (
	hostInode = 4026531000
	podInode  = 4026532000
)

var inodes = map[specs.LinuxNamespaceType]uint64{
	specs.NetworkNamespace: 1, specs.PIDNamespace: 2, specs.IPCNamespace: 3, specs.UTSNamespace: 4, specs.UserNamespace: 5,
	specs.CgroupNamespace: 6, specs.MountNamespace: 7,
}

func newHost(n *Node, r *Requests, who Identity) *Host {
	h := &Host{appArmor: n.AppArmor, namespaces: map[string]spec.NamespaceID{}, files: r.Files, bound: r.Bound}
	o := r.Sandbox.GetLinux().GetSecurityContext().GetNamespaceOptions()
	users := inUserNamespace(o) && n.Engine != Containerd1
	for _, ns := range []struct {
		t      specs.LinuxNamespaceType
		proc   string
		pinned []string
		host   bool
	}{
		{specs.NetworkNamespace, "net", []string{n.NetNS + "/cni-" + who.Namespaces, n.NetNS + "/netns/" + who.Namespaces}, o.GetNetwork() == cri.NamespaceMode_NODE},
		{specs.PIDNamespace, "pid", nil, o.GetPid() == cri.NamespaceMode_NODE},
		{specs.IPCNamespace, "ipc", []string{n.NetNS + "/ipcns/" + who.Namespaces}, o.GetIpc() == cri.NamespaceMode_NODE},
		{specs.UTSNamespace, "uts", []string{n.NetNS + "/utsns/" + who.Namespaces}, o.GetNetwork() == cri.NamespaceMode_NODE},
		{specs.UserNamespace, "user", []string{n.NetNS + "/userns/" + who.Namespaces, n.sandboxState(who) + "/pinned-namespaces/user"}, !users},
	} {
		id := spec.NamespaceID{Dev: 4, Ino: podInode + inodes[ns.t]}
		if ns.host {
			id.Ino = hostInode + inodes[ns.t]
		}
		for _, p := range append(ns.pinned, fmt.Sprintf("/proc/%d/ns/%s", who.PID, ns.proc)) {
			h.namespaces[p] = id
		}
	}
	return h
}

// Namespace implements [spec.Host].
func (h *Host) Namespace(path string) (spec.NamespaceID, error) {
	id, ok := h.namespaces[path]
	if !ok {
		return id, fmt.Errorf("%s: %w", path, fs.ErrNotExist)
	}
	return id, nil
}

// HostNamespaces implements [spec.Host].
func (h *Host) HostNamespaces(t specs.LinuxNamespaceType) ([]spec.NamespaceID, error) {
	return []spec.NamespaceID{{Dev: 4, Ino: hostInode + inodes[t]}}, nil
}

// Resolve implements [spec.Host]: there are no links but those that the engine
// has followed.
func (h *Host) Resolve(path string) (string, error) { return path, nil }

// ReadFile implements [spec.Host].
func (h *Host) ReadFile(path string) ([]byte, error) {
	text, ok := h.files[path]
	if !ok {
		return nil, fmt.Errorf("%s: %w", path, fs.ErrNotExist)
	}
	return []byte(text), nil
}

// BoundFrom implements [spec.Host].
func (h *Host) BoundFrom(path string) []string {
	if from, ok := h.bound[path]; ok {
		return []string{from}
	}
	return nil
}

// Mounts implements [spec.Host]: no container has been made yet.
func (h *Host) Mounts(int, string) ([]spec.RealMount, error) { return nil, nil }

// ProcessNamespace implements [spec.Host].
func (h *Host) ProcessNamespace(int, specs.LinuxNamespaceType) (spec.NamespaceID, error) {
	return spec.NamespaceID{}, fs.ErrNotExist
}

// AppArmor implements [spec.AppArmorHost].
func (h *Host) AppArmor() (bool, error) { return h.appArmor, nil }
