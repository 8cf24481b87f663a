package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

var _ spec.AppArmorHost = (*Host)(nil)

func TestAppArmor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		directory bool
		parameter string
		want      bool
	}{
		"a host with the directory and an enabled module has it": {true, "Y\n", true},
		"a disabled module is no AppArmor":                       {true, "N\n", false},
		"without the directory there is none":                    {false, "Y\n", false},
		"without the module there is none":                       {true, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			directory, parameter := filepath.Join(dir, "apparmor"), filepath.Join(dir, "enabled")
			if c.directory {
				if err := os.Mkdir(directory, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			if c.parameter != "" {
				if err := os.WriteFile(parameter, []byte(c.parameter), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got, err := appArmor(directory, parameter)
			if err != nil || got != c.want {
				t.Errorf("got %v, %v, want %v", got, err, c.want)
			}
		})
	}
}
