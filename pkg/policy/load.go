package policy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	yaml "go.yaml.in/yaml/v3"
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
	files, err := policyFiles(name, o)
	if err != nil {
		return nil, err
	}
	set := &Set{}
	sum := sha256.New()
	var errs []error
	for _, file := range files {
		data, err := readFile(file, o)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(sum, "%d %s\n%d\n", len(filepath.Base(file)), filepath.Base(file), len(data))
		sum.Write(data)
		policies, err := Parse(file, data)
		if err != nil {
			errs = append(errs, err)
		}
		for _, p := range policies {
			if i := slices.IndexFunc(set.Policies, func(q *Policy) bool { return q.Name == p.Name }); i >= 0 {
				errs = append(errs, &Error{File: file, Text: fmt.Sprintf("policy %q is already defined in %s", p.Name, set.Policies[i].File)})
			}
			set.Policies = append(set.Policies, p)
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if len(set.Policies) == 0 {
		return nil, fmt.Errorf("%s: holds no policy: want at least one NodePolicy in a .yaml, .yml or .json file", name)
	}
	set.Digest = "sha256:" + hex.EncodeToString(sum.Sum(nil))
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
	if err := trusted(name, info, o); err != nil {
		return nil, err
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

// trusted refuses what others than root could have written.
func trusted(name string, info os.FileInfo, o LoadOptions) error {
	if !o.RequireRoot {
		return nil
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 {
		return fmt.Errorf("%s: belongs to uid %d: want root (chown root %s)", name, st.Uid, name)
	}
	if perm := info.Mode().Perm(); perm&0o022 != 0 {
		return fmt.Errorf("%s: mode %04o lets others write: want at most 0755 (chmod go-w %s)", name, perm, name)
	}
	return nil
}

func readFile(name string, o LoadOptions) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: is no regular file", name)
	}
	if err := trusted(name, info, o); err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxFileSize+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(data) > MaxFileSize {
		return nil, fmt.Errorf("%s: is larger than %d bytes", name, MaxFileSize)
	}
	return data, nil
}

// Parse reads the NodePolicy documents of one file. name is for messages.
func Parse(name string, data []byte) ([]*Policy, error) {
	d := &decoder{file: name}
	var out []*Policy
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			d.errorf(nil, "%s", yamlError(err))
			break
		}
		if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
			continue
		}
		if p := d.policy(field{name: "policy", node: doc.Content[0]}); p != nil {
			p.File = name
			out = append(out, p)
		}
	}
	return out, errors.Join(d.errs...)
}

// yamlError gives the parser's message, which has the line, without its name.
func yamlError(err error) string {
	return strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", " "), "yaml: ")
}

func (d *decoder) policy(f field) *Policy {
	before := len(d.errs)
	o := d.object(f)
	if len(d.errs) > before {
		return nil
	}
	p := &Policy{Mode: Enforce, Preset: Privileged, Version: Version{latest: true}}
	if !d.header(o, f) {
		return nil
	}
	for _, f := range o.fields {
		switch f.name {
		case "apiVersion", "kind":
		case "metadata":
			d.metadata(d.object(f), p)
		case "spec":
			d.spec(d.object(f), p)
		default:
			d.unknownField(o, f, "apiVersion", "kind", "metadata", "spec")
		}
	}
	if p.Name == "" {
		d.errorf(f.node, "metadata.name is missing")
	}
	if _, ok := o.get("spec"); !ok {
		d.errorf(f.node, "spec is missing")
	}
	return p
}

func (d *decoder) header(o *object, at field) bool {
	for _, want := range []struct{ name, value string }{{"apiVersion", APIVersion}, {"kind", Kind}} {
		f, ok := o.get(want.name)
		if !ok {
			d.errorf(at.node, "%s is missing: want %s", want.name, want.value)
			return false
		}
		if f.node.Value != want.value {
			d.errorf(f.node, "%s is %q: want %s", want.name, f.node.Value, want.value)
			return false
		}
	}
	return true
}

