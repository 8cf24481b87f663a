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

	"github.com/nodeadmit/nodeadmit/internal/config"
	"github.com/nodeadmit/nodeadmit/internal/ociargs"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// Where a package puts things.
const (
	DefaultLibDir   = "/usr/lib/nodeadmit"
	DefaultShareDir = "/usr/share/nodeadmit"
	DefaultStateDir = "/var/lib/nodeadmit"
)

// Options say what to install where. All paths are those of the node: with Root
// they are looked for below it.
type Options struct {
	// Root is the root directory of an image, or "" for this machine. Below a
	// root no program is run.
	Root string
	// LibDir holds the programs, and the wrapper's names in runtimes.
	LibDir string
	// ShareDir holds the packaged configuration.
	ShareDir string
	// StateDir keeps the record of what was there.
	StateDir string
	// Config is nodeadmit's configuration.
	Config string
	// Engines are the engines to wrap. Without any, those that serve pods are
	// looked for.
	Engines []spec.Dialect
	// EngineConfig and EngineBinary are the only engine's configuration and
	// program, if they aren't where they usually are.
	EngineConfig, EngineBinary string
	// KubeletRoots are the kubelet's --root-dir, if it isn't the usual one.
	KubeletRoots []string
}

// WithDefaults fills in the usual places.
func (o Options) WithDefaults() Options {
	for _, f := range []struct {
		p *string
		d string
	}{{&o.LibDir, DefaultLibDir}, {&o.ShareDir, DefaultShareDir}, {&o.StateDir, DefaultStateDir}, {&o.Config, config.DefaultPath}} {
		if *f.p == "" {
			*f.p = f.d
		}
	}
	if o.Root == "/" {
		o.Root = ""
	}
	return o
}

// at is a path of the node as it is reached from here.
func (o *Options) at(path string) string { return o.Root + path }

func (o *Options) readFile(path string) ([]byte, error) { return os.ReadFile(o.at(path)) }

func (o *Options) exists(path string) bool {
	_, err := os.Stat(o.at(path))
	return err == nil
}

// program looks for a program where services find them. A link is looked for
// below the root only by its own name.
func (o *Options) program(names ...string) string {
	for _, name := range names {
		if filepath.IsAbs(name) {
			if o.executable(name) {
				return name
			}
			continue
		}
		for _, dir := range searchPath {
			if p := dir + "/" + name; o.executable(p) {
				return p
			}
		}
	}
	return ""
}

// searchPath is systemd's for services.
var searchPath = []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"}

func (o *Options) executable(path string) bool {
	info, err := os.Lstat(o.at(path))
	if err != nil {
		return false
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		if o.Root != "" {
			return true // its target is the image's
		}
		if info, err = os.Stat(path); err != nil {
			return false
		}
	}
	return info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// Change is one file as it is and as it will be.
type Change struct {
	Path string `json:"path"`
	// Kind is the order: what is applied later is taken out earlier.
	Kind Kind `json:"kind"`
	// Existed says whether the file was there.
	Existed bool `json:"existed"`
	// Before and After are the whole file.
	Before   []byte `json:"before,omitempty"`
	After    []byte `json:"after"`
	mode     fs.FileMode
	uid, gid int
}

// Kind orders changes.
type Kind string

// The kinds, in the order in which they are applied.
const (
	NodeConfig   Kind = "config"
	HookFile     Kind = "hook"
	EngineConfig Kind = "engine"
)

// Handler is one engine's runtime handler.
type Handler struct {
	Engine spec.Dialect `json:"engine"`
	// Handler is the engine's name for it.
	Handler string `json:"handler"`
	// Name is the wrapper's.
	Name    string          `json:"name"`
	Real    string          `json:"real"`
	Grammar ociargs.Grammar `json:"grammar"`
	// Via is another wrapper, which the engine calls and which calls ours.
	Via string `json:"via,omitempty"`
	// settings are more keys for nodeadmit's configuration, as YAML.
	settings []string
}

// Uncovered is a handler that is not wrapped, and why.
type Uncovered struct {
	Engine  spec.Dialect `json:"engine"`
	Handler string       `json:"handler"`
	Reason  string       `json:"reason"`
}

// Engine is an engine that is wrapped.
type Engine struct {
	Dialect spec.Dialect `json:"engine"`
	Version string       `json:"version,omitempty"`
	Config  string       `json:"config"`
	// Unit is the service to restart, "" if none.
	Unit string `json:"unit,omitempty"`
	// binary is the engine's program, if it can be run.
	binary string
	// effective is its configuration as it understood it, before.
	effective map[string]any
}

// Plan is all that an installation does.
type Plan struct {
	Options   Options
	Engines   []Engine
	Handlers  []Handler
	Uncovered []Uncovered
	Changes   []Change
	// Links are the wrapper's names by what they point to.
	Links []Link
	// Warnings are for people.
	Warnings []string
	// record is of an installation before.
	record *Record
}

// Link is a symbolic link.
type Link struct {
	Path, Target string
	// was is what it pointed to, "" if there was none.
	was string
}

// NewPlan looks at the node and says what to do. It changes nothing.
func NewPlan(o Options) (*Plan, error) {
	p := &Plan{Options: o.WithDefaults()}
	var err error
	if p.record, err = readRecord(&p.Options); err != nil {
		return nil, err
	}
	engines := p.Options.Engines
	if len(engines) == 0 {
		if engines = p.detect(); len(engines) == 0 {
			return nil, errors.New("no container engine was found: name it with --engine")
		}
	}
	if len(engines) != 1 && (p.Options.EngineConfig != "" || p.Options.EngineBinary != "") {
		return nil, errors.New("an engine's configuration or program was named: name the engine too, with --engine")
	}
	for _, e := range engines {
		switch e {
		case spec.Containerd:
			err = p.containerd()
		case spec.CRIO:
			err = p.crio()
		case spec.Podman:
			err = p.podman()
		case spec.Docker:
			err = p.docker()
		default:
			err = fmt.Errorf("engine %q: want containerd, crio, podman or docker", e)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e, err)
		}
	}
	if err := p.links(); err != nil {
		return nil, err
	}
	if err := p.nodeConfig(); err != nil {
		return nil, err
	}
	order := []Kind{NodeConfig, HookFile, EngineConfig}
	slices.SortStableFunc(p.Changes, func(a, b Change) int { return slices.Index(order, a.Kind) - slices.Index(order, b.Kind) })
	p.compareHelp()
	return p, nil
}

