package install

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Removal is what an uninstallation does.
type Removal struct {
	Options Options
	// Record is what was installed.
	Record *Record
	// Steps are the files in the order in which they are put back.
	Steps []Step
	// Left are lines of ours that can't be found again in a file that was edited
	// since: while there are any of an engine's, its wrapper stays.
	Left []string
	// PassThrough says that engines run, which may still call the wrapper's names:
	// these then lead to the real runtime.
	PassThrough bool
}

// Step is one file.
type Step struct {
	Path   string
	Before []byte // as it is
	After  []byte // as it will be
	Remove bool
	// Merged says that it was edited since: only our lines go.
	Merged bool
}

// ErrLeft is an engine's configuration that still names the wrapper.
var ErrLeft = errors.New("engine configuration still names the wrapper")

// NewRemoval looks at what is there. It changes nothing. A nil Removal means that
// nothing is installed.
func NewRemoval(o Options) (*Removal, error) {
	o = o.WithDefaults()
	r, err := readRecord(&o)
	if err != nil || r == nil {
		return nil, err
	}
	o.LibDir, o.Config = r.LibDir, r.Config
	u := &Removal{Options: o, Record: r, PassThrough: o.Root == "" && enginesRun()}
	for _, kind := range []Kind{HookFile, EngineConfig, NodeConfig} {
		for _, c := range r.Changes {
			if c.Kind != kind {
				continue
			}
			now, err := o.readFile(c.Path)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			s := Step{Path: c.Path, Before: now, After: c.Before, Remove: !c.Existed}
			if !bytes.Equal(now, c.After) {
				var left []string
				s.Merged, s.Remove = true, false
				s.After, left = takeBack(c.Before, c.After, now)
				if !c.Existed && strings.TrimSpace(string(s.After)) == "" {
					s.Remove = true
				}
				for _, l := range left {
					if kind != EngineConfig || strings.Contains(l, o.LibDir) {
						u.Left = append(u.Left, c.Path+": "+strings.TrimSpace(l))
					}
				}
				// A line of another's that came to name us is as bad.
				if kind == EngineConfig && bytes.Contains(s.After, []byte(o.LibDir+"/runtimes/")) && len(left) == 0 {
					u.Left = append(u.Left, c.Path+": names "+o.LibDir+"/runtimes")
				}
			}
			if s.Remove || !bytes.Equal(s.Before, s.After) {
				u.Steps = append(u.Steps, s)
			}
		}
	}
	return u, nil
}

// Diff writes what would be done.
func (u *Removal) Diff(w io.Writer) error {
	for _, s := range u.Steps {
		after := s.After
		if s.Remove {
			after = nil
		}
		if err := writeDiff(w, s.Path, s.Before, after, true, !s.Remove); err != nil {
			return err
		}
	}
	return nil
}

// Apply takes hooks and engines' configuration out first, and the links last.
// Links stay, and lead to the real runtime, while an engine runs: it calls them
// until it is restarted, and for pods that run now until they are gone. So a node
// starts and stops pods after this, whatever is deleted then.
func (u *Removal) Apply() error {
	o := &u.Options
	for _, s := range u.Steps {
		name := o.at(s.Path)
		if s.Remove {
			if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if strings.HasPrefix(s.Path, ownHooks+"/") {
				_ = os.Remove(filepath.Dir(name)) // if it is empty
				_ = os.Remove(filepath.Dir(filepath.Dir(name)))
			}
			continue
		}
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		st, _ := info.Sys().(*syscall.Stat_t)
		if err := replaceFile(name, s.After, info.Mode().Perm(), int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	engineLeft := slices.ContainsFunc(u.Left, func(l string) bool { return strings.Contains(l, o.LibDir) })
	if engineLeft && !u.PassThrough {
		return fmt.Errorf("%w: take these lines out by hand, then run this again:\n  %s", ErrLeft, strings.Join(u.Left, "\n  "))
	}
	for _, path := range u.Record.Links {
		if err := u.removeLink(path); err != nil {
			return err
		}
	}
	if engineLeft {
		return fmt.Errorf("%w: nodeadmit judges nothing any more, and the names lead to the real runtimes; take these lines out by hand, then run this again:\n  %s",
			ErrLeft, strings.Join(u.Left, "\n  "))
	}
	if err := os.Remove(o.at(recordPath(o))); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (u *Removal) removeLink(path string) error {
	o := &u.Options
	name := o.at(path)
	suffix := strings.HasSuffix(path, ".real") || strings.HasSuffix(path, ".config")
	if u.PassThrough && !suffix {
		real, err := os.Readlink(name + ".real")
		if err == nil {
			return replaceLink(name, real)
		}
	}
	if u.PassThrough && strings.HasSuffix(path, ".real") {
		return nil // kept for a second run, and for people
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// enginesRun tells whether any process runs that may call a wrapper's name.
func enginesRun() bool {
	found, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, f := range found {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		switch name := strings.TrimSpace(string(text)); {
		case strings.HasPrefix(name, "containerd"), name == "crio", name == "conmon", name == "conmonrs", name == "dockerd", name == "podman":
			return true
		}
	}
	return false
}
