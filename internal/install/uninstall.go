package install

import (
	"bytes"
	"encoding/json"
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
	// Left are engines' files that would still name the wrapper, so that it must
	// stay.
	Left []string
	// PassThrough says that engines run, which may still call the wrapper's names:
	// these then lead to the real runtime.
	PassThrough bool
	// NoRecord says that nothing is known of engines' configuration.
	NoRecord bool
}

// wrapperLinks are the names that lead to a wrapper.
func wrapperLinks(o *Options) (out []string) {
	found, _ := filepath.Glob(o.at(o.LibDir + "/runtimes/*.real"))
	for _, f := range found {
		name := strings.TrimSuffix(f, ".real")
		real, err := os.Readlink(f)
		target, terr := os.Readlink(name)
		if err == nil && terr == nil && real != target {
			out = append(out, strings.TrimPrefix(name, o.Root))
		}
	}
	return out
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
// nothing is installed. Without a record (/var was lost) an engine may still call
// the wrapper's names: then these are made to lead to the real runtimes, and that
// is all.
func NewRemoval(o Options) (*Removal, error) {
	o = o.WithDefaults()
	r, err := readRecord(&o)
	if err != nil {
		return nil, err
	}
	if r == nil {
		r = &Record{LibDir: o.LibDir, Config: o.Config, Links: wrapperLinks(&o)}
		if len(r.Links) == 0 {
			return nil, nil
		}
		return &Removal{Options: o, Record: r, PassThrough: true, NoRecord: true}, nil
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
			switch left := []string(nil); {
			case bytes.Equal(now, c.After), kind == HookFile && !c.Existed:
			default:
				s.Merged, s.Remove = true, false
				s.After, left = takeBack(c.Before, c.After, now)
				if kind == EngineConfig && (len(left) > 0 || !c.Existed || !parses(c.Path, s.After)) {
					// The engine must not call a name of ours, and must like its file.
					s.After = u.realNames(now)
				} else if len(left) > 0 {
					s.After = now
				}
				if !c.Existed && strings.TrimSpace(string(s.After)) == "" {
					s.Remove = true
				}
				if kind == EngineConfig && bytes.Contains(s.After, []byte(o.LibDir+"/runtimes/")) {
					u.Left = append(u.Left, c.Path+": names "+o.LibDir+"/runtimes/")
				}
			}
			if s.Remove || !bytes.Equal(s.Before, s.After) {
				u.Steps = append(u.Steps, s)
			}
		}
	}
	return u, nil
}

// realNames puts the real runtimes' paths in place of the wrapper's names, in a
// file in which install's lines can't be told from others any more.
func (u *Removal) realNames(text []byte) []byte {
	handlers := slices.Clone(u.Record.Handlers)
	// A name may begin with another.
	slices.SortFunc(handlers, func(a, b Handler) int { return len(b.Name) - len(a.Name) })
	for _, h := range handlers {
		text = bytes.ReplaceAll(text, []byte(u.Record.LibDir+"/runtimes/"+h.Name), []byte(h.Real))
	}
	return text
}

// parses tells whether a file is still what its name says.
func parses(path string, text []byte) bool {
	if strings.HasSuffix(path, ".json") {
		return json.Valid(text)
	}
	_, err := tomlTree(path, text)
	return err == nil
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
	if len(u.Left) > 0 && !u.PassThrough {
		return fmt.Errorf("%w: take it out by hand, then run this again:\n  %s", ErrLeft, strings.Join(u.Left, "\n  "))
	}
	for _, path := range u.Record.Links {
		if err := u.removeLink(path); err != nil {
			return err
		}
	}
	_ = os.Remove(o.at(o.LibDir + "/runtimes")) // if it is empty
	if len(u.Left) > 0 {
		return fmt.Errorf("%w: nodeadmit judges nothing any more, and the names lead to the real runtimes; take it out by hand, then run this again:\n  %s",
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
