// Package strictyaml reads YAML documents strictly and says where a fault is:
// file, line, column, what is wrong and what would be right.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// Decoder reads YAML nodes strictly and collects errors with their places.
type Decoder struct {
	File string
	Errs []error
}

// Error is a fault in a file.
type Error struct {
	File         string
	Line, Column int
	Text         string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Text
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Text)
}

// Documents parses the documents of one file, of which empty ones are left
// out. JSON is read as well. A file that is no YAML is an error of the decoder.
func Documents(file string, data []byte) (*Decoder, []Field) {
	d := &Decoder{File: file}
	var out []Field
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return d, out
		}
		if err != nil {
			// The parser's message has the line.
			text := strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\n", " "), "yaml: ")
			d.Errorf(nil, "%s", text)
			return d, out
		}
		if len(doc.Content) > 0 && doc.Content[0].Tag != "!!null" {
			out = append(out, Field{Name: "document", Node: doc.Content[0]})
		}
	}
}

// Header checks apiVersion and kind of a document and reports whether they are
// as wanted.
func (d *Decoder) Header(o *Object, at Field, apiVersion, kind string) bool {
	for _, want := range []struct{ name, value string }{{"apiVersion", apiVersion}, {"kind", kind}} {
		f, ok := o.Get(want.name)
		if !ok {
			d.Errorf(at.Node, "%s is missing: want %s", want.name, want.value)
			return false
		}
		if f.Node.Value != want.value {
			d.Errorf(f.Node, "%s is %q: want %s", want.name, f.Node.Value, want.value)
			return false
		}
	}
	return true
}

// Errorf adds an error at the place of n, or of the whole file if n is nil.
func (d *Decoder) Errorf(n *yaml.Node, format string, args ...any) {
	e := &Error{File: d.File, Text: fmt.Sprintf(format, args...)}
	if n != nil {
		e.Line, e.Column = n.Line, n.Column
	}
	d.Errs = append(d.Errs, e)
}

// Field is a member of an object or an item of a list. Node is the value, Key
// is the name's own node.
type Field struct {
	Name string
	Key  *yaml.Node
	Node *yaml.Node
}

// Object is a mapping with its members in the file's order.
type Object struct {
	Name   string
	Fields []Field
}

// Object reads a mapping, in which a name must not occur twice.
func (d *Decoder) Object(f Field) *Object {
	o := &Object{Name: f.Name}
	n := resolve(f.Node)
	if n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return o
	}
	if n.Kind != yaml.MappingNode {
		d.Errorf(n, "%s: want a mapping, not %s", f.Name, kindName(n))
		return o
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], resolve(n.Content[i+1])
		if k.Kind != yaml.ScalarNode || k.Tag == "!!merge" {
			d.Errorf(k, "%s: want a plain name as key", f.Name)
			continue
		}
		if slices.ContainsFunc(o.Fields, func(o Field) bool { return o.Name == k.Value }) {
			d.Errorf(k, "duplicate key %q", k.Value)
			continue
		}
		o.Fields = append(o.Fields, Field{k.Value, k, v})
	}
	return o
}

// Get returns the member of that name.
func (o *Object) Get(name string) (Field, bool) {
	for _, f := range o.Fields {
		if f.Name == name {
			return f, true
		}
	}
	return Field{}, false
}

// List reads a list. An item is named after its place: "allow[2]".
func (d *Decoder) List(f Field) []Field {
	n := resolve(f.Node)
	if n == nil || n.Kind != yaml.SequenceNode {
		d.Errorf(n, "%s: want a list, not %s", f.Name, kindName(n))
		return nil
	}
	var out []Field
	for i, c := range n.Content {
		out = append(out, Field{f.Name + "[" + strconv.Itoa(i) + "]", c, resolve(c)})
	}
	return out
}

// Str reads a string; a number or a boolean is none.
func (d *Decoder) Str(f Field) string {
	if f.Node == nil || f.Node.Kind != yaml.ScalarNode || f.Node.Tag != "!!str" {
		d.Errorf(f.Node, "%s: want a string, not %s", f.Name, kindName(f.Node))
		return ""
	}
	return f.Node.Value
}

// Bool reads true or false.
func (d *Decoder) Bool(f Field) bool {
	if f.Node == nil || f.Node.Kind != yaml.ScalarNode || f.Node.Tag != "!!bool" {
		d.Errorf(f.Node, "%s: want true or false, not %s", f.Name, kindName(f.Node))
		return false
	}
	return strings.EqualFold(f.Node.Value, "true")
}

// Choice reads one of a few words.
func Choice[T ~string](d *Decoder, f Field, words ...T) T {
	s := d.Str(f)
	for _, w := range words {
		if string(w) == s {
			return w
		}
	}
	if s != "" || f.Node != nil && f.Node.Tag == "!!str" {
		names := make([]string, len(words))
		for i, w := range words {
			names[i] = string(w)
		}
		d.Errorf(f.Node, "%s is %q: want %s", f.Name, s, OrList(names))
	}
	return ""
}

// UnknownField says that the object has a member that nobody knows.
func (d *Decoder) UnknownField(o *Object, f Field, known ...string) {
	d.Errorf(f.Key, "unknown field %q in %s%s", f.Name, o.Name, Nearest(f.Name, known))
}

// resolve follows YAML aliases.
func resolve(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func kindName(n *yaml.Node) string {
	if n == nil {
		return "nothing"
	}
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	case yaml.ScalarNode:
		switch n.Tag {
		case "!!null":
			return "nothing"
		case "!!bool":
			return "the boolean " + n.Value
		case "!!int", "!!float":
			return "the number " + n.Value
		}
		return strconv.Quote(n.Value)
	}
	return "something else"
}

// OrList joins words for people: "a, b or c".
func OrList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// Nearest says which known word an unknown one is closest to, or all of them.
func Nearest(word string, known []string) string {
	best, dist := "", 1<<30
	for _, k := range known {
		if n := distance(strings.ToLower(word), strings.ToLower(k)); n < dist {
			best, dist = k, n
		}
	}
	if best != "" && dist <= max(2, len(best)/3) {
		return fmt.Sprintf(": did you mean %q?", best)
	}
	if len(known) > 0 && len(known) <= 30 {
		return ": want " + OrList(known)
	}
	return ""
}

// distance is the number of single-letter edits between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next := min(row[j]+1, row[j-1]+1, diagonal+cost)
			diagonal, row[j] = row[j], next
		}
	}
	return row[len(b)]
}
