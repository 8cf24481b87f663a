package install

import (
	"os"
	"path/filepath"
	"strings"
	"time"
)

// RunsSinceBefore tells whether an engine was started before its configuration
// was last changed by an installation: it calls no wrapper yet. It is not known
// of an engine whose configuration isn't where it usually is.
func RunsSinceBefore(e Engine, r *Record) bool {
	command := map[string]string{"containerd": "containerd", "crio": "crio", "docker": "dockerd"}[e.Unit]
	if command == "" || r == nil || r.Asked.EngineConfig != "" {
		return false
	}
	var changed time.Time
	for _, c := range r.Changes {
		if info, err := os.Stat(c.Path); err == nil && c.Kind == EngineConfig && info.ModTime().After(changed) {
			changed = info.ModTime()
		}
	}
	found, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, f := range found {
		name, err := os.ReadFile(f)
		if err != nil || strings.TrimSpace(string(name)) != command {
			continue
		}
		// The directory's time is that of the process's start.
		if info, err := os.Stat(filepath.Dir(f)); err == nil && info.ModTime().Before(changed) {
			return true
		}
	}
	return false
}

// NeedsRestart tells whether an engine calls the wrapper only once it is
// restarted.
func (p *Plan) NeedsRestart(e Engine) bool { return !p.Empty() || RunsSinceBefore(e, p.record) }
