package install

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlTree reads a document.
func tomlTree(name string, text []byte) (map[string]any, error) {
	tree := map[string]any{}
	if err := toml.Unmarshal(text, &tree); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return tree, nil
}

// lookup returns what is at a path, or nil.
func lookup(tree map[string]any, path ...string) any {
	var at any = tree
	for _, key := range path {
		table, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = table[key]
	}
	return at
}

func lookupTable(tree map[string]any, path ...string) map[string]any {
	table, _ := lookup(tree, path...).(map[string]any)
	return table
}

func lookupString(tree map[string]any, path ...string) string {
	s, _ := lookup(tree, path...).(string)
	return s
}

// tomlSet sets one key of a table in a document's text and changes nothing else:
// an existing value is replaced where it stands; a key is added to its table's
// header; a table is added at the end. The result is read back: anything else
// that changed is an error, so what is written in a way that isn't understood
// here (an inline table) is left to a person.
func tomlSet(name string, text []byte, table []string, key string, value any) ([]byte, error) {
	want, err := tomlTree(name, text)
	if err != nil {
		return nil, err
	}
	path := append(slices.Clone(table), key)
	if reflect.DeepEqual(lookup(want, path...), value) {
		return text, nil
	}
	set(want, path, value)
	out, err := tomlSetText(text, table, key, tomlValue(value))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	got, err := tomlTree(name, out)
	if err != nil || !reflect.DeepEqual(got, want) {
		return nil, fmt.Errorf("%s: %s is written in a way that can't be edited here: set it to %s by hand", name, tomlPath(path), tomlValue(value))
	}
	return out, nil
}

func set(tree map[string]any, path []string, value any) {
	for _, key := range path[:len(path)-1] {
		next, ok := tree[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			tree[key] = next
		}
		tree = next
	}
	tree[path[len(path)-1]] = value
}

func tomlSetText(text []byte, table []string, key, value string) ([]byte, error) {
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		text = append(slices.Clone(text), '\n')
	}
	p := unstable.Parser{}
	p.Reset(text)
	path := append(slices.Clone(table), key)
	var (
		at     []string // the table that we are in
		header = -1     // where table's own header ends
		indent string
	)
	for p.NextExpression() {
		e := p.Expression()
		switch e.Kind {
		case unstable.Table, unstable.ArrayTable:
			at = at[:0]
			offset := 0
			for it := e.Key(); it.Next(); {
				at = append(at, string(it.Node().Data))
				offset = int(it.Node().Raw.Offset)
			}
			if e.Kind == unstable.Table && slices.Equal(at, table) {
				header = lineEnd(text, offset)
				indent = leadingSpace(text, offset) + "  "
			}
		case unstable.KeyValue:
			full := slices.Clone(at)
			for it := e.Key(); it.Next(); {
				full = append(full, string(it.Node().Data))
			}
			if header >= 0 && slices.Equal(at, table) {
				indent = leadingSpace(text, int(e.Raw.Offset))
			}
			if slices.Equal(full, path) {
				start, end := int(e.Raw.Offset), int(e.Raw.Offset+e.Raw.Length)
				raw := bytes.TrimRight(text[start:end], " \t\r\n")
				eq := valueStart(raw)
				if eq < 0 {
					return nil, fmt.Errorf("no value at %s", tomlPath(path))
				}
				return splice(text, start+eq, start+len(raw), value), nil
			}
		}
	}
	if err := p.Error(); err != nil {
		return nil, err
	}
	if header >= 0 {
		return splice(text, header, header, indent+key+" = "+value+"\n"), nil
	}
	var out bytes.Buffer
	out.Write(text)
	if len(table) == 0 {
		return splice(text, 0, 0, key+" = "+value+"\n"), nil
	}
	if len(text) > 0 {
		out.WriteByte('\n')
	}
	fmt.Fprintf(&out, "[%s]\n  %s = %s\n", tomlPath(table), key, value)
	return out.Bytes(), nil
}

// valueStart is where the value begins in the text of a key and its value.
func valueStart(raw []byte) int {
	quote := byte(0)
	for i, c := range raw {
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '=':
			i++
			for i < len(raw) && (raw[i] == ' ' || raw[i] == '\t') {
				i++
			}
			return i
		}
	}
	return -1
}

func splice(text []byte, from, to int, with string) []byte {
	out := make([]byte, 0, len(text)+len(with))
	out = append(out, text[:from]...)
	out = append(out, with...)
	return append(out, text[to:]...)
}

// lineEnd is the offset behind the line that offset is in.
func lineEnd(text []byte, offset int) int {
	if i := bytes.IndexByte(text[offset:], '\n'); i >= 0 {
		return offset + i + 1
	}
	return len(text)
}

func leadingSpace(text []byte, offset int) string {
	line := text[bytes.LastIndexByte(text[:offset], '\n')+1 : offset]
	return string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
}

// tomlPath writes a dotted key, quoted where it must be.
func tomlPath(path []string) string {
	words := make([]string, len(path))
	for i, w := range path {
		bare := w != "" && strings.Trim(w, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-") == ""
		if words[i] = w; !bare {
			words[i] = tomlString(w)
		}
	}
	return strings.Join(words, ".")
}

// tomlString writes a basic string.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c < ' ' || c == 0x7f:
			fmt.Fprintf(&b, "\\u%04X", c)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// tomlValue writes a value as TOML.
func tomlValue(v any) string {
	switch v := v.(type) {
	case string:
		return tomlString(v)
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = tomlValue(item)
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		var items []string
		for _, k := range slices.Sorted(maps.Keys(v)) {
			items = append(items, tomlPath([]string{k})+" = "+tomlValue(v[k]))
		}
		return "{" + strings.Join(items, ", ") + "}"
	default:
		return fmt.Sprint(v)
	}
}
