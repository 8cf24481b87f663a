package policy

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodeadmit/nodeadmit/internal/rootfile"
	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
)

// MaxFileSize bounds one policy file, in bytes.
const MaxFileSize = 1 << 20

// LoadOptions says how much the files are trusted.
type LoadOptions struct {
	// RequireRoot refuses files and directories that are not root's or that
	// others may write. Off for checks of files that are not in force.
	RequireRoot bool
}

// Load reads the policies of a file, or of a directory's *.yaml, *.yml and
// *.json files. All faults of all files are in the error. A directory without
// a policy is an error: nothing would be enforced.
func Load(name string, o LoadOptions) (*Set, error) {
	sources, err := ReadSources(name, o)
	if err != nil {
		return nil, err
	}
	set, _, err := sources.Parse()
	return set, err
}

// Source is one policy file as it was read.
type Source struct {
	Name string
	Data []byte
}

// Sources are the files of a policy directory, or one file.
type Sources struct {
	// Name is the directory or file.
	Name  string
	Files []Source
	// Digest is "sha256:" and a hexadecimal digest over names and contents.
	Digest string
}

// ReadSources reads policy files without parsing them. The error names every
// file that can't be read or trusted.
func ReadSources(name string, o LoadOptions) (*Sources, error) {
	files, err := policyFiles(name, o)
	if err != nil {
		return nil, err
	}
	var (
		read []Source
		errs []error
	)
	var check func(string, fs.FileInfo) error
	if o.RequireRoot {
		check = rootfile.Check
	}
	for _, file := range files {
		data, _, err := rootfile.Read(file, MaxFileSize, check)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		read = append(read, Source{file, data})
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return NewSources(name, read), nil
}

// NewSources are files that came otherwise.
func NewSources(name string, files []Source) *Sources {
	sum := sha256.New()
	for _, f := range files {
		base := filepath.Base(f.Name)
		fmt.Fprintf(sum, "%d %s\n%d\n", len(base), base, len(f.Data))
		sum.Write(f.Data)
	}
	return &Sources{Name: name, Files: files, Digest: "sha256:" + hex.EncodeToString(sum.Sum(nil))}
}

// Origin is where policy files come from: a directory, or a signed bundle.
type Origin interface {
	ReadSources() (*Sources, error)
}

// Dir is a directory of policy files, or one file.
type Dir struct {
	Name string
	LoadOptions
}

// ReadSources reads the files.
func (d Dir) ReadSources() (*Sources, error) { return ReadSources(d.Name, d.LoadOptions) }

// Parse reads the policies of all files. The documents behind them are for
// [Compile].
func (s *Sources) Parse() (*Set, []Documents, error) {
	var (
		all  []Documents
		errs []error
	)
	for _, f := range s.Files {
		d, nodes := strictyaml.Documents(f.Name, f.Data)
		errs = append(errs, d.Errs...)
		all = append(all, Documents{f.Name, nodes})
	}
	set, err := newSet(s.Name, s.Digest, all)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, nil, err
	}
	return set, all, nil
}

// Documents are the YAML documents of one file.
type Documents struct {
	File  string
	Nodes []strictyaml.Field
}

// newSet makes policies of documents.
func newSet(name, digest string, all []Documents) (*Set, error) {
	set := &Set{Digest: digest}
	var errs []error
	for _, file := range all {
		policies, external, err := fromDocuments(file)
		if err != nil {
			errs = append(errs, err)
		}
		set.External = append(set.External, external...)
		for _, p := range policies {
			if i := slices.IndexFunc(set.Policies, func(q *Policy) bool { return q.Name == p.Name }); i >= 0 {
				errs = append(errs, &strictyaml.Error{File: file.File, Text: fmt.Sprintf("policy %q is already defined in %s", p.Name, set.Policies[i].File)})
			}
			set.Policies = append(set.Policies, p)
		}
	}
	errs = append(errs, parameters(set.External)...)
	errs = append(errs, duplicates(set.External)...)
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if len(set.Policies) == 0 && !set.NeedsEvaluator() {
		return nil, fmt.Errorf("%s: holds no policy: want at least one NodePolicy in a .yaml, .yml or .json file", name)
	}
	return set, nil
}

func policyFiles(name string, o LoadOptions) ([]string, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	if !info.IsDir() {
		return []string{name}, nil
	}
	if o.RequireRoot {
		if err := rootfile.Check(name, info); err != nil {
			return nil, err
		}
	}
	entries, err := os.ReadDir(name)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	var files []string
	for _, e := range entries {
		switch filepath.Ext(e.Name()) {
		case ".yaml", ".yml", ".json":
			if !strings.HasPrefix(e.Name(), ".") {
				files = append(files, filepath.Join(name, e.Name()))
			}
		}
	}
	return files, nil
}

// Parse reads the NodePolicy documents of one file. name is for messages.
func Parse(name string, data []byte) ([]*Policy, error) {
	d, nodes := strictyaml.Documents(name, data)
	policies, _, err := fromDocuments(Documents{name, nodes})
	return policies, errors.Join(append(d.Errs, err)...)
}

func fromDocuments(docs Documents) ([]*Policy, []External, error) {
	d := &decoder{&strictyaml.Decoder{File: docs.File}}
	var (
		out  []*Policy
		left []External
	)
	for _, f := range docs.Nodes {
		list, ok, err := external(docs, f)
		if err != nil {
			d.Errs = append(d.Errs, err)
		}
		left = append(left, list...)
		if ok {
			continue
		}
		if p := d.policy(f); p != nil {
			p.File = docs.File
			out = append(out, p)
		}
	}
	return out, left, errors.Join(d.Errs...)
}

