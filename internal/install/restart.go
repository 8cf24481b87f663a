package install

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
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
		if started, ok := startTime(filepath.Dir(f)); ok && started.Before(changed) {
			return true
		}
	}
	return false
}

// startTime is when a process was started, to a second or so (proc(5), stat,
// field 22, in ticks of 1/100 s since boot; the times of /proc's directories are
// not it).
func startTime(dir string) (time.Time, bool) {
	text, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return time.Time{}, false
	}
	// The second field is in parentheses and may hold anything.
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	if len(fields) < 20 {
		return time.Time{}, false
	}
	ticks, err := strconv.ParseInt(fields[19], 10, 64)
	if err != nil {
		return time.Time{}, false
	}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}, false
	}
	for line := range strings.Lines(string(stat)) {
		if boot, ok := strings.CutPrefix(line, "btime "); ok {
			seconds, err := strconv.ParseInt(strings.TrimSpace(boot), 10, 64)
			return time.Unix(seconds, 0).Add(time.Duration(ticks) * 10 * time.Millisecond), err == nil
		}
	}
	return time.Time{}, false
}

// NeedsRestart tells whether an engine calls the wrapper only once it is
// restarted.
func (p *Plan) NeedsRestart(e Engine) bool { return !p.Empty() || RunsSinceBefore(e, p.record) }
