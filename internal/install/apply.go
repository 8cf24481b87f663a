package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nodeadmit/nodeadmit/internal/rootfile"
)

// Record is what an installation did, for uninstall and doctor.
type Record struct {
	Version  int       `json:"version"`
	LibDir   string    `json:"libDir"`
	Config   string    `json:"config"`
	Asked    Asked     `json:"asked"`
	Engines  []Engine  `json:"engines"`
	Handlers []Handler `json:"handlers"`
	Changes  []Change  `json:"changes"`
	Links    []string  `json:"links"`
}

// Asked is what an installation was told, for one that looks again.
type Asked struct {
	ShareDir     string   `json:"shareDir"`
	EngineConfig string   `json:"engineConfig,omitempty"`
	EngineBinary string   `json:"engineBinary,omitempty"`
	KubeletRoots []string `json:"kubeletRoots,omitempty"`
}

const recordVersion = 1

// Again returns the options by which all of a record would be installed.
func (r *Record) Again(stateDir string) Options {
	o := Options{
		LibDir: r.LibDir, Config: r.Config, StateDir: stateDir, ShareDir: r.Asked.ShareDir, EngineConfig: r.Asked.EngineConfig,
		EngineBinary: r.Asked.EngineBinary, KubeletRoots: r.Asked.KubeletRoots,
	}
	for _, e := range r.Engines {
		o.Engines = append(o.Engines, e.Dialect)
	}
	return o
}

func recordPath(o *Options) string { return o.StateDir + "/install.json" }

// readRecord returns the record of an installation, or nil if there is none.
func readRecord(o *Options) (*Record, error) {
	data, _, err := rootfile.Read(o.at(recordPath(o)), 64<<20, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", recordPath(o), err)
	}
	if r.Version != recordVersion {
		return nil, fmt.Errorf("%s: is of version %d: want %d", recordPath(o), r.Version, recordVersion)
	}
	return &r, nil
}

// ReadRecord returns what is installed, or nil if nothing is.
func ReadRecord(o Options) (*Record, error) {
	o = o.WithDefaults()
	return readRecord(&o)
}

func (r *Record) write(o *Options) error {
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return rootfile.Write(o.at(recordPath(o)), append(data, '\n'))
}

// Apply does what is planned: links first and engines' configuration last, so
// that no engine is told of what isn't there. The record comes before all. If
// anything fails, or the engine understands its configuration otherwise than
// meant, all is put back.
func (p *Plan) Apply() (err error) {
	o := &p.Options
	r := &Record{Version: recordVersion, LibDir: o.LibDir, Config: o.Config, Engines: p.Engines, Handlers: p.Handlers,
		Asked: Asked{o.ShareDir, o.EngineConfig, o.EngineBinary, o.KubeletRoots}}
	if p.record != nil {
		r.keep(p)
	}
	for _, l := range p.Links {
		r.addLink(l.Path)
	}
	for _, c := range p.Changes {
		r.addChange(c)
		if err := p.backup(c); err != nil {
			return err
		}
	}
	if err := r.write(o); err != nil {
		return err
	}
	var undo []func() error
	defer func() {
		if err == nil {
			return
		}
		for i := len(undo) - 1; i >= 0; i-- {
			err = errors.Join(err, undo[i]())
		}
		if p.record != nil {
			err = errors.Join(err, p.record.write(o))
		} else {
			err = errors.Join(err, os.Remove(o.at(recordPath(o))))
		}
	}()
	for _, l := range p.Links {
		if l.was == l.Target {
			continue
		}
		if err := replaceLink(o.at(l.Path), l.Target); err != nil {
			return err
		}
		undo = append(undo, func() error {
			if l.was != "" {
				return replaceLink(o.at(l.Path), l.was)
			}
			return os.Remove(o.at(l.Path))
		})
	}
	for _, c := range p.Changes {
		if err := replaceFile(o.at(c.Path), c.After, c.mode, c.uid, c.gid); err != nil {
			return err
		}
		undo = append(undo, func() error {
			if !c.Existed {
				return os.Remove(o.at(c.Path))
			}
			return replaceFile(o.at(c.Path), c.Before, c.mode, c.uid, c.gid)
		})
	}
	for i := range p.Engines {
		if err := p.Engines[i].verify(p); err != nil {
			return err
		}
	}
	return nil
}

// keep takes over what an installation before has recorded: of a file that is
// changed again, what it was without us.
func (r *Record) keep(p *Plan) {
	old := p.record
	r.Links = append(r.Links, old.Links...)
	for _, c := range old.Changes {
		if now := p.change(c.Path); now != nil && now.Existed {
			if !bytes.Equal(now.Before, c.After) {
				if text, left := takeBack(c.Before, c.After, now.Before); len(left) == 0 {
					c.Before = text
				}
			}
			c.After = now.After
		}
		r.Changes = append(r.Changes, c)
	}
	for _, e := range old.Engines {
		if !hasEngine(r.Engines, e) {
			r.Engines = append(r.Engines, e)
		}
	}
	for _, h := range old.Handlers {
		known := false
		for _, n := range r.Handlers {
			known = known || n.Name == h.Name
		}
		if !known {
			r.Handlers = append(r.Handlers, h)
		}
	}
}

func hasEngine(list []Engine, e Engine) bool {
	for _, n := range list {
		if n.Dialect == e.Dialect {
			return true
		}
	}
	return false
}

func (r *Record) addLink(path string) {
	for _, l := range r.Links {
		if l == path {
			return
		}
	}
	r.Links = append(r.Links, path)
}

func (r *Record) addChange(c Change) {
	for _, old := range r.Changes {
		if old.Path == c.Path {
			return
		}
	}
	r.Changes = append(r.Changes, c)
}

// backup leaves a copy of a file for people, before it is changed for the first
// time.
func (p *Plan) backup(c Change) error {
	if !c.Existed {
		return nil
	}
	name := p.Options.at(p.Options.StateDir + "/backup" + c.Path)
	if _, err := os.Lstat(name); err == nil {
		return nil
	}
	return rootfile.Write(name, c.Before)
}

// replaceFile puts a file in place by rename, so that nobody reads half of it. A
// symbolic link is followed: the file behind it is replaced.
func replaceFile(name string, data []byte, mode fs.FileMode, uid, gid int) error {
	if real, err := filepath.EvalSymlinks(name); err == nil {
		name = real
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".nodeadmit-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode), f.Chown(uid, gid), f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// replaceLink puts a symbolic link in place by rename.
func replaceLink(name, target string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	temp := name + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(target, temp); err != nil {
		return err
	}
	return os.Rename(temp, name)
}