// decoder adds what only policies have.
type decoder struct{ *strictyaml.Decoder }

func (d *decoder) policy(f strictyaml.Field) *Policy {
	before := len(d.Errs)
	o := d.Object(f)
	if len(d.Errs) > before {
		return nil
	}
	p := &Policy{Mode: Enforce, Preset: Privileged, Version: Version{latest: true}, Basis: Effective, OnSourceUnavailable: FallBackToEffective}
	if !d.Header(o, f, APIVersion, Kind) {
		return nil
	}
	for _, f := range o.Fields {
		switch f.Name {
		case "apiVersion", "kind":
		case "metadata":
			d.metadata(d.Object(f), p)
		case "spec":
			d.spec(d.Object(f), p)
		default:
			d.UnknownField(o, f, "apiVersion", "kind", "metadata", "spec")
		}
	}
	p.refusalText = p.refusal()
	if p.Name == "" {
		d.Errorf(f.Node, "metadata.name is missing")
	}
	if _, ok := o.Get("spec"); !ok {
		d.Errorf(f.Node, "spec is missing")
	}
	return p
}

func (d *decoder) metadata(o *strictyaml.Object, p *Policy) {
	for _, f := range o.Fields {
		switch f.Name {
		case "name":
			p.Name = d.Str(f)
			if !validName(p.Name) && p.Name != "" {
				d.Errorf(f.Node, "name %q: want at most 63 lower-case letters, digits, \"-\" or \".\"", p.Name)
			}
		case "labels", "annotations":
			d.Object(f)
		default:
			d.UnknownField(o, f, "name", "labels", "annotations")
		}
	}
}

func validName(s string) bool {
	for _, c := range s {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '.' {
			return false
		}
	}
	return s != "" && len(s) <= 63
}

func (d *decoder) spec(o *strictyaml.Object, p *Policy) {
	var controls *strictyaml.Object
	for _, f := range o.Fields {
		switch f.Name {
		case "mode":
			p.Mode = strictyaml.Choice(d.Decoder, f, Enforce, Audit)
		case "preset":
			p.Preset = strictyaml.Choice(d.Decoder, f, Privileged, Baseline, Restricted)
		case "version":
			v, err := ParseVersion(d.Str(f))
			if err != nil {
				d.Errorf(f.Node, "%v", err)
			}
			p.Version = v
		case "basis":
			p.Basis = strictyaml.Choice(d.Decoder, f, Effective, Declared)
		case "onSourceUnavailable":
			p.OnSourceUnavailable = strictyaml.Choice(d.Decoder, f, FallBackToEffective, FallBackToDeny)
		case "controls":
			controls = d.Object(f)
		case "nodes":
			p.nodeLabels = d.nodes(f)
		case "exemptions":
			for _, item := range d.List(f) {
				p.exemptions = append(p.exemptions, d.exemption(item))
			}
		default:
			d.UnknownField(o, f, "mode", "preset", "version", "basis", "onSourceUnavailable", "controls", "exemptions", "nodes")
		}
	}
	if f, ok := o.Get("onSourceUnavailable"); ok && p.Basis != Declared {
		d.Errorf(f.Node, "onSourceUnavailable has no meaning but with basis Declared")
	}
	d.controls(controls, p)
}

// nodes reads {matchLabels: {KEY: VALUE}}.
func (d *decoder) nodes(f strictyaml.Field) map[string]string {
	o := d.Object(f)
	labels := map[string]string{}
	for _, f := range o.Fields {
		switch f.Name {
		case "matchLabels":
			for _, l := range d.Object(f).Fields {
				labels[l.Name] = d.Str(l)
			}
		default:
			d.UnknownField(o, f, "matchLabels")
		}
	}
	if len(labels) == 0 {
		d.Errorf(f.Node, "nodes: want matchLabels with at least one label")
	}
	return labels
}

// controls puts the policy's settings over the preset's.
func (d *decoder) controls(o *strictyaml.Object, p *Policy) {
	if o != nil {
		for _, f := range o.Fields {
			if !contains(ControlNames(), f.Name) {
				d.Errorf(f.Key, "unknown control %q%s", f.Name, strictyaml.Nearest(f.Name, ControlNames()))
			}
		}
	}
	for i, c := range Controls() {
		a := activeControl{control: c, order: i, rule: c.preset(p.Preset, p.Version), mode: p.Mode}
		a.undeterminedAllowed = a.rule != nil && c.undeterminedAllowed
		if o != nil {
			if f, ok := o.Get(c.Name); ok {
				a.lines = lines(d.Object(f))
				a.rule = c.parse(d, d.common(d.Object(f), &a), a.rule)
			}
		}
		if a.rule != nil {
			p.active = append(p.active, a)
			p.judgesPrivileged = p.judgesPrivileged || c.Name == privilegedControl.Name
		}
	}
}

// lines are where an object's members stand in their file.
func lines(o *strictyaml.Object) map[string]int {
	out := make(map[string]int, len(o.Fields))
	for _, f := range o.Fields {
		out[f.Name] = f.Key.Line
	}
	return out
}

// common takes the settings that every control has out of its object.
func (d *decoder) common(o *strictyaml.Object, a *activeControl) *strictyaml.Object {
	own := &strictyaml.Object{Name: o.Name}
	for _, f := range o.Fields {
		switch f.Name {
		case "mode":
			a.mode = strictyaml.Choice(d.Decoder, f, Enforce, Audit)
		case "onUndetermined":
			a.undeterminedAllowed = strictyaml.Choice(d.Decoder, f, "Deny", "Allow") == "Allow"
		default:
			own.Fields = append(own.Fields, f)
		}
	}
	return own
}
