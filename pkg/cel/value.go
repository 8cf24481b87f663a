package cel

import (
	"fmt"
	"reflect"
	"sort"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
)

// unseen is a tree of what isn't known of a document.
type unseen struct {
	// all: nothing is known of the value here, nor whether there is one.
	all bool
	// more: the list here has further elements that aren't known.
	more     bool
	children map[string]*unseen
}

// newUnseen makes a tree of paths as [pod.Rebuild] gives them.
func newUnseen(paths []string) *unseen {
	root := &unseen{}
	for _, p := range paths {
		root.at(p).all = true
	}
	return root
}

// at returns the node of a path, which it makes.
func (u *unseen) at(path string) *unseen {
	for _, step := range steps(path) {
		next := u.children[step]
		if next == nil {
			next = &unseen{}
			if u.children == nil {
				u.children = map[string]*unseen{}
			}
			u.children[step] = next
		}
		u = next
	}
	return u
}

// steps splits "spec.containers[0].env" into spec, containers, 0, env.
func steps(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

func (u *unseen) child(step string) *unseen {
	if u == nil {
		return nil
	}
	return u.children[step]
}

// partly reports whether a member of the mapping here isn't known.
func (u *unseen) partly() bool {
	if u == nil {
		return false
	}
	for _, c := range u.children {
		if c.all {
			return true
		}
	}
	return false
}

// looks is what an evaluation looked at that isn't known and that CEL has no
// unknown for: sizes, and the equality of what is known in part. Its result
// doesn't count then.
type looks map[string]bool

// wrap makes a CEL value of a JSON value.
func wrap(v any, path string, u *unseen, l looks) ref.Val {
	if u != nil && u.all {
		return unknown(path)
	}
	switch v := v.(type) {
	case nil:
		if u != nil && len(u.children) > 0 {
			return &mapping{nil, path, u, l}
		}
		return types.NullValue
	case map[string]any:
		return &mapping{v, path, u, l}
	case []any:
		return &list{v, path, u, l}
	case string:
		return types.String(v)
	case bool:
		return types.Bool(v)
	case int:
		return types.Int(v)
	case int64:
		return types.Int(v)
	case float64:
		return types.Double(v)
	}
	return types.NewErr("%s: value of type %T", path, v)
}

func unknown(path string) *types.Unknown { return types.NewUnknown(1, types.NewAttributeTrail(path)) }

// unknownPaths are the paths of an unknown, sorted.
func unknownPaths(u *types.Unknown) []string {
	var out []string
	for _, id := range u.IDs() {
		trails, _ := u.GetAttributeTrails(id)
		for _, t := range trails {
			out = append(out, t.Variable())
		}
	}
	sort.Strings(out)
	return out
}

// mapping is a JSON object of which some members may not be known.
type mapping struct {
	m     map[string]any
	path  string
	u     *unseen
	looks looks
}

var _ traits.Mapper = (*mapping)(nil)

// Find returns an unknown for a member that isn't known: CEL's attributes and has()
// hand it on.
func (m *mapping) Find(key ref.Val) (ref.Val, bool) {
	k, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), true
	}
	name := string(k)
	u := m.u.child(name)
	v, found := m.m[name]
	if !found && u == nil {
		return nil, false
	}
	return wrap(v, join(m.path, name), u, m.looks), true
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Get is Find with an error for what there isn't.
func (m *mapping) Get(key ref.Val) ref.Val {
	if v, found := m.Find(key); found {
		return v
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

// Contains is the operator in.
func (m *mapping) Contains(key ref.Val) ref.Val {
	v, found := m.Find(key)
	if found && types.IsUnknownOrError(v) {
		return v
	}
	return types.Bool(found)
}

// Size counts what is known.
func (m *mapping) Size() ref.Val {
	if m.u.partly() {
		m.looks[m.path] = true
	}
	return types.Int(len(m.names()))
}

// names are those of members that are known in part at least.
func (m *mapping) names() []string {
	var out []string
	for name := range m.m {
		if u := m.u.child(name); u == nil || !u.all {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return out
}

// Iterator goes over the names, and over an unknown one if there may be more.
func (m *mapping) Iterator() traits.Iterator {
	it := &iterator{}
	for _, name := range m.names() {
		it.items = append(it.items, types.String(name))
	}
	if m.u.partly() {
		it.items = append(it.items, unknown(m.path))
	}
	return it
}

// Equal is false if what is known differs.
func (m *mapping) Equal(other ref.Val) ref.Val {
	o, ok := other.(traits.Mapper)
	if !ok {
		return types.False
	}
	names := m.names()
	for _, name := range names {
		ov, found := o.Find(types.String(name))
		if !found {
			return types.False
		}
		v, _ := m.Find(types.String(name))
		switch {
		case types.IsUnknown(ov) || types.IsUnknown(v):
			m.looks[m.path] = true
		case types.Equal(v, ov) == types.False:
			return types.False
		}
	}
	om, _ := other.(*mapping)
	if m.u.partly() || om != nil && om.u.partly() {
		m.looks[m.path] = true
		return types.False
	}
	return types.Bool(o.Size() == types.Int(len(names)))
}

// ConvertToNative gives what is known.
func (m *mapping) ConvertToNative(t reflect.Type) (any, error) {
	if m.u.partly() {
		m.looks[m.path] = true
	}
	return types.NewStringInterfaceMap(types.DefaultTypeAdapter, m.m).ConvertToNative(t)
}

// ConvertToType knows no other type.
func (m *mapping) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.MapType:
		return m
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("type conversion error from map to %s", t)
}

// Type is a map's.
func (m *mapping) Type() ref.Type { return types.MapType }

// Value gives what is known.
func (m *mapping) Value() any {
	if m.u.partly() {
		m.looks[m.path] = true
	}
	return m.m
}

// list is a JSON list that may have further elements.
type list struct {
	items []any
	path  string
	u     *unseen
	looks looks
}

var _ traits.Lister = (*list)(nil)

func (l *list) more() bool { return l.u != nil && l.u.more }

func (l *list) item(i int) ref.Val {
	return wrap(l.items[i], l.path+"["+strconv.Itoa(i)+"]", l.u.child(strconv.Itoa(i)), l.looks)
}

// Get is by place, which isn't known if there are further elements.
func (l *list) Get(index ref.Val) ref.Val {
	i, err := types.IndexOrError(index)
	if err != nil {
		return types.ValOrErr(index, "%v", err)
	}
	if l.more() {
		return unknown(l.path)
	}
	if i < 0 || i >= len(l.items) {
		return types.NewErr("index out of bounds: %d", i)
	}
	return l.item(i)
}

// Size counts what is known.
func (l *list) Size() ref.Val {
	if l.more() {
		l.looks[l.path] = true
	}
	return types.Int(len(l.items))
}

// Iterator ends with an unknown if there are further elements.
func (l *list) Iterator() traits.Iterator {
	it := &iterator{}
	for i := range l.items {
		it.items = append(it.items, l.item(i))
	}
	if l.more() {
		it.items = append(it.items, unknown(l.path))
	}
	return it
}

// Contains is the operator in.
func (l *list) Contains(v ref.Val) ref.Val {
	if types.IsUnknownOrError(v) {
		return v
	}
	var unk *types.Unknown
	for it := l.Iterator(); it.HasNext() == types.True; {
		item := it.Next()
		if u, ok := item.(*types.Unknown); ok {
			unk = types.MergeUnknowns(unk, u)
		} else if types.Equal(item, v) == types.True {
			return types.True
		}
	}
	if unk != nil {
		return unk
	}
	return types.False
}

// Add joins lists. What is known of both stays so.
func (l *list) Add(other ref.Val) ref.Val {
	o, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	out := &joined{}
	for _, part := range []traits.Lister{l, o} {
		if j, ok := part.(*joined); ok {
			out.parts = append(out.parts, j.parts...)
		} else {
			out.parts = append(out.parts, part)
		}
	}
	return out
}

// Equal is false if lengths or elements differ.
func (l *list) Equal(other ref.Val) ref.Val { return equalLists(l, other) }

func equalLists(l traits.Lister, other ref.Val) ref.Val {
	o, ok := other.(traits.Lister)
	if !ok {
		return types.False
	}
	if l.Size() != o.Size() {
		return types.False
	}
	a, b := l.Iterator(), o.Iterator()
	for a.HasNext() == types.True && b.HasNext() == types.True {
		x, y := a.Next(), b.Next()
		if types.IsUnknown(x) || types.IsUnknown(y) {
			if known, ok := l.(*list); ok { // a list around this one would take an unknown for equal
				known.looks[known.path] = true
			}
			return types.ValOrErr(pick(x, y), "unknown")
		}
		if types.Equal(x, y) != types.True {
			return types.False
		}
	}
	return types.True
}

func pick(x, y ref.Val) ref.Val {
	if types.IsUnknown(x) {
		return x
	}
	return y
}

// ConvertToNative gives what is known.
func (l *list) ConvertToNative(t reflect.Type) (any, error) {
	if l.more() {
		l.looks[l.path] = true
	}
	return types.NewDynamicList(types.DefaultTypeAdapter, l.items).ConvertToNative(t)
}

// ConvertToType knows no other type.
func (l *list) ConvertToType(t ref.Type) ref.Val { return listToType(l, t) }

func listToType(l ref.Val, t ref.Type) ref.Val {
	switch t {
	case types.ListType:
		return l
	case types.TypeType:
		return types.ListType
	}
	return types.NewErr("type conversion error from list to %s", t)
}

// Type is a list's.
func (l *list) Type() ref.Type { return types.ListType }

// Value gives what is known.
func (l *list) Value() any {
	if l.more() {
		l.looks[l.path] = true
	}
	return l.items
}

// joined is one list after another.
type joined struct{ parts []traits.Lister }

var _ traits.Lister = (*joined)(nil)

// Size is the sum.
func (j *joined) Size() ref.Val {
	n := types.Int(0)
	for _, p := range j.parts {
		n += p.Size().(types.Int)
	}
	return n
}

// Get is by place.
func (j *joined) Get(index ref.Val) ref.Val {
	i, err := types.IndexOrError(index)
	if err != nil {
		return types.ValOrErr(index, "%v", err)
	}
	for _, p := range j.parts {
		if l, ok := p.(*list); ok && l.more() {
			return unknown(l.path)
		}
		n := int(p.Size().(types.Int))
		if i < n {
			return p.Get(types.Int(i))
		}
		i -= n
	}
	return types.NewErr("index out of bounds: %v", index)
}

// Iterator goes over all.
func (j *joined) Iterator() traits.Iterator {
	out := &iterator{}
	for _, p := range j.parts {
		for it := p.Iterator(); it.HasNext() == types.True; {
			out.items = append(out.items, it.Next())
		}
	}
	return out
}

// Contains is the operator in.
func (j *joined) Contains(v ref.Val) ref.Val {
	var unk *types.Unknown
	for _, p := range j.parts {
		switch r := p.Contains(v).(type) {
		case *types.Unknown:
			unk = types.MergeUnknowns(unk, r)
		case types.Bool:
			if r {
				return r
			}
		}
	}
	if unk != nil {
		return unk
	}
	return types.False
}

// Add joins one more.
func (j *joined) Add(other ref.Val) ref.Val {
	o, ok := other.(traits.Lister)
	if !ok {
		return types.MaybeNoSuchOverloadErr(other)
	}
	return &joined{append(append([]traits.Lister{}, j.parts...), o)}
}

// Equal is by elements.
func (j *joined) Equal(other ref.Val) ref.Val { return equalLists(j, other) }

// ConvertToNative is not needed by any of upstream's libraries.
func (j *joined) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("no conversion of a joined list to %v", t)
}

// ConvertToType knows no other type.
func (j *joined) ConvertToType(t ref.Type) ref.Val { return listToType(j, t) }

// Type is a list's.
func (j *joined) Type() ref.Type { return types.ListType }

// Value is the parts' values.
func (j *joined) Value() any {
	var out []any
	for _, p := range j.parts {
		out = append(out, p.Value())
	}
	return out
}

type iterator struct {
	items []ref.Val
	next  int
}

func (it *iterator) HasNext() ref.Val { return types.Bool(it.next < len(it.items)) }

func (it *iterator) Next() ref.Val {
	v := it.items[it.next]
	it.next++
	return v
}

func (it *iterator) ConvertToNative(t reflect.Type) (any, error) {
	return nil, fmt.Errorf("no conversion of an iterator to %v", t)
}
func (it *iterator) ConvertToType(ref.Type) ref.Val {
	return types.NewErr("no conversion of an iterator")
}
func (it *iterator) Equal(other ref.Val) ref.Val { return types.Bool(ref.Val(it) == other) }
func (it *iterator) Type() ref.Type              { return types.IteratorType }
func (it *iterator) Value() any                  { return nil }
