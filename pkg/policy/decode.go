package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	yaml "go.yaml.in/yaml/v3"
)

// decoder reads YAML nodes strictly and collects errors with their places.
type decoder struct {
	file string
	errs []error
}

// Error is a fault in a policy file.
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

func (d *decoder) errorf(n *yaml.Node, format string, args ...any) {
	e := &Error{File: d.file, Text: fmt.Sprintf(format, args...)}
	if n != nil {
		e.Line, e.Column = n.Line, n.Column
	}
	d.errs = append(d.errs, e)
}

// field is a member of an object or an item of a list. node is the value, key
// is the name's own node.
type field struct {
	name string
	key  *yaml.Node
	node *yaml.Node
}

// object is a mapping with its members in the file's order.
type object struct {
	name   string
	fields []field
}

// object reads a mapping; duplicate names are errors.
func (d *decoder) object(f field) *object {
	o := &object{name: f.name}
	n := resolve(f.node)
	if n == nil || n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return o
	}
	if n.Kind != yaml.MappingNode {
		d.errorf(n, "%s: want a mapping, not %s", f.name, kindName(n))
		return o
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k, v := n.Content[i], resolve(n.Content[i+1])
		if k.Kind != yaml.ScalarNode || k.Tag == "!!merge" {
			d.errorf(k, "%s: want a plain name as key", f.name)
			continue
		}
		if slices.ContainsFunc(o.fields, func(o field) bool { return o.name == k.Value }) {
			d.errorf(k, "duplicate key %q", k.Value)
			continue
		}
		o.fields = append(o.fields, field{k.Value, k, v})
	}
	return o
}

// get returns the member of that name.
func (o *object) get(name string) (field, bool) {
	for _, f := range o.fields {
		if f.name == name {
			return f, true
		}
	}
	return field{}, false
}

func (d *decoder) list(f field) []field {
	n := resolve(f.node)
	if n == nil || n.Kind != yaml.SequenceNode {
		d.errorf(n, "%s: want a list, not %s", f.name, kindName(n))
		return nil
	}
	var out []field
	for i, c := range n.Content {
		out = append(out, field{f.name + "[" + strconv.Itoa(i) + "]", c, resolve(c)})
	}
	return out
}

func (d *decoder) str(f field) string {
	if f.node == nil || f.node.Kind != yaml.ScalarNode || f.node.Tag != "!!str" {
		d.errorf(f.node, "%s: want a string, not %s", f.name, kindName(f.node))
		return ""
	}
	return f.node.Value
}

func (d *decoder) boolean(f field) bool {
	if f.node == nil || f.node.Kind != yaml.ScalarNode || f.node.Tag != "!!bool" {
		d.errorf(f.node, "%s: want true or false, not %s", f.name, kindName(f.node))
		return false
	}
	return strings.EqualFold(f.node.Value, "true")
}

// choice reads one of a few words.
func choice[T ~string](d *decoder, f field, words ...T) T {
	s := d.str(f)
	for _, w := range words {
		if string(w) == s {
			return w
		}
	}
	if s != "" || f.node != nil && f.node.Tag == "!!str" {
		names := make([]string, len(words))
		for i, w := range words {
			names[i] = string(w)
		}
		d.errorf(f.node, "%s is %q: want %s", f.name, s, orList(names))
	}
	return ""
}

func (d *decoder) unknownField(o *object, f field, known ...string) {
	d.errorf(f.key, "unknown field %q in %s%s", f.name, o.name, nearest(f.name, known))
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

func orList(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// nearest says which known word an unknown one is closest to, or all of them.
func nearest(word string, known []string) string {
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
		return ": want " + orList(known)
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