// detect names the engines that serve pods; podman and docker only where there
// is none such.
func (p *Plan) detect() []spec.Dialect {
	o := &p.Options
	var pods, others []spec.Dialect
	if o.program("containerd") != "" || o.exists("/etc/containerd/config.toml") || p.rancher() != nil {
		pods = append(pods, spec.Containerd)
	}
	if o.program("crio") != "" || o.exists("/etc/crio/crio.conf") || o.exists("/etc/crio/crio.conf.d") {
		pods = append(pods, spec.CRIO)
	}
	if o.program("podman") != "" {
		others = append(others, spec.Podman)
	}
	if o.program("dockerd") != "" || o.exists("/etc/docker/daemon.json") {
		others = append(others, spec.Docker)
		// Docker brings a containerd that serves no pods.
		if slices.Equal(pods, []spec.Dialect{spec.Containerd}) && p.criDisabled() {
			pods = nil
		}
	}
	if len(pods) == 0 {
		return others
	}
	for _, e := range others {
		p.warn("%s is here too and serves no pods: it is not wrapped (--engine %s)", e, e)
	}
	return pods
}

func (p *Plan) warn(format string, args ...any) {
	p.Warnings = append(p.Warnings, fmt.Sprintf(format, args...))
}

func (p *Plan) uncovered(e spec.Dialect, handler, format string, args ...any) {
	p.Uncovered = append(p.Uncovered, Uncovered{e, handler, fmt.Sprintf(format, args...)})
}

// name is the wrapper's name for a handler.
func (p *Plan) name(e spec.Dialect, handler string) string {
	return string(e) + "-" + strings.Map(func(r rune) rune {
		if r == '/' || r <= ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, handler)
}

// wrapper is the path that an engine calls.
func (p *Plan) wrapper(name string) string { return p.Options.LibDir + "/runtimes/" + name }

// ours tells whether a path is a wrapper's name, and which.
func (p *Plan) ours(path string) (name string, ok bool) {
	name, ok = strings.CutPrefix(path, p.Options.LibDir+"/runtimes/")
	return name, ok && name != "" && !strings.Contains(name, "/")
}

// handle adds a handler whose runtime is at real, which may be our own name from
// an installation before. It returns the path for the engine, or "" if the
// handler can't be wrapped.
func (p *Plan) handle(e spec.Dialect, handler, real string, settings []string) string {
	if name, ok := p.ours(real); ok {
		target, err := os.Readlink(p.Options.at(real + ".real"))
		if err != nil {
			p.uncovered(e, handler, "the engine calls %s, which has no .real link: %v", real, err)
			return ""
		}
		if p.name(e, handler) != name {
			p.warn("%s: handler %q calls %s, another handler's name", e, handler, real)
		}
		real = target
	}
	path := p.Options.program(real)
	if path == "" {
		p.uncovered(e, handler, "its runtime %s is not on this node", real)
		return ""
	}
	grammar, err := p.Options.grammar(path)
	if err != nil {
		p.uncovered(e, handler, "%v", err)
		return ""
	}
	h := Handler{Engine: e, Handler: handler, Name: p.name(e, handler), Real: path, Grammar: grammar, settings: settings}
	p.Handlers = append(p.Handlers, h)
	return p.wrapper(h.Name)
}

// grammar is how a runtime reads its command line.
func (o *Options) grammar(path string) (ociargs.Grammar, error) {
	base := filepath.Base(path)
	for _, known := range []struct {
		part string
		g    ociargs.Grammar
	}{{"crun", ociargs.Crun}, {"runc", ociargs.Runc}, {"nvidia-container-runtime", ociargs.Runc}} {
		if strings.Contains(base, known.part) && !strings.Contains(base, "sysbox") {
			return known.g, nil
		}
	}
	if o.Root == "" {
		out, err := output(path, "--version")
		if err != nil {
			return "", err
		}
		switch word, _, _ := bytes.Cut(out, []byte(" ")); string(word) {
		case "crun":
			return ociargs.Crun, nil
		case "runc":
			return ociargs.Runc, nil
		}
	}
	return "", fmt.Errorf("the command line of %s is in no table (runc and crun are)", path)
}

// links makes the pairs of links.
func (p *Plan) links() error {
	for _, h := range p.Handlers {
		pairs := []Link{{Path: p.wrapper(h.Name), Target: "../runtime-wrapper"}, {Path: p.wrapper(h.Name) + ".real", Target: h.Real}}
		if p.Options.Config != config.DefaultPath {
			pairs = append(pairs, Link{Path: p.wrapper(h.Name) + ".config", Target: p.Options.Config})
		}
		for _, l := range pairs {
			was, err := os.Readlink(p.Options.at(l.Path))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s is in the way: %w", l.Path, err)
			}
			l.was = was
			p.Links = append(p.Links, l)
		}
	}
	for _, program := range []string{"runtime-wrapper", "runtime-judge", "oci-hook"} {
		if path := p.Options.LibDir + "/" + program; !p.Options.exists(path) {
			return fmt.Errorf("%s is not there: install the package, or name the directory with --lib-dir", path)
		}
	}
	return nil
}