func (d *decoder) metadata(o *object, p *Policy) {
	for _, f := range o.fields {
		switch f.name {
		case "name":
			p.Name = d.str(f)
			if !validName(p.Name) && p.Name != "" {
				d.errorf(f.node, "name %q: want at most 63 lower-case letters, digits, \"-\" or \".\"", p.Name)
			}
		case "labels", "annotations":
			d.object(f)
		default:
			d.unknownField(o, f, "name", "labels", "annotations")
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

func (d *decoder) spec(o *object, p *Policy) {
	var controls *object
	for _, f := range o.fields {
		switch f.name {
		case "mode":
			p.Mode = choice(d, f, Enforce, Audit)
		case "preset":
			p.Preset = choice(d, f, Privileged, Baseline, Restricted)
		case "version":
			v, err := ParseVersion(d.str(f))
			if err != nil {
				d.errorf(f.node, "%v", err)
			}
			p.Version = v
		case "controls":
			controls = d.object(f)
		case "exemptions":
			for _, item := range d.list(f) {
				p.exemptions = append(p.exemptions, d.exemption(item))
			}
		default:
			d.unknownField(o, f, "mode", "preset", "version", "controls", "exemptions")
		}
	}
	d.controls(controls, p)
}

// controls puts the policy's settings over the preset's.
func (d *decoder) controls(o *object, p *Policy) {
	if o != nil {
		for _, f := range o.fields {
			if !contains(ControlNames(), f.name) {
				d.errorf(f.key, "unknown control %q%s", f.name, nearest(f.name, ControlNames()))
			}
		}
	}
	for _, c := range Controls() {
		a := activeControl{control: c, rule: c.preset(p.Preset, p.Version), mode: p.Mode}
		if o != nil {
			if f, ok := o.get(c.Name); ok {
				a.rule = c.parse(d, d.common(d.object(f), &a), a.rule)
			}
		}
		if a.rule != nil {
			p.active = append(p.active, a)
		}
	}
}

// common takes the settings that every control has out of its object.
func (d *decoder) common(o *object, a *activeControl) *object {
	own := &object{name: o.name}
	for _, f := range o.fields {
		switch f.name {
		case "mode":
			a.mode = choice(d, f, Enforce, Audit)
		case "onUndetermined":
			a.undeterminedAllowed = choice(d, f, "Deny", "Allow") == "Allow"
		default:
			own.fields = append(own.fields, f)
		}
	}
	return own
}

func (d *decoder) exemption(f field) exemption {
	var e exemption
	o := d.object(f)
	for _, f := range o.fields {
		switch f.name {
		case "name":
			e.name = d.str(f)
		case "match":
			m := d.object(f)
			for _, f := range m.fields {
				target := map[string]*string{
					"namespace": &e.match.namespace, "pod": &e.match.pod,
					"container": &e.match.container, "image": &e.match.image,
				}[f.name]
				if target == nil {
					d.unknownField(m, f, "namespace", "pod", "container", "image")
					continue
				}
				*target = d.str(f)
				if _, err := path.Match(*target, ""); err != nil || *target == "" {
					d.errorf(f.node, "pattern %q can't match: want text with *, ? or [a-z]", *target)
				}
			}
		case "controls":
			for _, item := range d.list(f) {
				name := d.str(item)
				if !contains(ControlNames(), name) {
					d.errorf(item.node, "unknown control %q%s", name, nearest(name, ControlNames()))
				}
				e.controls = append(e.controls, name)
			}
		default:
			d.unknownField(o, f, "name", "match", "controls")
		}
	}
	switch {
	case e.name == "":
		d.errorf(f.node, "an exemption has no name")
	case e.match == match{}:
		d.errorf(f.node, "exemption %q matches everything: want match with namespace, pod, container or image", e.name)
	case len(e.controls) == 0:
		d.errorf(f.node, "exemption %q names no controls", e.name)
	}
	return e
}
