// Package host answers what only the machine knows: whose a namespace is,
// where a symbolic link leads, what is mounted. It opens nothing that it looks
// at.
package host

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// Host is this machine. It implements [spec.Host] and keeps what it has read
// for the length of one decision.
type Host struct {
	own    map[specs.LinuxNamespaceType][]spec.NamespaceID
	mounts []mount
}

var _ spec.Host = (*Host)(nil)

// New returns the machine that we run on.
func New() *Host { return &Host{own: map[specs.LinuxNamespaceType][]spec.NamespaceID{}} }

// nsfsMagic is the filesystem of namespace files (linux/magic.h).
const nsfsMagic = 0x6e736673

// Namespace returns the identity of the namespace file at path. A path that is
// gone is an error that wraps fs.ErrNotExist; a file that is no namespace is an
// error.
func (h *Host) Namespace(path string) (spec.NamespaceID, error) {
	// O_PATH opens nothing behind the name: no device, no pipe.
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return spec.NamespaceID{}, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var fsInfo unix.Statfs_t
	if err := unix.Fstatfs(fd, &fsInfo); err != nil {
		return spec.NamespaceID{}, &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	if fsInfo.Type != nsfsMagic {
		return spec.NamespaceID{}, fmt.Errorf("%s: is no namespace", path)
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return spec.NamespaceID{}, &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return spec.NamespaceID{Dev: st.Dev, Ino: st.Ino}, nil
}

// HostNamespaces returns our own namespace and, where it can be read, that of
// init.
func (h *Host) HostNamespaces(t specs.LinuxNamespaceType) ([]spec.NamespaceID, error) {
	if ids, ok := h.own[t]; ok {
		return ids, nil
	}
	name, err := nsName(t)
	if err != nil {
		return nil, err
	}
	self, err := h.Namespace("/proc/self/ns/" + name)
	if err != nil {
		return nil, err
	}
	ids := []spec.NamespaceID{self}
	if init, err := h.Namespace("/proc/1/ns/" + name); err == nil && init != self {
		ids = append(ids, init)
	}
	h.own[t] = ids
	return ids, nil
}

// ProcessNamespace returns the identity of a namespace of the process pid.
func (h *Host) ProcessNamespace(pid int, t specs.LinuxNamespaceType) (spec.NamespaceID, error) {
	name, err := nsName(t)
	if err != nil {
		return spec.NamespaceID{}, err
	}
	return h.Namespace("/proc/" + strconv.Itoa(pid) + "/ns/" + name)
}

func nsName(t specs.LinuxNamespaceType) (string, error) {
	switch t {
	case specs.NetworkNamespace:
		return "net", nil
	case specs.MountNamespace:
		return "mnt", nil
	case specs.PIDNamespace, specs.IPCNamespace, specs.UTSNamespace, specs.CgroupNamespace, specs.UserNamespace:
		return string(t), nil
	}
	return "", fmt.Errorf("no namespace of type %q", t)
}

// maxLinks is how many symbolic links one path may have, as in the kernel.
const maxLinks = 40

// Resolve returns path with every symbolic link resolved, as the kernel walks it:
// ".." leaves the directory that a link leads to. What doesn't exist is taken as
// it is written. Nothing is opened.
func (h *Host) Resolve(path string) (string, error) {
	if !filepath.IsAbs(path) {
		return "", fmt.Errorf("resolve %q: not an absolute path", path)
	}
	done, todo := "/", strings.Split(path, "/")
	for links := 0; len(todo) > 0; {
		next := todo[0]
		todo = todo[1:]
		switch next {
		case "", ".":
			continue
		case "..":
			done = filepath.Dir(done)
			continue
		}
		at := filepath.Join(done, next)
		target, err := os.Readlink(at)
		switch {
		case errors.Is(err, unix.EINVAL): // no link
			done = at
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR):
			return filepath.Join(append([]string{at}, todo...)...), nil
		case err != nil:
			return "", err
		default:
			if links++; links > maxLinks {
				return "", &fs.PathError{Op: "resolve", Path: path, Err: unix.ELOOP}
			}
			if filepath.IsAbs(target) {
				done = "/"
			}
			todo = append(strings.Split(target, "/"), todo...)
		}
	}
	return done, nil
}

// maxFile bounds what ReadFile returns, in bytes.
const maxFile = 1 << 20

// ReadFile returns the content of a regular file of at most 1 MiB.
func (h *Host) ReadFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("%s: want a regular file of at most %d bytes", path, maxFile)
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// BoundFrom returns all other paths that show what is mounted exactly at path.
func (h *Host) BoundFrom(path string) []string {
	host, err := h.table()
	if err != nil {
		return nil
	}
	// The last mount at a point covers the others.
	for i := len(host) - 1; i >= 0; i-- {
		if host[i].point != path {
			continue
		}
		var out []string
		for _, name := range names(host, &host[i], "") {
			if name != path {
				out = append(out, name)
			}
		}
		return out
	}
	return nil
}

// Mounts returns what is mounted below root in the mount namespace of pid.
func (h *Host) Mounts(pid int, root string) ([]spec.RealMount, error) {
	host, err := h.table()
	if err != nil {
		return nil, err
	}
	table, err := readTable("/proc/" + strconv.Itoa(pid) + "/mountinfo")
	if err != nil {
		return nil, err
	}
	byDevice := map[string]bool{}
	for i := range host {
		if !below(host[i].point, root) || root == "/" {
			byDevice[host[i].device] = true
		}
	}
	exclude := root
	if root == "/" {
		exclude = ""
	}
	var (
		out   []spec.RealMount
		found bool
	)
	for i := range table {
		m := &table[i]
		found = found || m.point == root
		if m.point == root || !below(m.point, root) {
			continue
		}
		real := spec.RealMount{
			Destination: "/" + strings.TrimPrefix(strings.TrimPrefix(m.point, root), "/"),
			FSType:      m.fsType, ReadOnly: m.readOnly, HostPaths: names(host, m, exclude),
		}
		real.Hidden = len(real.HostPaths) == 0 && byDevice[m.device]
		out = append(out, real)
	}
	// A runtime mounts the root, if only onto itself. Where it isn't seen, the
	// process sees the container somewhere else, and we nothing of it.
	if !found && !h.sharesMounts(pid) {
		return nil, fmt.Errorf("%s is no mount point there", spec.Quote(root))
	}
	return out, nil
}

func (h *Host) sharesMounts(pid int) bool {
	theirs, err := h.ProcessNamespace(pid, specs.MountNamespace)
	if err != nil {
		return false
	}
	ours, err := h.Namespace("/proc/self/ns/mnt")
	return err == nil && theirs == ours
}

func (h *Host) table() ([]mount, error) {
	if h.mounts == nil {
		table, err := readTable("/proc/self/mountinfo")
		if err != nil {
			return nil, err
		}
		h.mounts = table
	}
	return h.mounts, nil
}
