package spec

import (
	"bytes"
	"io"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// MaxDepth is how deep objects and arrays may lie in one another. The
// runtime-spec needs 8; json-c, which newer crun may be built with, stops at 32.
const MaxDepth = 32

// Parse reads a config.json such that no runtime can read it differently.
//
// runc reads with encoding/json: it folds case, takes the last of duplicate
// keys and ignores what follows the first value. crun reads with libocispec on
// yajl (later jansson, json-c): exact case, the first of duplicate keys, strings that
// end at a NUL, values of a wrong type taken as absent, and (jansson) fractions
// cut off. Parse refuses every document on which these could differ, with an
// [*InputError]:
//
//   - what is not one JSON object in UTF-8 and nothing after it,
//   - duplicate keys, in maps too, compared after escapes are resolved,
//   - a key that matches a known key of its object only by case folding,
//   - a NUL in any key or string, and lone surrogates,
//   - a value of another type than runtime-spec's,
//   - numbers with fraction or exponent, or too large for the smallest type
//     that a runtime reads them into (Go's int and uint are C's: 32 bits),
//   - null as an element of an array or map (null for a member is the same as
//     no member, everywhere),
//   - nesting beyond [MaxDepth], and more than [MaxConfigSize] bytes.
//
// Keys that runtime-spec v1.3.0 doesn't have are no error: Document.UnknownKeys
// lists them in the order of the file. Below an unknown key nothing is listed,
// nor in the parts of other platforms (solaris, windows, vm, zos, freebsd) and
// in linux.intelRdt, whose keys came and went.
//
// The Document keeps data, which must not be changed afterwards.
func Parse(data []byte) (*Document, error) {
	if len(data) > MaxConfigSize {
		return nil, tooLarge(int64(len(data)))
	}
	r := &reader{
		data:  data,
		text:  string(data),
		dec:   jsontext.NewDecoder(bytes.NewBuffer(data)),
		types: make(map[reflect.Type][]field, 32),
	}
	spec := new(specs.Spec)
	if err := r.document(reflect.ValueOf(spec).Elem()); err != nil {
		return nil, err
	}
	return &Document{
		Spec:        spec,
		Raw:         data,
		Digest:      digestOf(data),
		UnknownKeys: r.unknown,
	}, nil
}

// reader walks a document once, checks it and fills the Go value beside it.
//
// It decodes on its own because a process is started for every container and
// reads one document: encoding/json and its successor spend several times
// more on building their decoders for all types of the runtime-spec than on
// the document itself. And it has to know the types anyway, to be as strict as it is.
type reader struct {
	data []byte
	text string // data as a string: what strings without escapes are cut from
	dec  *jsontext.Decoder
	path []step
	at   int // where the last string starts
	// quiet is above 0 in parts whose unknown keys aren't listed.
	quiet   int
	unknown []string
	types   map[reflect.Type][]field
	list    []string // room to collect strings in
}

// step is one step of a JSON path: a known key, a free key or an index.
type step struct {
	key   string
	index int // if key is ""
	free  bool
}

// field is a known key of a struct.
type field struct {
	name  string
	index []int
	quiet bool
}

func (r *reader) document(v reflect.Value) error {
	switch {
	case bytes.HasPrefix(r.data, []byte("\xef\xbb\xbf")):
		return r.errorAt(0, "the file starts with a byte order mark; want plain UTF-8 without one")
	case len(bytes.TrimLeft(r.data, " \t\r\n")) == 0:
		return r.errorAt(0, "the file is empty; want a JSON object")
	}
	switch kind := r.dec.PeekKind(); kind {
	case jsontext.KindBeginObject:
	case jsontext.KindInvalid:
		return r.syntaxError()
	default:
		return r.errorf("found %s; want a JSON object", kindName(kind))
	}
	if err := r.object(v); err != nil {
		return err
	}
	kind := r.dec.PeekKind()
	if kind != jsontext.KindInvalid && kind != jsontext.KindEndObject && kind != jsontext.KindEndArray {
		return r.errorf("a second JSON document follows the first (%s); want one", kindName(kind))
	}
	if _, err := r.dec.ReadToken(); err != io.EOF {
		return r.errorf("something follows the JSON object; want only white space after it")
	}
	return nil
}

// value reads the next value into v. An element is a value in an array or a
// map, where null is refused; for a member of a struct it is the same as none.
func (r *reader) value(v reflect.Value, element bool) error {
	kind := r.dec.PeekKind()
	if kind == jsontext.KindInvalid {
		return r.syntaxError()
	}
	for v.Kind() == reflect.Pointer && kind != jsontext.KindNull {
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	if kind == jsontext.KindNull && v.Kind() != reflect.Interface {
		if element {
			return r.errorf("found null, which runtimes read differently here; want %s", wanted(v.Type()))
		}
		_, err := r.token()
		return err
	}
	switch v.Kind() {
	case reflect.Struct:
		if kind == jsontext.KindBeginObject {
			return r.object(v)
		}
	case reflect.Map:
		if kind == jsontext.KindBeginObject {
			return r.stringMap(v)
		}
	case reflect.Slice:
		if kind == jsontext.KindBeginArray {
			return r.array(v)
		}
	case reflect.String:
		if kind == jsontext.KindString {
			s, err := r.string()
			v.SetString(s)
			return err
		}
	case reflect.Bool:
		if kind == jsontext.KindTrue || kind == jsontext.KindFalse {
			tok, err := r.token()
			v.SetBool(err == nil && tok.Bool())
			return err
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if kind == jsontext.KindNumber {
			return r.number(v)
		}
	case reflect.Interface: // windows.credentialSpec, the only one
		x, err := r.any()
		if x != nil {
			v.Set(reflect.ValueOf(x))
		}
		return err
	}
	return r.errorf("found %s; want %s", kindName(kind), wanted(v.Type()))
}

// object reads an object into a struct.
func (r *reader) object(v reflect.Value) error {
	fields := r.fields(v.Type())
	return r.members(func(name string, at int) error {
		f, err := r.known(fields, name, at)
		if err != nil {
			return err
		}
		if f == nil {
			if r.quiet == 0 {
				r.unknown = append(r.unknown, pathTo(r.path, name))
			}
			r.path = append(r.path, step{key: name, free: true})
			err = r.skip()
		} else {
			r.path = append(r.path, step{key: f.name})
			if f.quiet {
				r.quiet++
				defer func() { r.quiet-- }()
			}
			target := v
			for _, i := range f.index {
				target = target.Field(i)
			}
			err = r.value(target, false)
		}
		if err == nil {
			r.path = r.path[:len(r.path)-1]
		}
		return err
	})
}

// known returns the field of that name, or nil if there is none.
func (r *reader) known(fields []field, name string, at int) (*field, error) {
	for i := range fields {
		if fields[i].name == name {
			return &fields[i], nil
		}
	}
	for i := range fields {
		if want := fields[i].name; strings.EqualFold(want, name) {
			return nil, r.errorAt(at, "key %s differs from %q only in case, so that runc reads it and crun doesn't; want %q",
				quoteKey(name), want, want)
		}
	}
	return nil, nil
}

// stringMap reads an object into a map whose keys are free.
func (r *reader) stringMap(v reflect.Value) error {
	t := v.Type()
	v.Set(reflect.MakeMap(t))
	simple, _ := v.Interface().(map[string]string)
	return r.members(func(name string, _ int) error {
		r.path = append(r.path, step{key: name, free: true})
		if simple != nil && r.dec.PeekKind() == jsontext.KindString {
			s, err := r.string()
			if err != nil {
				return err
			}
			simple[name] = s
		} else {
			elem := reflect.New(t.Elem()).Elem()
			if err := r.value(elem, true); err != nil {
				return err
			}
			v.SetMapIndex(reflect.ValueOf(name).Convert(t.Key()), elem)
		}
		r.path = r.path[:len(r.path)-1]
		return nil
	})
}

// members reads an object and calls visit where each member's value is next.
// The offset given to visit is that of the member's name.
func (r *reader) members(visit func(name string, at int) error) error {
	if err := r.enter(); err != nil {
		return err
	}
	for {
		switch r.dec.PeekKind() {
		case jsontext.KindString:
			name, err := r.string()
			if err != nil {
				return err
			}
			if err := visit(name, r.at); err != nil {
				return err
			}
		case jsontext.KindEndObject:
			_, err := r.token()
			return err
		default:
			return r.syntaxError()
		}
	}
}

// array reads an array into a slice.
func (r *reader) array(v reflect.Value) error {
	if s, ok := v.Addr().Interface().(*[]string); ok {
		return r.strings(s)
	}
	v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	return r.elements(func(i int, _ jsontext.Kind) error {
		if i == v.Cap() {
			v.Grow(max(4, i))
		}
		v.SetLen(i + 1)
		return r.value(v.Index(i), true)
	})
}

// strings does for []string what array does: most of a document is that.
func (r *reader) strings(to *[]string) error {
	r.list = r.list[:0]
	err := r.elements(func(_ int, kind jsontext.Kind) error {
		if kind != jsontext.KindString {
			var s string
			return r.value(reflect.ValueOf(&s).Elem(), true)
		}
		s, err := r.string()
		r.list = append(r.list, s)
		return err
	})
	*to = append(make([]string, 0, len(r.list)), r.list...)
	return err
}

// elements reads an array and calls visit where each element is next.
func (r *reader) elements(visit func(i int, kind jsontext.Kind) error) error {
	if err := r.enter(); err != nil {
		return err
	}
	depth := len(r.path)
	r.path = append(r.path, step{})
	for i := 0; ; i++ {
		kind := r.dec.PeekKind()
		switch kind {
		case jsontext.KindInvalid:
			return r.syntaxError()
		case jsontext.KindEndArray:
			r.path = r.path[:depth]
			_, err := r.token()
			return err
		}
		r.path[depth].index = i
		if err := visit(i, kind); err != nil {
			return err
		}
	}
}

// enter reads the start of an object or array.
func (r *reader) enter() error {
	if r.dec.StackDepth() >= MaxDepth {
		return r.errorf("objects and arrays are nested more than %d deep", MaxDepth)
	}
	_, err := r.token()
	return err
}

// token reads the next token.
func (r *reader) token() (jsontext.Token, error) {
	tok, err := r.dec.ReadToken()
	if err != nil {
		err = r.syntax(err)
	}
	return tok, err
}

// skip reads a value that nobody knows, and checks what can be checked in it.
func (r *reader) skip() error {
	switch r.dec.PeekKind() {
	case jsontext.KindBeginObject:
		return r.members(func(name string, _ int) error {
			r.path = append(r.path, step{key: name, free: true})
			err := r.skip()
			if err == nil {
				r.path = r.path[:len(r.path)-1]
			}
			return err
		})
	case jsontext.KindBeginArray:
		return r.elements(func(int, jsontext.Kind) error { return r.skip() })
	case jsontext.KindString:
		_, err := r.string()
		return err
	default:
		_, err := r.token()
		return err
	}
}

// any reads a value as encoding/json does for an empty interface.
func (r *reader) any() (any, error) {
	switch r.dec.PeekKind() {
	case jsontext.KindBeginObject:
		m := make(map[string]any)
		return m, r.members(func(name string, _ int) (err error) {
			r.path = append(r.path, step{key: name, free: true})
			if m[name], err = r.any(); err == nil {
				r.path = r.path[:len(r.path)-1]
			}
			return err
		})
	case jsontext.KindBeginArray:
		s := make([]any, 0)
		err := r.elements(func(int, jsontext.Kind) error {
			x, err := r.any()
			s = append(s, x)
			return err
		})
		return s, err
	case jsontext.KindString:
		return r.string()
	case jsontext.KindNumber:
		raw, err := r.dec.ReadValue()
		if err != nil {
			return nil, r.syntax(err)
		}
		f, err := strconv.ParseFloat(string(raw), 64)
		if err != nil {
			return nil, r.errorAt(int(r.dec.InputOffset())-len(raw), "the number does not fit; want at most 64 bits of floating point")
		}
		return f, nil
	default:
		tok, err := r.token()
		if err != nil || tok.Kind() == jsontext.KindNull {
			return nil, err
		}
		return tok.Bool(), nil
	}
}

// string reads a string, which is next.
func (r *reader) string() (string, error) {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return "", r.syntax(err)
	}
	end := int(r.dec.InputOffset())
	start := end - len(raw)
	r.at = start
	if bytes.IndexByte(raw, '\\') < 0 {
		return r.text[start+1 : end-1], nil // has no NUL: control characters must be escaped
	}
	b, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return "", r.errorAt(start, "not a JSON string: %v", err)
	}
	if bytes.IndexByte(b, 0) >= 0 {
		return "", r.errorAt(start, "a NUL character (\\u0000), at which crun ends a string and runc doesn't; want none")
	}
	return string(b), nil
}

// number reads a number, which is next, into an integer.
func (r *reader) number(v reflect.Value) error {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return r.syntax(err)
	}
	text := string(raw)
	bits := v.Type().Bits()
	if k := v.Kind(); k == reflect.Int || k == reflect.Uint {
		bits = 32
	}
	if v.CanInt() {
		var n int64
		if n, err = strconv.ParseInt(text, 10, bits); err == nil {
			v.SetInt(n)
			return nil
		}
	} else {
		var n uint64
		if n, err = strconv.ParseUint(text, 10, bits); err == nil {
			v.SetUint(n)
			return nil
		}
	}
	at := int(r.dec.InputOffset()) - len(raw)
	if strings.ContainsAny(text, ".eE") {
		return r.errorAt(at, "found the number %s; want a whole number, written with digits only", cut(text, 32))
	}
	lowest, highest := "0", strconv.FormatUint(1<<bits-1, 10)
	if v.CanInt() {
		lowest, highest = strconv.FormatInt(-1<<(bits-1), 10), strconv.FormatInt(1<<(bits-1)-1, 10)
	}
	return r.errorAt(at, "the number %s does not fit; want %s to %s", cut(text, 32), lowest, highest)
}

// fields are the known keys of a struct type, those of embedded structs included.
func (r *reader) fields(t reflect.Type) []field {
	if fields, ok := r.types[t]; ok {
		return fields
	}
	fields := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			for _, inner := range r.fields(f.Type) {
				inner.index = append([]int{i}, inner.index...)
				fields = append(fields, inner)
			}
			continue
		}
		if name == "" {
			name = f.Name
		}
		fields = append(fields, field{name: name, index: f.Index, quiet: isQuiet(f.Type)})
	}
	r.types[t] = fields
	return fields
}

// isQuiet reports whether unknown keys inside a type are not worth listing.
func isQuiet(t reflect.Type) bool {
	if t.Kind() != reflect.Pointer {
		return false
	}
	switch t {
	case reflect.TypeFor[*specs.Solaris](), reflect.TypeFor[*specs.Windows](), reflect.TypeFor[*specs.VM](),
		reflect.TypeFor[*specs.ZOS](), reflect.TypeFor[*specs.FreeBSD](), reflect.TypeFor[*specs.LinuxIntelRdt]():
		return true
	}
	return false
}
