package doctor

import (
	"context"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nodeadmit/nodeadmit/internal/install"
	"github.com/nodeadmit/nodeadmit/internal/ociargs"
)

// knownEscape is a way out of a container that a runtime's version has.
type knownEscape struct {
	name string
	// fixed are the first versions without it, one per release line, in order:
	// of older lines all have it, of newer ones none.
	fixed []string
}

// runc's, from its security advisories.
var runcEscapes = []knownEscape{
	{"CVE-2024-21626", []string{"1.1.12"}},
	{"CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881", []string{"1.2.8", "1.3.3", "1.4.0"}},
}

var versionPattern = regexp.MustCompile(`\bversion v?(\d+)\.(\d+)(?:\.(\d+))?(\S*)`)

func (x *examination) runtimeVersion(h install.Handler) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, h.Real, "--version").Output()
	m := versionPattern.FindStringSubmatch(string(out))
	if err != nil || m == nil {
		x.add("runtime", h.Real, Warning, "its version can't be told")
		return
	}
	version, patched := strings.TrimPrefix(strings.TrimPrefix(m[0], "version "), "v"), strings.Contains(m[4], "+")
	if h.Grammar != ociargs.Runc || !strings.HasPrefix(string(out), "runc ") {
		x.add("runtime", h.Real, OK, "version %s", version)
		return
	}
	var open []string
	for _, e := range runcEscapes {
		if e.in(m[1:4], m[4]) {
			open = append(open, e.name)
		}
	}
	switch {
	case len(open) == 0:
		x.add("runtime", h.Real, OK, "version %s", version)
	case patched:
		x.add("runtime", h.Real, Warning, "version %s has known escapes unless its distributor has mended it: %s", version, strings.Join(open, "; "))
	default:
		x.add("runtime", h.Real, Problem, "version %s has known escapes: %s", version, strings.Join(open, "; "))
	}
}

// in tells whether a version has the escape. A release candidate counts as older
// than its release.
func (e knownEscape) in(version []string, suffix string) bool {
	for _, f := range e.fixed {
		fixed := strings.Split(f, ".")
		if c := compare(version[:2], fixed[:2]); c > 0 {
			continue
		} else if c < 0 {
			return true
		}
		c := compare(version[2:], fixed[2:])
		return c < 0 || c == 0 && strings.HasPrefix(suffix, "-rc")
	}
	return false
}

func compare(a, b []string) int {
	for i := range a {
		x, _ := strconv.Atoi(a[i])
		y, _ := strconv.Atoi(b[i])
		if x != y {
			return x - y
		}
	}
	return 0
}
