package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// ConfigName is the file in a bundle that says what to run (runtime-spec, bundle.md).
const ConfigName = "config.json"

// MaxConfigSize is the largest config.json that is read: 16 MiB. Linux limits
// arguments and environment to 6 MiB, and containerd a gRPC message to 16 MiB.
const MaxConfigSize = 16 << 20

// ReadBundle reads the config.json of the bundle in dir, once, and parses it
// with [Parse].
//
// dir may be relative and may be a symlink to a directory. config.json is
// opened relative to the open directory and must be a regular file of at most
// [MaxConfigSize] bytes: the runtime that reads it after us would follow a
// symlink that leads elsewhere by then.
//
// An error is an [*InputError] where the bundle itself is at fault, missing
// files included, and else what the operating system said.
func ReadBundle(dir string) (*Document, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("read bundle %q: %w", dir, err)
	}
	doc, err := readBundle(abs)
	if err != nil {
		return nil, fmt.Errorf("read bundle %q: %w", abs, err)
	}
	doc.Dir = abs
	return doc, nil
}

func readBundle(dir string) (*Document, error) {
	dirfd, err := openBundle(dir)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dirfd)

	fd, err := openat(dirfd, ConfigName, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		// What can't be opened may be no file at all: name what it is.
		var st unix.Stat_t
		if unix.Fstatat(dirfd, ConfigName, &st, unix.AT_SYMLINK_NOFOLLOW) == nil {
			if err := mustBeRegular(&st); err != nil {
				return nil, fmt.Errorf("%s: %w", ConfigName, err)
			}
		}
		if errors.Is(err, unix.ENOENT) {
			return nil, &InputError{Problem: "the directory has no " + ConfigName}
		}
		return nil, fmt.Errorf("open %s: %w", ConfigName, err)
	}
	defer unix.Close(fd)
	doc, err := readRegular(fd)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ConfigName, err)
	}
	return doc, nil
}

// openBundle opens a bundle's directory, which may be a symlink to one.
func openBundle(dir string) (int, error) {
	fd, err := openat(unix.AT_FDCWD, dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	switch {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.ENOENT):
		if target, lerr := os.Readlink(dir); lerr == nil {
			return -1, &InputError{Problem: fmt.Sprintf("a symlink to %q, which does not exist", target)}
		}
		return -1, &InputError{Problem: "no such directory"}
	case errors.Is(err, unix.ENOTDIR):
		return -1, &InputError{Problem: "not a directory"}
	case errors.Is(err, unix.ELOOP):
		return -1, &InputError{Problem: "its symlinks lead in a circle"}
	default:
		return -1, fmt.Errorf("open the directory: %w", err)
	}
}

// ReadFile reads a spec that lies outside a bundle, under any name. Unlike
// [ReadBundle] it follows symlinks. The same limits hold, and Document.Dir is "".
func ReadFile(path string) (*Document, error) {
	fd, err := openat(unix.AT_FDCWD, path, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil {
			if err := mustBeRegular(&st); err != nil { // a socket can't be opened
				return nil, fmt.Errorf("read %q: %w", path, err)
			}
		}
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	defer unix.Close(fd)
	doc, err := readRegular(fd)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", path, err)
	}
	return doc, nil
}

// Read reads a spec from a stream, such as standard input, to its end. It
// stops with an error after [MaxConfigSize] bytes.
func Read(r io.Reader) (*Document, error) {
	data, err := readLimited(r, 0)
	if err != nil {
		return nil, fmt.Errorf("read spec: %w", err)
	}
	doc, err := Parse(data)
	if err != nil {
		return nil, fmt.Errorf("read spec: %w", err)
	}
	return doc, nil
}

// readRegular reads and parses what fd is open for.
func readRegular(fd int) (*Document, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("stat: %w", err)
	}
	if err := mustBeRegular(&st); err != nil {
		return nil, err
	}
	if st.Size > MaxConfigSize {
		return nil, tooLarge(st.Size)
	}
	data, err := readLimited(descriptor(fd), st.Size)
	if err != nil {
		return nil, err
	}
	return Parse(data)
}

// readLimited reads r to its end, size being what it probably holds.
func readLimited(r io.Reader, size int64) ([]byte, error) {
	var buf bytes.Buffer
	buf.Grow(int(size) + bytes.MinRead) // room for the read that finds the end
	if _, err := buf.ReadFrom(io.LimitReader(r, MaxConfigSize+1)); err != nil {
		return nil, err
	}
	if buf.Len() > MaxConfigSize {
		return nil, &InputError{Problem: fmt.Sprintf("more than %d bytes; the limit is 16 MiB", MaxConfigSize)}
	}
	return buf.Bytes(), nil
}

func tooLarge(size int64) error {
	return &InputError{Problem: fmt.Sprintf("%d bytes are too large: the limit is %d (16 MiB)", size, MaxConfigSize)}
}

func mustBeRegular(st *unix.Stat_t) error {
	var what string
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFLNK:
		what = "a symlink"
	case unix.S_IFDIR:
		what = "a directory"
	case unix.S_IFIFO:
		what = "a named pipe"
	case unix.S_IFSOCK:
		what = "a socket"
	case unix.S_IFBLK, unix.S_IFCHR:
		what = "a device"
	default:
		what = "no file"
	}
	return &InputError{Problem: "is " + what + "; want a regular file"}
}

func openat(dirfd int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dirfd, name, flags|unix.O_CLOEXEC, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// descriptor reads and writes a file descriptor without the runtime's poller,
// which an os.File opened with O_NONBLOCK would start.
type descriptor int

func (d descriptor) Read(p []byte) (int, error) {
	for {
		n, err := unix.Read(int(d), p)
		switch {
		case err == unix.EINTR:
		case err != nil:
			return 0, fmt.Errorf("read: %w", err)
		case n == 0 && len(p) > 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
}

func (d descriptor) Write(p []byte) (int, error) {
	done := 0
	for done < len(p) {
		n, err := unix.Write(int(d), p[done:])
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return done, fmt.Errorf("write: %w", err)
		}
		done += n
	}
	return done, nil
}
