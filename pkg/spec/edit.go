package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// AddHook returns a copy of the config.json raw with the hook added as the
// last of hooks.<stage>, "createRuntime" or "prestart". Every other byte stays
// as it is, so that unknown keys and the engine's own layout survive. raw is
// one that [Parse] took: AddHook looks for no more faults than it stumbles on.
func AddHook(raw []byte, stage string, hook specs.Hook) ([]byte, error) {
	out, err := addHook(raw, stage, hook)
	if err != nil {
		return nil, fmt.Errorf("add %s hook: %w", stage, err)
	}
	return out, nil
}

func addHook(raw []byte, stage string, hook specs.Hook) ([]byte, error) {
	if stage != "createRuntime" && stage != "prestart" {
		return nil, errors.New("unknown stage: want createRuntime or prestart")
	}
	text, err := hookJSON(hook)
	if err != nil {
		return nil, err
	}
	// From the outside in: where the next level is missing, write all the rest.
	list := "[" + text + "]"
	key, value := "hooks", `{"`+stage+`":`+list+`}`
	at, old, err := span{0, len(raw)}.slot(raw, key)
	if err == nil && old.is(raw, '{') {
		key, value = stage, list
		at, old, err = old.slot(raw, key)
	}
	var insert string
	switch {
	case err != nil:
		return nil, err
	case old == span{}:
		insert, old = `"`+key+`":`+value, at
		if raw[at.start-1] != '{' {
			insert = "," + insert
		}
	case old.is(raw, 'n'): // null gives way
		insert = value
	case key == stage && old.is(raw, '['):
		inside := bytes.TrimRight(raw[old.start:old.end-1], " \t\r\n")
		insert = text
		if len(inside) > len("[") {
			insert = "," + insert
		}
		old = span{old.start + len(inside), old.start + len(inside)}
	default:
		return nil, fmt.Errorf("%s is neither what it should be nor null", key)
	}
	if size := len(raw) + len(insert); size > MaxConfigSize {
		return nil, tooLarge(int64(size))
	}
	out := make([]byte, 0, len(raw)+len(insert))
	out = append(out, raw[:old.start]...)
	out = append(out, insert...)
	return append(out, raw[old.end:]...), nil
}

// span is where a value lies in a document. The zero span is no value.
type span struct{ start, end int }

func (s span) is(raw []byte, first byte) bool { return s.end > s.start && raw[s.start] == first }

// slot looks in the object s for a key. at is where another member can be
// written: after the last one, or after the brace. value is zero if there is none.
func (s span) slot(raw []byte, key string) (at, value span, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(raw[s.start:s.end]))
	here := func() int { return s.start + int(dec.InputOffset()) }
	if dec.PeekKind() != jsontext.KindBeginObject {
		return span{}, span{}, errors.New("not a JSON object")
	}
	if _, err := dec.ReadToken(); err != nil {
		return span{}, span{}, err
	}
	end := here()
	for dec.PeekKind() == jsontext.KindString {
		name, err := dec.ReadToken()
		if err != nil {
			return span{}, span{}, err
		}
		known := name.String()
		if known != key && strings.EqualFold(known, key) {
			return span{}, span{}, fmt.Errorf("key %s differs from %q only in case", quoteKey(known), key)
		}
		v, err := dec.ReadValue()
		if err != nil {
			return span{}, span{}, err
		}
		end = here()
		if known == key {
			value = span{end - len(v), end}
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return span{}, span{}, err
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return span{}, span{}, errors.New("something follows the JSON object")
	}
	return span{end, end}, value, nil
}

// hookJSON writes a hook as JSON, by hand: encoding/json takes a millisecond to
// get ready in a new process.
func hookJSON(h specs.Hook) (string, error) {
	if !filepath.IsAbs(h.Path) {
		return "", fmt.Errorf("path %q is not absolute", h.Path)
	}
	b := []byte(`{"path":`)
	var err error
	quote := func(s string) {
		if strings.IndexByte(s, 0) >= 0 {
			err = fmt.Errorf("%q has a NUL character", s)
		}
		var qerr error
		if b, qerr = jsontext.AppendQuote(b, s); qerr != nil {
			err = fmt.Errorf("%q: %w", s, qerr)
		}
	}
	list := func(key string, values []string) {
		if values == nil {
			return
		}
		b = append(b, `,"`+key+`":[`...)
		for i, s := range values {
			if i > 0 {
				b = append(b, ',')
			}
			quote(s)
		}
		b = append(b, ']')
	}
	quote(h.Path)
	list("args", h.Args)
	list("env", h.Env)
	if h.Timeout != nil {
		if int(int32(*h.Timeout)) != *h.Timeout {
			return "", fmt.Errorf("timeout %d does not fit 32 bits", *h.Timeout)
		}
		b = strconv.AppendInt(append(b, `,"timeout":`...), int64(*h.Timeout), 10)
	}
	return string(append(b, '}')), err
}

// ReplaceConfig puts raw in the place of the config.json of the bundle in dir:
// whoever opens it sees the old file or the new one, whole. Owner and mode stay
// those of the old file, which must be a regular one. Nothing is synced to the
// disk: a bundle doesn't outlive a crash of the node. On failure the old file
// is left as it was, and nothing beside it.
func ReplaceConfig(dir string, raw []byte) error {
	if err := replaceConfig(dir, raw); err != nil {
		return fmt.Errorf("replace %q: %w", filepath.Join(dir, ConfigName), err)
	}
	return nil
}

func replaceConfig(dir string, raw []byte) error {
	dirfd, err := openBundle(dir)
	if err != nil {
		return err
	}
	defer unix.Close(dirfd)
	var old unix.Stat_t
	if err := unix.Fstatat(dirfd, ConfigName, &old, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if err := mustBeRegular(&old); err != nil {
		return err
	}
	// Unique is enough, since the file must be new: crypto/rand would cost more
	// than all the rest.
	temp := "." + ConfigName + ".nodeadmit-" + strconv.Itoa(unix.Getpid()) + "-" + strconv.FormatInt(time.Now().UnixNano(), 36)
	if err := writeTemp(dirfd, temp, raw, &old); err != nil {
		return err
	}
	if err := unix.Renameat(dirfd, temp, dirfd, ConfigName); err != nil {
		_ = unix.Unlinkat(dirfd, temp, 0)
		return fmt.Errorf("rename: %w", err)
	}
	return nil
}

// writeTemp writes a new file with the owner and mode of old, or none.
func writeTemp(dirfd int, name string, raw []byte, old *unix.Stat_t) (err error) {
	fd, err := openat(dirfd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("create temporary file: %w", err)
	}
	defer func() {
		if cerr := unix.Close(fd); err == nil && cerr != nil {
			err = fmt.Errorf("close temporary file: %w", cerr)
		}
		if err != nil {
			_ = unix.Unlinkat(dirfd, name, 0)
		}
	}()
	if _, err := descriptor(fd).Write(raw); err != nil {
		return fmt.Errorf("temporary file: %w", err)
	}
	// The owner first: chown clears set-id bits.
	if err := unix.Fchown(fd, int(old.Uid), int(old.Gid)); err != nil {
		return fmt.Errorf("keep the owner: %w", err)
	}
	if err := unix.Fchmod(fd, old.Mode&0o7777); err != nil {
		return fmt.Errorf("keep the mode: %w", err)
	}
	return nil
}
