package translate

import (
	"crypto/sha256"
	"encoding/hex"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// Engine is a container engine of which the configuration files are known.
type Engine string

// The engines.
const (
	Containerd1 Engine = "containerd 1.6"
	Containerd2 Engine = "containerd 2"
	CRIO        Engine = "CRI-O"
)

// Node is what decides, beside the pod, how a bundle looks.
type Node struct {
	Engine Engine
	// AppArmor and SELinux say what the kernel has and the engine uses.
	AppArmor, SELinux bool
	// SeccompDefault is the kubelet's setting.
	SeccompDefault bool
	// Image is what every container's image has.
	Image Image
	// Pause is the sandbox's image.
	Pause Image
	// AllCapabilities are the engine's own, which a privileged container gets.
	AllCapabilities []string
	// PrivilegedWithoutHostDevices is containerd's setting of a handler.
	PrivilegedWithoutHostDevices bool
	// PodAnnotations and ContainerAnnotations are containerd's settings of what
	// a handler lets through: none, or those that begin so.
	PodAnnotations, ContainerAnnotations []string
	// HostDevices are the nodes in the machine's /dev.
	HostDevices []specs.LinuxDevice
	// KeepInfra is the opposite of CRI-O's drop_infra_ctr.
	KeepInfra bool
	// CgroupV2 is true for the unified hierarchy.
	CgroupV2 bool
	// Name is the node's.
	Name string
	// KubeletRoot, Root and State are directories of the kubelet and the engine.
	KubeletRoot, Root, State string
	// NetNS is the directory of pinned network namespaces.
	NetNS string
	// Links are symbolic links of the node, which engines follow.
	Links map[string]string
}

// Image is an image's configuration.
type Image struct {
	Name string
	Args []string
	Env  []string
	Cwd  string
	// UID and GID are what USER comes to.
	UID, GID int64
	// Users are the names in /etc/passwd, with uid and gid.
	Users map[string][2]int64
}

// NewNode returns a usual node with an engine: one on which all that a pod asks
// for leaves its traces, with AppArmor and SELinux both, which no real one has.
func NewNode(e Engine) *Node {
	n := &Node{
		Engine: e, AppArmor: true, SELinux: true, Name: "node1", KubeletRoot: "/var/lib/kubelet",
		Image:           Image{Args: []string{"/pause"}, Env: []string{"PATH=" + defaultPath}, Cwd: "/", UID: 65535, GID: 65535},
		Pause:           Image{Name: "registry.k8s.io/pause:3.10", Args: []string{"/pause"}, Env: []string{"PATH=" + defaultPath}, Cwd: "/", UID: 65535, GID: 65535},
		AllCapabilities: allCapabilities,
		HostDevices:     []specs.LinuxDevice{{Path: "/dev/sda", Type: "b", Major: 8}, {Path: "/dev/kvm", Type: "c", Major: 10, Minor: 232}},
		CgroupV2:        true,
	}
	switch e {
	case CRIO:
		n.Root, n.State, n.NetNS = "/var/lib/containers/storage", "/run/containers/storage", "/var/run"
		n.Pause.UID, n.Pause.GID = 0, 0 // CRI-O doesn't look at its image's USER
	default:
		n.Root, n.State, n.NetNS = "/var/lib/containerd", "/run/containerd", "/var/run/netns"
	}
	return n
}

// SpecEngine is how nodeadmit is told of the engine.
func (n *Node) SpecEngine() spec.Engine {
	e := spec.NewEngine(spec.Containerd)
	if n.Engine == CRIO {
		e = spec.NewEngine(spec.CRIO)
	}
	e.KubeletRoots = []string{n.KubeletRoot}
	return e
}

const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// allCapabilities are the kernel's, as of Linux 6.12, in its order.
var allCapabilities = []string{
	"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID",
	"CAP_SETPCAP", "CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE", "CAP_NET_BROADCAST", "CAP_NET_ADMIN", "CAP_NET_RAW",
	"CAP_IPC_LOCK", "CAP_IPC_OWNER", "CAP_SYS_MODULE", "CAP_SYS_RAWIO", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE", "CAP_SYS_PACCT",
	"CAP_SYS_ADMIN", "CAP_SYS_BOOT", "CAP_SYS_NICE", "CAP_SYS_RESOURCE", "CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_MKNOD",
	"CAP_LEASE", "CAP_AUDIT_WRITE", "CAP_AUDIT_CONTROL", "CAP_SETFCAP", "CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG",
	"CAP_WAKE_ALARM", "CAP_BLOCK_SUSPEND", "CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF", "CAP_CHECKPOINT_RESTORE",
}

// Identity is what an engine makes up for a sandbox.
type Identity struct {
	// Sandbox is its id.
	Sandbox string
	// PID is its process.
	PID int
	// Namespaces is the name of its pinned namespaces.
	Namespaces string
	// Level is the SELinux level that it was given.
	Level string
}

// id returns a name of 64 hexadecimal digits, always the same for a word.
func id(word string) string {
	sum := sha256.Sum256([]byte(word))
	return hex.EncodeToString(sum[:])
}
