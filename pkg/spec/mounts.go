package spec

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// mountMapper classifies mounts by where they come from. Everything is bound
// to this pod's uid, this sandbox's id and this container's id: another pod's
// directory is a path of the host like any other.
type mountMapper struct {
	in   *Intent
	dir  string
	id   string
	host Host
	pid  int
	// engineRoots and kubeletRoots hold the configured spellings and, on a
	// live look, the resolved ones.
	engineRoots  []string
	kubeletRoots []string
}

func newMountMapper(in *Intent, doc *Document, o Options) *mountMapper {
	m := &mountMapper{in: in, dir: doc.Dir, id: o.ID, host: o.Host, pid: o.PID}
	if m.id == "" {
		m.id = idFromCgroup(linux(doc.Spec).CgroupsPath)
	}
	m.engineRoots = m.spellings(o.Engine.Roots)
	m.kubeletRoots = m.spellings(o.Engine.KubeletRoots)
	return m
}

func (m *mountMapper) spellings(roots []string) []string {
	var out []string
	for _, r := range roots {
		r = filepath.Clean(r)
		out = append(out, r)
		if m.host != nil {
			if real, err := m.host.Resolve(r); err == nil && real != r {
				out = append(out, real)
			}
		}
	}
	return out
}

// idFromCgroup takes the container's id from the end of linux.cgroupsPath,
// which engines write as ".../ID", ".../crio-ID", ".../libpod-ID" (cgroupfs) or
// "slice:prefix:ID" (systemd).
func idFromCgroup(path string) string {
	i := strings.LastIndexAny(path, "/:")
	if i < 0 {
		return ""
	}
	id := path[i+1:]
	for _, prefix := range []string{"crio-", "libpod-"} {
		id = strings.TrimPrefix(id, prefix)
	}
	return id
}

// systemTypes are filesystems that come to life with the container and show
// nothing of the host's files.
var systemTypes = []string{"proc", "sysfs", "tmpfs", "devpts", "mqueue", "cgroup", "cgroup2"}

func (m *mountMapper) mapMounts(s *specs.Spec) error {
	m.in.Mounts = make([]Mount, 0, len(s.Mounts)+2)
	for i := range s.Mounts {
		m.in.Mounts = append(m.in.Mounts, m.mapMount(&s.Mounts[i], i))
	}
	if s.Root != nil {
		m.mapRoot(s.Root)
	}
	if m.host == nil || m.pid == 0 || s.Root == nil {
		return nil
	}
	return m.mapRealMounts(s)
}

func (m *mountMapper) mapMount(sm *specs.Mount, i int) Mount {
	out := Mount{
		Destination: sm.Destination, Type: sm.Type, Field: fieldOf("mounts", i, ""),
		Certainty: Known,
	}
	recursive := false
	for _, o := range sm.Options {
		switch o {
		case "bind":
			out.Bind = true
		case "rbind":
			out.Bind, recursive = true, true
		case "ro":
			out.ReadOnly = true
		case "rw":
			out.ReadOnly, out.RecursiveReadOnly = false, false
		case "rro":
			out.ReadOnly, out.RecursiveReadOnly = true, true
		}
	}
	out.Bind = out.Bind || sm.Type == "bind" || sm.Type == "rbind"
	if !out.Bind {
		m.classifyFilesystem(&out, sm)
		return out
	}
	if out.ReadOnly && !recursive {
		out.RecursiveReadOnly = true
	}
	out.Source = absolute(m.dir, sm.Source)
	out.Field += ".source"
	m.classifyBind(&out)
	m.checkDots(&out, sm.Source)
	return out
}

// checkDots judges a source with "..", which the kernel takes where a link leads
// to, and some runtimes off the text. Both must be the same place.
func (m *mountMapper) checkDots(out *Mount, source string) {
	if m.host == nil || !slices.Contains(strings.Split(source, "/"), "..") {
		return
	}
	if !filepath.IsAbs(source) {
		source = m.dir + "/" + source
	}
	if real, err := m.host.Resolve(source); err != nil || real != out.Path() {
		out.Real, out.Class, out.Volume, out.Certainty = real, MountHostPath, "", Unknown
		out.Why = "\"..\" behind a symbolic link"
	}
}

// classifyFilesystem judges a mount that is no bind.
func (m *mountMapper) classifyFilesystem(out *Mount, sm *specs.Mount) {
	if slices.Contains(systemTypes, sm.Type) {
		out.Class = MountSystem
		return
	}
	if m.in.Engine.Dialect == CRIO && m.crioImageVolume(sm) {
		out.Class, out.Volume, out.Why = MountVolume, "image", "image volume"
		out.ReadOnly, out.RecursiveReadOnly = true, true
		return
	}
	out.Class = MountForeign
	out.Source = sm.Source
	out.Field += ".type"
	out.Why = "a filesystem of type " + Quote(sm.Type)
}

