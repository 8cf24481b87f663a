package host

import (
	"errors"
	"io/fs"
	"os"
)

// AppArmor reports whether this machine has AppArmor, as engines and runtimes
// find out: its directory is there and the kernel module is enabled
// (containerd pkg/apparmor, runc libcontainer/apparmor).
func (h *Host) AppArmor() (bool, error) {
	return appArmor("/sys/kernel/security/apparmor", "/sys/module/apparmor/parameters/enabled")
}

func appArmor(directory, parameter string) (bool, error) {
	if _, err := os.Stat(directory); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	enabled, err := os.ReadFile(parameter)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return len(enabled) > 0 && enabled[0] == 'Y', err
}
