package engine

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// Flavour is where a containerd and its runc come from.
type Flavour string

const (
	// Distribution is the distribution's packages: containerd 1.6 on Debian 12.
	Distribution Flavour = "distribution"
	// Module is what test/prerequisites.sh builds from Go modules: containerd 2.
	Module Flavour = "module"
)

// Flavours are all of them.
var Flavours = []Flavour{Distribution, Module}

// ToolsDir is where the Module flavour's programs lie: $NODEADMIT_TOOLS, or
// nodeadmit/tools in the user's cache. test/prerequisites.sh fills it.
func ToolsDir() string {
	if dir := os.Getenv("NODEADMIT_TOOLS"); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = "/var/cache"
	}
	return filepath.Join(cache, "nodeadmit", "tools")
}

// Tools are a flavour's programs.
type Tools struct {
	Containerd string
	Runc       string
	// Version is containerd's, as "1.6.20".
	Version string
	// Major is its first number, on which configuration and behaviour depend.
	Major int
}

var versionPattern = regexp.MustCompile(`\bv?((\d+)\.\d+\.\d+)`)

// Find looks for a flavour's programs.
func (f Flavour) Find() (Tools, error) {
	dirs := []string{"/usr/local/sbin", "/usr/sbin", "/usr/local/bin", "/usr/bin"}
	if f == Module {
		dirs = []string{ToolsDir()}
	}
	var t Tools
	for name, p := range map[string]*string{"containerd": &t.Containerd, "runc": &t.Runc, "containerd-shim-runc-v2": new(string)} {
		for _, dir := range dirs {
			if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
				*p = filepath.Join(dir, name)
				break
			}
		}
		if *p == "" {
			return t, fmt.Errorf("%s containerd: no %s in %v: run test/prerequisites.sh", f, name, dirs)
		}
	}
	out, err := exec.Command(t.Containerd, "--version").Output()
	if err != nil {
		return t, fmt.Errorf("%s --version: %w", t.Containerd, err)
	}
	m := versionPattern.FindStringSubmatch(string(out))
	if m == nil {
		return t, fmt.Errorf("%s --version: no version in %q", t.Containerd, out)
	}
	t.Version = m[1]
	t.Major, err = strconv.Atoi(m[2])
	return t, err
}
