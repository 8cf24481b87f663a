package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxKeyInPath is how many bytes of a free key (an annotation's) a path shows.
const maxKeyInPath = 64

// InputError says what is wrong with a bundle or its config.json. Everything
// that whoever wrote the bundle can cause is an InputError; what the node's
// own faults cause (I/O, permissions) is not.
type InputError struct {
	// Line and Column are where it is, from 1, in characters; 0 if the fault
	// has no place in the text.
	Line, Column int
	// Path is the JSON path of the value ("mounts[2].source"), "" at the top.
	Path string
	// Problem says what is wrong and what would be right.
	Problem string
}

func (e *InputError) Error() string {
	switch {
	case e.Line == 0:
		return e.Problem
	case e.Path == "":
		return fmt.Sprintf("line %d, column %d: %s", e.Line, e.Column, e.Problem)
	default:
		return fmt.Sprintf("line %d, column %d: %s: %s", e.Line, e.Column, e.Path, e.Problem)
	}
}

// errorf is an error at the next token.
func (r *reader) errorf(format string, args ...any) error {
	at := int(r.dec.InputOffset())
	for at < len(r.data) && strings.IndexByte(" \t\r\n,:", r.data[at]) >= 0 {
		at++
	}
	return r.errorAt(at, format, args...)
}

func (r *reader) errorAt(at int, format string, args ...any) error {
	line, column := position(r.data, at)
	return &InputError{Line: line, Column: column, Path: pathTo(r.path), Problem: fmt.Sprintf(format, args...)}
}

// syntaxError is what keeps the decoder from reading the next token.
func (r *reader) syntaxError() error {
	_, err := r.dec.ReadToken()
	if err == nil {
		err = errors.New("a token stands where none may") // not reached: each kind that isn't handled is an error
	}
	return r.syntax(err)
}

// syntax says an error of the decoder in our words.
func (r *reader) syntax(err error) error {
	at := int(r.dec.InputOffset())
	var se *jsontext.SyntacticError
	if errors.As(err, &se) {
		at, err = int(se.ByteOffset), se.Err
		if err == jsontext.ErrDuplicateName {
			return r.errorAt(at, "duplicate key %s, of which runc takes the last and crun the first; want it once", quoteKey(se.JSONPointer.LastToken()))
		}
	}
	if at < len(r.data) && r.data[at] == 0 {
		return r.errorAt(at, "not JSON: a NUL byte; is this a binary file?")
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return r.errorAt(len(r.data), "the file ends inside the JSON object; is it truncated?")
	case !utf8.Valid(r.data):
		return r.errorAt(invalidUTF8(r.data), "not UTF-8; want JSON in UTF-8")
	default:
		return r.errorAt(at, "not JSON: %v", err)
	}
}

// invalidUTF8 is the offset of the first byte that isn't UTF-8.
func invalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		c, n := utf8.DecodeRune(data[i:])
		if c == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return len(data)
}

// position turns an offset into line and column, both from 1.
func position(data []byte, at int) (line, column int) {
	at = max(0, min(at, len(data)))
	start := bytes.LastIndexByte(data[:at], '\n') + 1
	return bytes.Count(data[:start], []byte{'\n'}) + 1, utf8.RuneCount(data[start:at]) + 1
}

// pathTo writes a JSON path: mounts[3].options[0], annotations["a/b"]. The
// last names, if any, are keys that nobody knows, and not cut.
func pathTo(path []step, last ...string) string {
	var b strings.Builder
	key := func(name string, free bool, limit int) {
		name = cut(name, limit) // first: a path is written for each of many keys below a long one
		if free && !isPlain(name) {
			b.WriteString("[" + strconv.Quote(name) + "]")
			return
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		b.WriteString(name)
	}
	for _, s := range path {
		if s.key == "" && !s.free {
			b.WriteString("[" + strconv.Itoa(s.index) + "]")
		} else {
			key(s.key, s.free, maxKeyInPath)
		}
	}
	for _, name := range last {
		key(name, true, len(name))
	}
	return b.String()
}

// isPlain reports whether a key needs no quotes in a path.
func isPlain(key string) bool {
	for i := range len(key) {
		c := key[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_') {
			return false
		}
	}
	return key != ""
}

func quoteKey(key string) string { return strconv.QuoteToASCII(cut(key, maxKeyInPath)) }

// cut shortens s to at most limit bytes and a sign that something is missing.
func cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit] + "..."
}

func kindName(k jsontext.Kind) string {
	switch k {
	case jsontext.KindNull:
		return "null"
	case jsontext.KindTrue, jsontext.KindFalse:
		return "a boolean"
	case jsontext.KindString:
		return "a string"
	case jsontext.KindNumber:
		return "a number"
	case jsontext.KindBeginObject:
		return "an object"
	case jsontext.KindBeginArray:
		return "an array"
	default:
		return "the end of an object or array"
	}
}

func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Pointer:
		return wanted(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		return "an array"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	default:
		return "a whole number"
	}
}