// text is a file as it will be, as far as planned.
func (p *Plan) text(path string) ([]byte, error) {
	if c := p.change(path); c != nil {
		return c.After, nil
	}
	return p.Options.readFile(path)
}

func (p *Plan) change(path string) *Change {
	for i := range p.Changes {
		if p.Changes[i].Path == path {
			return &p.Changes[i]
		}
	}
	return nil
}

// write plans a file's new text. An existing file keeps its mode and owner.
func (p *Plan) write(kind Kind, path string, after []byte) error {
	if c := p.change(path); c != nil {
		c.After = after
		return nil
	}
	c := Change{Path: path, Kind: kind, After: after, mode: 0o644}
	name := p.Options.at(path)
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	default:
		c.Existed, c.mode = true, info.Mode().Perm()
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			c.uid, c.gid = int(st.Uid), int(st.Gid)
		}
		if c.Before, err = os.ReadFile(name); err != nil {
			return err
		}
	}
	if !c.Existed || !bytes.Equal(c.Before, after) {
		p.Changes = append(p.Changes, c)
	}
	return nil
}

// CheckPolicy says whether there is a policy that could be in force: without one
// every start would be refused.
func (p *Plan) CheckPolicy() (*policy.Set, error) {
	text, err := p.text(p.Options.Config)
	if err != nil {
		return nil, err
	}
	c, err := config.Parse(p.Options.Config, text)
	if err != nil {
		return nil, err
	}
	set, err := policy.Load(p.Options.at(c.PolicyDir), policy.LoadOptions{RequireRoot: p.Options.Root == ""})
	if err != nil {
		return nil, fmt.Errorf("no valid policy in %s: every start of a container would be refused, so nothing was changed: %w\n"+
			"put a policy there (%s/policies has some; baseline-audit.yaml refuses nothing and logs what it would), see that "+
			"`nodeadmit check --policy %s` is content, and try again", c.PolicyDir, err, p.Options.ShareDir, c.PolicyDir)
	}
	return set, nil
}

// Wrapper is the path that an engine calls for a handler.
func (p *Plan) Wrapper(h Handler) string { return p.wrapper(h.Name) }

// Wrapped tells whether the engine's configuration has it call the wrapper for a
// handler already.
func (p *Plan) Wrapped(h Handler) bool {
	name := []byte(`"` + p.wrapper(h.Name) + `"`)
	for _, c := range p.Changes {
		if c.Kind == EngineConfig && bytes.Contains(c.After, name) && !bytes.Contains(c.Before, name) {
			return false
		}
	}
	for _, l := range p.Links {
		if strings.HasPrefix(l.Path, p.wrapper(h.Name)) && l.was != l.Target {
			return false
		}
	}
	return true
}

// Empty tells whether there is nothing to do.
func (p *Plan) Empty() bool {
	return len(p.Changes) == 0 && !slices.ContainsFunc(p.Links, func(l Link) bool { return l.was != l.Target })
}

// Diff writes what would be done, as a unified diff.
func (p *Plan) Diff(w io.Writer) error {
	for _, l := range p.Links {
		if l.was == l.Target {
			continue
		}
		var before []byte
		if l.was != "" {
			before = []byte("-> " + l.was + "\n")
		}
		if err := writeDiff(w, l.Path, before, []byte("-> "+l.Target+"\n"), l.was != "", true); err != nil {
			return err
		}
	}
	for _, c := range p.Changes {
		if err := writeDiff(w, c.Path, c.Before, c.After, c.Existed, true); err != nil {
			return err
		}
	}
	return nil
}