// classifyBind gives a bind its class: by its source as it is written and, on
// a live look, by where that leads. Both must agree on the pod's own.
func (m *mountMapper) classifyBind(out *Mount) {
	m.classifyPath(out, out.Source)
	if m.host == nil {
		return
	}
	real, err := m.host.Resolve(out.Source)
	if err != nil {
		out.Certainty = Unknown
		out.Class = MountHostPath
		out.Why = err.Error()
		return
	}
	if real == out.Source {
		return
	}
	out.Real = real
	was, wasVolume := out.Class, out.Volume
	m.classifyPath(out, real)
	if out.Class != was || out.Volume != wasVolume {
		out.Class, out.Volume = MountHostPath, ""
		out.Why = "a symbolic link leads to it"
	}
}

// classifyPath sets the class of a host path.
func (m *mountMapper) classifyPath(out *Mount, path string) {
	out.Class, out.Volume, out.Why = MountHostPath, "", ""
	if why, ok := m.ownFile(path); ok {
		out.Class, out.Why = MountEngine, why
		return
	}
	if m.in.Engine.Dialect == Containerd && m.containerdImageVolume(path) {
		out.Class, out.Volume, out.Why = MountVolume, "image", "image volume of this pod"
		return
	}
	if m.hostShared(out, path) {
		out.Class, out.Why = MountEngine, "follows from the pod's host namespace"
		return
	}
	m.kubeletPath(out, path)
}

func (m *mountMapper) ownFile(path string) (string, bool) {
	switch m.in.Engine.Dialect {
	case Containerd:
		return m.containerdMount(path)
	case CRIO:
		return m.crioMount(path)
	case Podman:
		return m.podmanMount(path)
	case Docker:
		return m.dockerMount(path)
	}
	return "", false
}

// hostShared knows the binds that an engine adds for a host namespace: the
// host's /dev/shm for hostIPC (containerd sandbox_run_linux.go, CRI-O
// sandbox_run_linux.go), and in a user namespace /sys for hostNetwork and
// /proc for hostPID, because the kernel refuses to mount them there.
func (m *mountMapper) hostShared(out *Mount, path string) bool {
	if out.Destination != path {
		return false
	}
	in := m.in
	switch path {
	case "/dev/shm":
		if in.HostIPC.Certainty == Assumed && (in.Engine.Dialect == Containerd || in.Engine.Dialect == CRIO) {
			// The namespace's path doesn't say whose it is, this bind does.
			in.HostIPC = known(NamespaceHost, out.Field)
		}
		return Is(in.HostIPC, NamespaceHost)
	case "/sys":
		return Is(in.HostNetwork, NamespaceHost) && out.ReadOnly && InUserNamespace(in)
	case "/proc":
		return Is(in.HostPID, NamespaceHost) && InUserNamespace(in)
	}
	return false
}

// InUserNamespace reports whether the container has a user namespace in which
// its root is not the host's, as hostUsers: false gives.
func InUserNamespace(in *Intent) bool {
	return in.UserNamespace.Certainty != Unknown && in.UserNamespace.Value != NamespaceHost
}

const csiPlugin = "kubernetes.io~csi"

// volumeTypes names the volume that a kubelet plugin's directory holds
// (kubelet pkg/volume, one directory per plugin; "/" is written "~").
var volumeTypes = map[string]string{
	"kubernetes.io~empty-dir":    "emptyDir",
	"kubernetes.io~configmap":    "configMap",
	"kubernetes.io~secret":       "secret",
	"kubernetes.io~projected":    "projected",
	"kubernetes.io~downward-api": "downwardAPI",
	csiPlugin:                    "csi|persistentVolumeClaim",
	"kubernetes.io~local-volume": "persistentVolumeClaim",
	"kubernetes.io~git-repo":     "gitRepo",
	// Inline, or behind a claim: the directory is the same.
	"kubernetes.io~nfs":   "nfs|persistentVolumeClaim",
	"kubernetes.io~iscsi": "iscsi|persistentVolumeClaim",
	"kubernetes.io~fc":    "fc|persistentVolumeClaim",
	// The plugins whose directory isn't called as the pod's field is.
	"kubernetes.io~aws-ebs":         "awsElasticBlockStore|persistentVolumeClaim",
	"kubernetes.io~azure-disk":      "azureDisk|persistentVolumeClaim",
	"kubernetes.io~azure-file":      "azureFile|persistentVolumeClaim",
	"kubernetes.io~gce-pd":          "gcePersistentDisk|persistentVolumeClaim",
	"kubernetes.io~photon-pd":       "photonPersistentDisk|persistentVolumeClaim",
	"kubernetes.io~portworx-volume": "portworxVolume|persistentVolumeClaim",
	"kubernetes.io~scaleio":         "scaleIO|persistentVolumeClaim",
	"kubernetes.io~vsphere-volume":  "vsphereVolume|persistentVolumeClaim",
}

