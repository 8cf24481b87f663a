package wrapped

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodeadmit/nodeadmit/internal/config"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "r")
	for what, c := range map[string]struct{ real, config, wantConfig, err string }{
		"a runtime":                    {"/usr/sbin/runc", "", config.DefaultPath, ""},
		"a configuration of its own":   {"/usr/sbin/runc", "/x/config.yaml", "/x/config.yaml", ""},
		"no link":                      {"", "", "", "r.real"},
		"a relative runtime":           {"runc", "", "", "absolute path"},
		"a relative configuration":     {"/usr/sbin/runc", "config.yaml", "", "absolute path"},
		"a file for a configuration":   {"/usr/sbin/runc", "FILE", "", "want a symbolic link"},
		"a runtime that doesn't exist": {"/no/such", "", config.DefaultPath, ""}, // exec says so
	} {
		t.Run(what, func(t *testing.T) {
			os.Remove(name + ".real")
			os.Remove(name + ".config")
			if c.real != "" {
				if err := os.Symlink(c.real, name+".real"); err != nil {
					t.Fatal(err)
				}
			}
			if c.config == "FILE" {
				if err := os.WriteFile(name+".config", nil, 0o600); err != nil {
					t.Fatal(err)
				}
			} else if c.config != "" {
				if err := os.Symlink(c.config, name+".config"); err != nil {
					t.Fatal(err)
				}
			}
			real, file, err := Find(name)
			switch {
			case c.err != "":
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %s in it", err, c.err)
				}
			case err != nil || real != c.real || file != c.wantConfig:
				t.Errorf("%s, %s, %v", real, file, err)
			}
		})
	}
}

func TestANameWithoutASlashIsNeverLookedForInPath(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/usr/sbin/runc", filepath.Join(dir, "no-such-wrapper.real")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	t.Chdir(dir)
	if real, _, err := Find("no-such-wrapper"); err == nil || !strings.Contains(err.Error(), Dir) {
		t.Errorf("%s, %v", real, err)
	}
}
