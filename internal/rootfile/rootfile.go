// Package rootfile reads and writes files that only root may have written:
// configuration, policy, and what nodeadmit keeps for itself.
package rootfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Check refuses a file or directory that others than root could have written.
// The error says how to mend it.
func Check(name string, info fs.FileInfo) error {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
		return fmt.Errorf("%s: belongs to uid %d: want root (chown root %s)", name, st.Uid, name)
	}
	if perm := info.Mode().Perm(); perm&0o022 != 0 {
		return fmt.Errorf("%s: mode %04o lets others write (chmod go-w %s)", name, perm, name)
	}
	return nil
}

// CheckDir is Check for a directory, which must be no symbolic link.
func CheckDir(name string) error {
	info, err := os.Lstat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return fmt.Errorf("%s: is no directory", name)
	}
	return Check(name, info)
}

// Read returns a regular file of at most limit bytes and what is known of it.
// check, which may be nil, sees that before anything is read. A pipe or a
// device is an error and is not waited for.
func Read(name string, limit int64, check func(string, fs.FileInfo) error) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s: is no regular file", name)
	}
	if check != nil {
		if err := check(name, info); err != nil {
			return nil, nil, err
		}
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, nil, err
	}
	if int64(len(data)) > limit {
		return nil, nil, fmt.Errorf("%s: is larger than %d bytes", name, limit)
	}
	return data, info, nil
}

// Write puts a file in place, whole or not at all, for root alone. Its
// directory is made if needed, and must be root's alone.
func Write(name string, data []byte) error {
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := CheckDir(dir); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