// kubeletPath knows the kubelet's files for this pod
// (kubelet pkg/kubelet/kubelet_getters.go): pods/UID/etc-hosts,
// pods/UID/containers/NAME/FILE, pods/UID/volumes/PLUGIN/NAME and
// pods/UID/volume-subpaths/VOLUME/CONTAINER/INDEX.
func (m *mountMapper) kubeletPath(out *Mount, path string) {
	uid := m.in.Pod.UID.Value
	if !plainName(uid) {
		return
	}
	for _, root := range m.kubeletRoots {
		r, ok := rest(path, root+"/pods/"+uid)
		if !ok {
			continue
		}
		p := strings.Split(r, "/")
		switch {
		case len(p) == 1 && p[0] == "etc-hosts":
			out.Class, out.Why = MountKubelet, "hosts file of this pod"
		case len(p) == 3 && p[0] == "containers":
			out.Class, out.Why = MountKubelet, "termination log of this pod"
		case len(p) >= 3 && p[0] == "volumes":
			m.kubeletVolume(out, p[1:])
			if p[1] == csiPlugin && out.Class == MountVolume {
				m.csiVolume(out, strings.TrimSuffix(path, "/mount"))
			}
		case len(p) == 3 && p[0] == "volumeDevices":
			out.Class, out.Volume, out.Why = MountVolume, "persistentVolumeClaim", "block volume of this pod"
		case len(p) == 4 && p[0] == "volume-subpaths" && p[2] == m.in.Pod.Container.Value:
			m.subPath(out, path, root+"/pods/"+uid)
		}
		return
	}
}

func (m *mountMapper) kubeletVolume(out *Mount, p []string) {
	plugin := p[0]
	want := 2
	if plugin == csiPlugin {
		want = 3 // .../NAME/mount
	}
	if len(p) != want || (want == 3 && p[2] != "mount") {
		return
	}
	typ, ok := volumeTypes[plugin]
	if !ok {
		vendor, driver, flex := strings.Cut(plugin, "~")
		if !flex {
			return
		}
		if typ = "flexVolume|persistentVolumeClaim"; vendor == "kubernetes.io" {
			typ = driver + "|persistentVolumeClaim"
		}
	}
	out.Class, out.Volume, out.Why = MountVolume, typ, "volume of this pod"
}

// csiVolume tells an inline volume from a claim's by what the kubelet wrote
// beside the mount (pkg/volume/csi/csi_plugin.go, vol_data.json).
func (m *mountMapper) csiVolume(out *Mount, dir string) {
	if m.host == nil {
		return
	}
	data, err := m.host.ReadFile(dir + "/vol_data.json")
	if err != nil {
		return
	}
	switch {
	case bytes.Contains(data, []byte(`"volumeLifecycleMode":"Ephemeral"`)):
		out.Volume = "csi"
	case bytes.Contains(data, []byte(`"volumeLifecycleMode":"Persistent"`)):
		out.Volume = "persistentVolumeClaim"
	}
}

// subPath judges a bind that the kubelet made for a volume mount with subPath
// (pkg/volume/util/subpath). The path is the same for an emptyDir and for a
// host path: only the mount table tells what is bound there.
func (m *mountMapper) subPath(out *Mount, path, pod string) {
	if m.host == nil {
		out.Certainty = Unknown
		out.Why = "a subPath, of which only the node's mount table tells the volume"
		return
	}
	for _, name := range m.host.BoundFrom(path) {
		if r, ok := rest(name, pod+"/volumes"); ok {
			p := strings.Split(r, "/")
			depth := 2
			if p[0] == csiPlugin {
				depth = 3
			}
			if len(p) >= depth {
				m.kubeletVolume(out, p[:depth])
				if out.Class == MountVolume {
					out.Why = "subPath of a volume of this pod"
					return
				}
			}
		}
		if out.Real == "" {
			out.Real = name
		}
	}
	out.Why = "a subPath that leads out of the pod's volumes"
}

func plainName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return s != "" && s != "." && s != ".."
}

