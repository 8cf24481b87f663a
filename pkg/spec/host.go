package spec

import specs "github.com/opencontainers/runtime-spec/specs-go"

// NamespaceID identifies a namespace: device and inode of its nsfs file.
type NamespaceID struct{ Dev, Ino uint64 }

// RealMount is a mount that the kernel shows inside a container's root.
type RealMount struct {
	// Destination is relative to the container's root and starts with "/".
	Destination string
	FSType      string
	// HostPaths are all paths of the host that show the same directory of the
	// same filesystem. Empty for a filesystem that the host doesn't mount.
	HostPaths []string
	ReadOnly  bool
	// Hidden is true if the filesystem is one that the host mounts, but no
	// path of the host shows this place of it.
	Hidden bool
}

// Host answers what only the machine knows. It is nil in an offline look.
type Host interface {
	// Namespace returns the identity of the namespace file at path.
	Namespace(path string) (NamespaceID, error)
	// HostNamespaces returns the identities that count as the host's own.
	HostNamespaces(t specs.LinuxNamespaceType) ([]NamespaceID, error)
	// Resolve returns path with every symlink resolved. A path that doesn't
	// exist is resolved as far as it does.
	Resolve(path string) (string, error)
	// ReadFile returns a small regular file's content.
	ReadFile(path string) ([]byte, error)
	// BoundFrom returns all other paths of the host that show what is mounted
	// exactly at path: for a bind, where it was bound from. It returns nil if
	// nothing is mounted there or no other path shows it.
	BoundFrom(path string) []string
	// Mounts returns what is mounted at and below root, as the process pid
	// sees it. The mount at root itself is left out.
	Mounts(pid int, root string) ([]RealMount, error)
	// ProcessNamespace returns the identity of a namespace of the process pid.
	ProcessNamespace(pid int, t specs.LinuxNamespaceType) (NamespaceID, error)
}

// AppArmorHost is what a [Host] implements that can tell whether the machine
// has AppArmor.
type AppArmorHost interface {
	AppArmor() (bool, error)
}

// mapAppArmorHost asks the machine. Without one it is taken to have none: an
// engine that finds AppArmor gives every container a profile.
func mapAppArmorHost(in *Intent, h Host) {
	const source = "/sys/kernel/security/apparmor"
	a, ok := h.(AppArmorHost)
	if !ok {
		in.AppArmorHost = assumed(false, source)
		return
	}
	has, err := a.AppArmor()
	if err != nil {
		in.AppArmorHost = unknown[bool](source)
		return
	}
	in.AppArmorHost = known(has, source)
}
