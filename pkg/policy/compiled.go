package policy

import (
	"encoding/binary"
	"errors"
	"fmt"

	yaml "go.yaml.in/yaml/v3"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
)

// Compile writes documents in a form that needs no YAML parser: a policy that
// is read for every container is parsed once. [FromCompiled] gives the same
// policies, and the same places in messages.
//
// The form is private to one version of nodeadmit. It fails for documents that
// aliases make larger than compiledNodes.
func Compile(digest string, all []Documents) ([]byte, error) {
	e := &encoder{}
	e.str(digest)
	e.num(len(all))
	for _, f := range all {
		e.str(f.File)
		e.num(len(f.Nodes))
		for _, n := range f.Nodes {
			e.node(n.Node, 0)
		}
	}
	return e.out, e.err
}

// FromCompiled reads what Compile wrote. name is for messages.
func FromCompiled(name string, data []byte) (*Set, error) {
	d := &reader{in: data}
	digest := d.str()
	all := make([]Documents, 0, 8)
	for range d.count() {
		f := Documents{File: d.str()}
		for range d.count() {
			f.Nodes = append(f.Nodes, strictyaml.Field{Name: "document", Node: d.node(0)})
		}
		all = append(all, f)
	}
	if d.err == nil && len(d.in) > 0 {
		d.err = errCompiled
	}
	if d.err != nil {
		return nil, fmt.Errorf("%s: %w", name, d.err)
	}
	return newSet(name, digest, all)
}

const (
	compiledNodes = 1 << 18
	compiledDepth = 64
)

var errCompiled = errors.New("is no compiled policy of this version")

type encoder struct {
	out   []byte
	nodes int
	err   error
}

func (e *encoder) num(n int)    { e.out = binary.AppendUvarint(e.out, uint64(n)) }
func (e *encoder) str(s string) { e.num(len(s)); e.out = append(e.out, s...) }

func (e *encoder) node(n *yaml.Node, depth int) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if e.nodes++; e.nodes > compiledNodes || depth > compiledDepth {
		e.err = errors.New("policy documents are too large to compile")
		return
	}
	e.num(int(n.Kind))
	e.str(n.Tag)
	e.str(n.Value)
	e.num(n.Line)
	e.num(n.Column)
	e.num(len(n.Content))
	for _, c := range n.Content {
		if e.err == nil {
			e.node(c, depth+1)
		}
	}
}

type reader struct {
	in    []byte
	nodes int
	err   error
}

func (r *reader) num() int {
	n, size := binary.Uvarint(r.in)
	if size <= 0 || n > 1<<31 {
		r.err, r.in = errCompiled, nil
		return 0
	}
	r.in = r.in[size:]
	return int(n)
}

// count is a number of things that each take at least one byte.
func (r *reader) count() int {
	n := r.num()
	if n > len(r.in) {
		r.err, r.in = errCompiled, nil
		return 0
	}
	return n
}

func (r *reader) str() string {
	n := r.count()
	s := string(r.in[:n])
	r.in = r.in[n:]
	return s
}

func (r *reader) node(depth int) *yaml.Node {
	if r.nodes++; r.nodes > compiledNodes || depth > compiledDepth {
		r.err, r.in = errCompiled, nil
	}
	n := &yaml.Node{Kind: yaml.Kind(r.num()), Tag: r.str(), Value: r.str(), Line: r.num(), Column: r.num()}
	for range r.count() {
		if r.err != nil {
			break
		}
		n.Content = append(n.Content, r.node(depth+1))
	}
	return n
}
