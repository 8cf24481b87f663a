package spec

import (
	"fmt"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// Kind says what the bundle starts.
type Kind string

const (
	// KindSandbox is the pod's first container (pause). It is made before any
	// image of the pod is pulled.
	KindSandbox Kind = "sandbox"
	// KindContainer is any container of a pod: init, sidecar and ephemeral
	// ones look the same to a runtime.
	KindContainer Kind = "container"
	// KindUnmanaged is a bundle with none of its engine's CRI keys.
	KindUnmanaged Kind = "unmanaged"
)

// Certainty says how well a fact is known.
type Certainty int

const (
	// Unknown: neither the document nor the machine can tell.
	Unknown Certainty = iota
	// Assumed: taken from the form of the document, without a look at the
	// machine that would prove it.
	Assumed
	// Known: read in the document or seen on the machine.
	Known
)

func (c Certainty) String() string {
	switch c {
	case Known:
		return "known"
	case Assumed:
		return "assumed"
	default:
		return "unknown"
	}
}

// Fact is one thing that is, or is not, known about a container or its pod.
type Fact[T any] struct {
	Value     T
	Certainty Certainty
	// Source is where the value was read: a JSON path into the document
	// ("linux.seccomp"), an annotation's key, or a file of the machine.
	Source string
	// Forgeable is true if a pod's author could have written the value, so
	// that it must not be trusted against one.
	Forgeable bool
}

// Is reports whether the fact is known (or assumed) to have the value v.
func Is[T comparable](f Fact[T], v T) bool { return f.Certainty != Unknown && f.Value == v }

func known[T any](v T, source string) Fact[T] {
	return Fact[T]{Value: v, Certainty: Known, Source: source}
}

func assumed[T any](v T, source string) Fact[T] {
	return Fact[T]{Value: v, Certainty: Assumed, Source: source}
}

func unknown[T any](source string) Fact[T] { return Fact[T]{Source: source} }

// NamespaceMode says whose namespace a container runs in.
type NamespaceMode string

const (
	// NamespaceHost is the host's own.
	NamespaceHost NamespaceMode = "host"
	// NamespaceShared is joined by path and is not the host's: the pod's.
	NamespaceShared NamespaceMode = "shared"
	// NamespaceNew is made for this container.
	NamespaceNew NamespaceMode = "new"
)

// IDMapping is one line of a user namespace's uid or gid map.
type IDMapping struct {
	ContainerID uint32 `json:"containerID"`
	HostID      uint32 `json:"hostID"`
	Size        uint32 `json:"size"`
}

// Image is what the document says of the container's image.
type Image struct {
	// Name is the reference, as the engine wrote it.
	Name string `json:"name"`
	// Digest is the digest in Name ("sha256:..."), or "".
	Digest string `json:"digest,omitempty"`
	// RepoDigests are references by digest that the engine knows the image by
	// (CRI-O), whatever the pod called it.
	RepoDigests []string `json:"repoDigests,omitempty"`
}

// SharedPID is whose PID namespace a container joins by path.
type SharedPID string

const (
	// SharedPIDNone: it joins none by path.
	SharedPIDNone SharedPID = "none"
	// SharedPIDPod: the sandbox's, as with shareProcessNamespace.
	SharedPIDPod SharedPID = "pod"
	// SharedPIDTarget: another container's, as a debug container does.
	SharedPIDTarget SharedPID = "target"
)

// MountClass says what a mount is to the pod.
type MountClass string

const (
	// MountSystem is no bind: proc, sysfs, tmpfs, mqueue, cgroup and such.
	MountSystem MountClass = "system"
	// MountEngine is the engine's own file for this sandbox or container
	// (resolv.conf, hostname, shm, an image's anonymous volume).
	MountEngine MountClass = "engine"
	// MountKubelet is the kubelet's own file for this pod (etc-hosts,
	// termination log).
	MountKubelet MountClass = "kubelet"
	// MountVolume is a pod volume that is no host path; Type names it.
	MountVolume MountClass = "volume"
	// MountHostPath is a path of the host.
	MountHostPath MountClass = "hostPath"
	// MountForeign is a filesystem that no engine mounts for a pod: ext4 on a
	// block device, overlay, nfs, ...
	MountForeign MountClass = "foreign"
)

// Mount is one mount of the document, or one found on the machine.
type Mount struct {
	Destination string `json:"destination"`
	// Source is the path as the engine wrote it, cleaned and made absolute
	// against the bundle.
	Source string `json:"source,omitempty"`
	// Real is where Source leads with every symlink resolved, where the
	// machine was looked at; else "".
	Real  string     `json:"real,omitempty"`
	Type  string     `json:"type,omitempty"`
	Bind  bool       `json:"bind,omitempty"`
	Class MountClass `json:"class"`
	// Volume is the pod's volume type for MountVolume ("emptyDir",
	// "configMap", "csi", ...). Ambiguous types are joined by "|".
	Volume string `json:"volume,omitempty"`
	// ReadOnly is true if the mount itself is read-only. RecursiveReadOnly is
	// true if mounts below it are as well (option rro, or none seen).
	ReadOnly          bool `json:"readOnly,omitempty"`
	RecursiveReadOnly bool `json:"recursiveReadOnly,omitempty"`
	// Names are all paths of the host that show what is really mounted, for a
	// mount that was found on the machine.
	Names []string `json:"names,omitempty"`
	// Field is the JSON path of the mount ("mounts[7]"), or the place on the
	// machine where it was found.
	Field     string    `json:"field"`
	Certainty Certainty `json:"-"`
	// Why says in a few words on what the class rests.
	Why string `json:"why,omitempty"`
}

// Path is the most real path known for a bind's source.
func (m *Mount) Path() string {
	if m.Real != "" {
		return m.Real
	}
	return m.Source
}

// Sign is one trait of a privileged container that was found.
type Sign struct {
	// Name is a word for the trait ("writable /sys").
	Name  string `json:"name"`
	Field string `json:"field"`
}

// Capabilities is the union of all five sets, compared with what the engine
// gives by default. Names have no "CAP_" and are upper case.
type Capabilities struct {
	All   []string `json:"all"`
	Added []string `json:"added"`
	// Field is the JSON path of the first set that holds an added capability,
	// else of the bounding set.
	Field string `json:"field"`
}

// Identity is whose container it is.
type Identity struct {
	Namespace Fact[string]
	Name      Fact[string]
	UID       Fact[string]
	SandboxID Fact[string]
	Container Fact[string]
	Image     Fact[Image]
}

// Intent is what a config.json asks of the node, in the words of a pod.
type Intent struct {
	Kind    Kind
	Engine  Engine
	Bundle  string
	Pod     Identity
	Ignored []string // keys of another engine's dialect, or forged, not used

	// RuntimeHandler is the name that the wrapper was called under.
	RuntimeHandler Fact[string]
	// StaticPod is the kubelet's own mark of a pod that no API server gave it.
	StaticPod Fact[bool]
	// Args are process.args.
	Args Fact[[]string]

	HostNetwork Fact[NamespaceMode]
	HostPID     Fact[NamespaceMode]
	HostIPC     Fact[NamespaceMode]
	HostUTS     Fact[NamespaceMode]
	HostCgroup  Fact[NamespaceMode]
	HostMount   Fact[NamespaceMode]
	// UserNamespace is NamespaceHost for a pod with hostUsers unset or true.
	// A map that leaves every id what it is counts as the host's.
	UserNamespace Fact[NamespaceMode]
	// SharedPID says whose PID namespace a container joins: with
	// shareProcessNamespace the pod's, as a debug container its target's.
	SharedPID   Fact[SharedPID]
	UIDMappings []IDMapping
	GIDMappings []IDMapping

	// Privileged is true for a container that runs with securityContext
	// privileged, and for a sandbox of which some container does.
	Privileged      Fact[bool]
	PrivilegedSigns []Sign

	Capabilities Fact[Capabilities]

	Seccomp     Fact[SeccompKind]
	AppArmor    Fact[string] // profile; "" is none
	SELinux     Fact[string] // label user:role:type:level; "" is none
	MaskedPaths Fact[[]string]
	ReadOnly    Fact[[]string] // readonlyPaths
	// ProcUnmasked is true for procMount: Unmasked.
	ProcUnmasked     Fact[bool]
	NoNewPrivileges  Fact[bool]
	UID              Fact[uint32]
	GID              Fact[uint32]
	AdditionalGIDs   Fact[[]uint32]
	ReadOnlyRoot     Fact[bool]
	RootPath         Fact[string]
	Cwd              Fact[string]
	Sysctls          Fact[map[string]string] // keys in dot form
	Devices          []Device
	AllowAllDevices  Fact[bool]
	CgroupWritable   Fact[bool]
	SysWritable      Fact[bool]
	LoaderVariables  []Variable
	UnsafeAnnotation []Annotation

	// SeccompType is RuntimeDefault or Localhost, where an engine says which
	// of the two a profile is.
	SeccompType Fact[string]
	// AppArmorHost is true if the machine has AppArmor.
	AppArmorHost Fact[bool]
	// HostPorts are the ports of the node that the container's ports take.
	HostPorts Fact[[]int]

	Mounts []Mount

	// UnknownKeys are JSON paths of keys that no known runtime-spec version
	// has, inside process, linux, mounts and hooks.
	UnknownKeys []string
}

// SeccompKind says what a seccomp profile does.
type SeccompKind string

const (
	// SeccompNone: no profile; unset and Unconfined look the same in a spec.
	SeccompNone SeccompKind = "none"
	// SeccompAllowAll: a profile whose every action lets the call through.
	SeccompAllowAll SeccompKind = "allow-all"
	// SeccompProfile: a profile that stops something.
	SeccompProfile SeccompKind = "profile"
)

// Device is a device node or a rule that lets the container use one.
type Device struct {
	Path   string `json:"path,omitempty"`
	Type   string `json:"type"`
	Major  int64  `json:"major"` // -1 is any
	Minor  int64  `json:"minor"` // -1 is any
	Access string `json:"access,omitempty"`
	Field  string `json:"field"`
}

// Variable is an environment variable that the dynamic loader obeys.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Field string `json:"field"`
}

// Annotation is an annotation that steers a runtime.
type Annotation struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Ref names the container for people: "pod team-a/web, container app".
func (in *Intent) Ref() string {
	var b strings.Builder
	if in.Kind == KindUnmanaged {
		return "container outside Kubernetes"
	}
	fmt.Fprintf(&b, "pod %s/%s", Quote(in.Pod.Namespace.Value), Quote(in.Pod.Name.Value))
	if in.Kind == KindContainer && in.Pod.Container.Certainty != Unknown {
		fmt.Fprintf(&b, ", container %s", Quote(in.Pod.Container.Value))
	}
	return b.String()
}

// Namespace returns the fact about one type of namespace.
func (in *Intent) Namespace(t specs.LinuxNamespaceType) *Fact[NamespaceMode] {
	switch t {
	case specs.NetworkNamespace:
		return &in.HostNetwork
	case specs.PIDNamespace:
		return &in.HostPID
	case specs.IPCNamespace:
		return &in.HostIPC
	case specs.UTSNamespace:
		return &in.HostUTS
	case specs.CgroupNamespace:
		return &in.HostCgroup
	case specs.MountNamespace:
		return &in.HostMount
	case specs.UserNamespace:
		return &in.UserNamespace
	}
	return nil
}