// mapRoot lists a root filesystem that is the host's as a mount of it.
func (m *mountMapper) mapRoot(root *specs.Root) {
	path := absolute(m.dir, root.Path)
	real := path
	if m.host != nil {
		if r, err := m.host.Resolve(path); err == nil {
			real = r
		}
	}
	if path != "/" && real != "/" {
		return
	}
	m.in.Mounts = append(m.in.Mounts, Mount{
		Destination: "/", Source: path, Real: real, Bind: true, ReadOnly: root.Readonly,
		Class: MountHostPath, Field: "root.path", Certainty: Known, Why: "the root filesystem is the host's",
	})
}

// mapRealMounts adds what the kernel shows in the container's mount namespace
// and no mount of the document accounts for: a symbolic link that was swapped
// since, a mount that another hook added.
func (m *mountMapper) mapRealMounts(s *specs.Spec) error {
	root := absolute(m.dir, s.Root.Path)
	if r, err := m.host.Resolve(root); err == nil {
		root = r
	}
	reals, err := m.host.Mounts(m.pid, root)
	if err != nil {
		return fmt.Errorf("mounts of process %d: %w", m.pid, err)
	}
	declared := len(m.in.Mounts)
	for _, real := range reals {
		if len(real.HostPaths) == 0 && !real.Hidden {
			continue // made for this container
		}
		if m.systemMount(real, m.in.Mounts[:declared]) {
			continue
		}
		out := Mount{
			Destination: real.Destination, Type: real.FSType, Bind: true, ReadOnly: real.ReadOnly,
			Names: real.HostPaths, Field: "mountinfo", Certainty: Known,
		}
		if real.Hidden {
			out.Class, out.Why = MountHostPath, "a place of a host filesystem that no path of the host shows"
			m.in.Mounts = append(m.in.Mounts, out)
			continue
		}
		m.classifyNames(&out, m.in.Mounts[:declared])
		m.in.Mounts = append(m.in.Mounts, out)
	}
	m.settleReadOnly(declared)
	return nil
}

// systemMount reports whether a real mount belongs to a system filesystem of
// the same type that the document declares there: sysfs, cgroup and with
// hostPID also proc are one superblock for host and container. The declared
// mount nearest above decides, the last one where several have one place.
func (m *mountMapper) systemMount(real RealMount, declared []Mount) bool {
	var nearest *Mount
	for i := range declared {
		d := &declared[i]
		dest := filepath.Clean(d.Destination)
		if below(real.Destination, dest) && (nearest == nil || len(dest) >= len(filepath.Clean(nearest.Destination))) {
			nearest = d
		}
	}
	return nearest != nil && nearest.Class == MountSystem && strings.HasPrefix(real.FSType, strings.TrimSuffix(nearest.Type, "2"))
}

// classifyNames classifies a real mount. All names are names of one directory,
// so one of them among the pod's own settles it: only root can bind another
// directory there.
func (m *mountMapper) classifyNames(out *Mount, declared []Mount) {
	for _, name := range out.Names {
		try := *out
		m.classifyPath(&try, name)
		if try.Class != MountHostPath {
			try.Real = name
			*out = try
			return
		}
	}
	out.Class, out.Real, out.Why = MountHostPath, out.Names[0], "mounted there when the container was made"
	if defaultDevice(out) {
		out.Class, out.Why = MountSystem, "default device"
		return
	}
	// A mount below the source of a recursive bind, or the bind itself.
	for i := range declared {
		d := &declared[i]
		if !d.Bind || d.Class == MountHostPath {
			continue
		}
		for _, name := range out.Names {
			if below(name, d.Path()) && below(out.Destination, filepath.Clean(d.Destination)) {
				out.Class, out.Volume, out.Why = d.Class, d.Volume, d.Why
				return
			}
		}
	}
}

// defaultDevice knows the device nodes that a runtime binds from the host's
// /dev into a container with a user namespace (runtime-spec config-linux.md,
// Default Devices).
func defaultDevice(out *Mount) bool {
	switch out.Destination {
	case "/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty", "/dev/console":
		return slices.Contains(out.Names, out.Destination)
	}
	return false
}

// settleReadOnly corrects what the document says of read-only binds by what is
// mounted: a bind is read-only throughout if every real mount at and below its
// destination is.
func (m *mountMapper) settleReadOnly(declared int) {
	for i := range m.in.Mounts[:declared] {
		d := &m.in.Mounts[i]
		if !d.Bind || !d.ReadOnly {
			continue
		}
		all := true
		for _, r := range m.in.Mounts[declared:] {
			if below(r.Destination, filepath.Clean(d.Destination)) && !r.ReadOnly {
				all = false
			}
		}
		d.RecursiveReadOnly = all
	}
}
