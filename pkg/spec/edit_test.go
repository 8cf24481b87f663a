package spec

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

func TestAddHookWritesOnlyTheHook(t *testing.T) {
	hook := specs.Hook{Path: "/h"}
	tests := []struct{ name, in, want string }{
		{"an empty document", `{}`, `{"hooks":{"createRuntime":[{"path":"/h"}]}}`},
		{"an empty document with space in it", " { \n } \n", " {\"hooks\":{\"createRuntime\":[{\"path\":\"/h\"}]} \n } \n"},
		{"no hooks", "{\n\t\"x\": 1\n}\n", "{\n\t\"x\": 1,\"hooks\":{\"createRuntime\":[{\"path\":\"/h\"}]}\n}\n"},
		{"hooks null", `{"hooks": null ,"x":1}`, `{"hooks": {"createRuntime":[{"path":"/h"}]} ,"x":1}`},
		{"hooks empty", `{"hooks":{ },"x":1}`, `{"hooks":{"createRuntime":[{"path":"/h"}] },"x":1}`},
		{"other stages only", `{"hooks":{"poststop":[{"path":"/p"}]}}`, `{"hooks":{"poststop":[{"path":"/p"}],"createRuntime":[{"path":"/h"}]}}`},
		{"the stage null", `{"hooks":{"createRuntime":null,"poststop":[]}}`, `{"hooks":{"createRuntime":[{"path":"/h"}],"poststop":[]}}`},
		{"the stage empty", `{"hooks":{"createRuntime":[ ]}}`, `{"hooks":{"createRuntime":[{"path":"/h"} ]}}`},
		{"the stage filled", "{\"hooks\":{\"createRuntime\":[\n{\"path\":\"/a\"}\n]}}", "{\"hooks\":{\"createRuntime\":[\n{\"path\":\"/a\"},{\"path\":\"/h\"}\n]}}"},
		{"keys in escapes", `{"\u0068ooks":{"\u0063reateRuntime":[]}}`, `{"\u0068ooks":{"\u0063reateRuntime":[{"path":"/h"}]}}`},
		{"hooks elsewhere", `{"annotations":{"hooks":"{}"},"x":{"hooks":{"createRuntime":[]}}}`, `{"annotations":{"hooks":"{}"},"x":{"hooks":{"createRuntime":[]}},"hooks":{"createRuntime":[{"path":"/h"}]}}`},
		{"unknown keys and odd numbers", `{"x":1e999,"hooks":{"new":1.50,"createRuntime":[{"path":"/a","new":true}]}}`, `{"x":1e999,"hooks":{"new":1.50,"createRuntime":[{"path":"/a","new":true},{"path":"/h"}]}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := AddHook([]byte(tt.in), "createRuntime", hook)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(got)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			checkHookAdded(t, []byte(tt.in), got, "createRuntime", hook)
		})
	}
}

func TestAddHookToFixtures(t *testing.T) {
	timeout := 10
	hook := specs.Hook{
		Path: "/usr/libexec/oci/hooks.d/nodeadmit", Args: []string{"nodeadmit", "--config", "/etc/a \"b\"\n\u2028é"},
		Env: []string{}, Timeout: &timeout,
	}
	for _, path := range fixtures(t) {
		for _, stage := range []string{"createRuntime", "prestart"} {
			t.Run(path+" "+stage, func(t *testing.T) {
				raw := readTestFile(t, path)
				got, err := AddHook(raw, stage, hook)
				if err != nil {
					t.Fatal(err)
				}
				checkHookAdded(t, raw, got, stage, hook)
				again, err := AddHook(got, stage, hook)
				if err != nil {
					t.Fatal(err)
				}
				checkHookAdded(t, got, again, stage, hook)
			})
		}
	}
}

// checkHookAdded checks that after is before with one more hook, byte for byte.
func checkHookAdded(t *testing.T, before, after []byte, stage string, hook specs.Hook) {
	t.Helper()
	old, err := Parse(before)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Parse(after)
	if err != nil {
		t.Fatalf("%v in %s", err, after)
	}
	want := old.Spec
	if want.Hooks == nil {
		want.Hooks = &specs.Hooks{}
	}
	list := &want.Hooks.CreateRuntime
	if stage == "prestart" {
		list = &want.Hooks.Prestart
	}
	*list = append(*list, hook)
	if !reflect.DeepEqual(want, doc.Spec) {
		t.Errorf("spec (-want +got):\n%s", cmp.Diff(want, doc.Spec))
	}
	if diff := cmp.Diff(old.UnknownKeys, doc.UnknownKeys); diff != "" {
		t.Errorf("unknown keys (-before +after):\n%s", diff)
	}
	// What stands before and after the insertion is what stood there, but for a null that gave way.
	head := 0
	for head < len(before) && before[head] == after[head] {
		head++
	}
	tail := 0
	for tail < len(before)-head && before[len(before)-1-tail] == after[len(after)-1-tail] {
		tail++
	}
	if gone := string(before[head : len(before)-tail]); gone != "" && gone != "null" {
		t.Errorf("%q is gone", gone)
	}
}

func TestAddHookRefuses(t *testing.T) {
	huge := 1 << 40
	tests := []struct {
		name, raw, stage string
		hook             specs.Hook
		want             string
	}{
		{"another stage", `{}`, "poststop", specs.Hook{Path: "/h"}, "add poststop hook: unknown stage: want createRuntime or prestart"},
		{"a relative path", `{}`, "prestart", specs.Hook{Path: "h"}, `add prestart hook: path "h" is not absolute`},
		{"a NUL in an argument", `{}`, "prestart", specs.Hook{Path: "/h", Args: []string{"a\x00"}}, `add prestart hook: "a\x00" has a NUL character`},
		{"a timeout beyond a C int", `{}`, "prestart", specs.Hook{Path: "/h", Timeout: &huge}, "add prestart hook: timeout 1099511627776 does not fit 32 bits"},
		{"hooks that are an array", `{"hooks":[]}`, "prestart", specs.Hook{Path: "/h"}, "add prestart hook: hooks is neither what it should be nor null"},
		{"a stage that is an object", `{"hooks":{"prestart":{}}}`, "prestart", specs.Hook{Path: "/h"}, "add prestart hook: prestart is neither what it should be nor null"},
		{"hooks in another case", `{"Hooks":{}}`, "prestart", specs.Hook{Path: "/h"}, `add prestart hook: key "Hooks" differs from "hooks" only in case`},
		{"an array", `[]`, "prestart", specs.Hook{Path: "/h"}, "add prestart hook: not a JSON object"},
		{"a second document", `{}{}`, "prestart", specs.Hook{Path: "/h"}, "add prestart hook: something follows the JSON object"},
		{"a document that is full", `{}` + strings.Repeat(" ", MaxConfigSize-2), "prestart", specs.Hook{Path: "/h"}, "add prestart hook: 16777252 bytes are too large: the limit is 16777216 (16 MiB)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := AddHook([]byte(tt.raw), tt.stage, tt.hook)
			if err == nil || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
	t.Run("text that is no JSON", func(t *testing.T) {
		for _, raw := range []string{``, `{`, `{"a"`, `{"a":}`, `{"hooks":{"prestart":[}}`, `{"a":1,"a":2}`} {
			if out, err := AddHook([]byte(raw), "prestart", specs.Hook{Path: "/h"}); err == nil {
				t.Errorf("%s became %s", raw, out)
			}
		}
	})
}

func TestAddHookKnowsEveryFieldOfAHook(t *testing.T) {
	var h specs.Hook
	fill(reflect.ValueOf(&h).Elem())
	h.Path = "/h"
	out, err := AddHook([]byte(`{}`), "prestart", h)
	if err != nil {
		t.Fatal(err)
	}
	checkHookAdded(t, []byte(`{}`), out, "prestart", h)
}

// FuzzAddHook: in whatever Parse accepts a hook can be added, and only that changes.
func FuzzAddHook(f *testing.F) {
	for _, path := range fixtures(f) {
		f.Add(readTestFile(f, path), "/h", "arg")
	}
	for _, tt := range accepted {
		f.Add([]byte(tt.in), "/h", "")
	}
	f.Add([]byte(`{"hooks": null}`), "/h", "\u2028")
	f.Add([]byte(`{"hooks":{"prestart":[ {"path":"/a"} ]}}`), "/", "")
	f.Fuzz(func(t *testing.T, raw []byte, path, arg string) {
		if _, err := Parse(raw); err != nil {
			return
		}
		hook := specs.Hook{Path: "/" + path, Args: []string{arg}}
		for _, stage := range []string{"createRuntime", "prestart"} {
			got, err := AddHook(raw, stage, hook)
			if err != nil {
				if _, herr := hookJSON(hook); herr == nil {
					t.Fatal(err)
				}
				return
			}
			checkHookAdded(t, raw, got, stage, hook)
		}
	})
}

func TestReplaceConfig(t *testing.T) {
	t.Run("the file is replaced, owner and mode are kept", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "old")
		path := filepath.Join(dir, ConfigName)
		must(t, os.Chmod(path, 0o640))
		uid, gid := os.Getuid(), os.Getgid()
		if uid == 0 {
			uid, gid = 1234, 4321
			must(t, os.Chown(path, uid, gid))
		}
		must(t, ReplaceConfig(dir, []byte("new")))
		if got := string(readTestFile(t, path)); got != "new" {
			t.Errorf("config.json holds %q", got)
		}
		var st unix.Stat_t
		must(t, unix.Stat(path, &st))
		if int(st.Uid) != uid || int(st.Gid) != gid || st.Mode != unix.S_IFREG|0o640 {
			t.Errorf("owner %d:%d, mode %o", st.Uid, st.Gid, st.Mode)
		}
		onlyConfig(t, dir)
	})
	t.Run("a umask changes nothing", func(t *testing.T) {
		defer unix.Umask(unix.Umask(0o777))
		dir := t.TempDir()
		must(t, os.Chmod(dir, 0o700))
		path := filepath.Join(dir, ConfigName)
		must(t, os.WriteFile(path, nil, 0o644))
		must(t, os.Chmod(path, 0o644))
		must(t, ReplaceConfig(dir, []byte("new")))
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode() != 0o644 {
			t.Errorf("mode %o", info.Mode())
		}
	})
	t.Run("what isn't a regular file is left alone", func(t *testing.T) {
		dir := t.TempDir()
		target := filepath.Join(t.TempDir(), "target")
		must(t, os.WriteFile(target, []byte("old"), 0o600))
		must(t, os.Symlink(target, filepath.Join(dir, ConfigName)))
		var ie *InputError
		if err := ReplaceConfig(dir, []byte("new")); !errors.As(err, &ie) {
			t.Errorf("got %v", err)
		}
		if got := string(readTestFile(t, target)); got != "old" {
			t.Errorf("the target holds %q", got)
		}
		onlyConfig(t, dir)
	})
	t.Run("without a config.json there is nothing to replace", func(t *testing.T) {
		dir := t.TempDir()
		if err := ReplaceConfig(dir, []byte("new")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v", err)
		}
		if entries, _ := os.ReadDir(dir); len(entries) > 0 {
			t.Errorf("left %v", entries)
		}
	})
	t.Run("a failed write leaves the old file and nothing else", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, "old")
		limitFileSize(t, 3)
		if err := ReplaceConfig(dir, []byte("new and longer")); !errors.Is(err, unix.EFBIG) {
			t.Errorf("got %v, want EFBIG", err)
		}
		if got := string(readTestFile(t, filepath.Join(dir, ConfigName))); got != "old" {
			t.Errorf("config.json holds %q", got)
		}
		onlyConfig(t, dir)
	})
	t.Run("a reader sees one or the other, whole", func(t *testing.T) {
		dir := t.TempDir()
		a := []byte(`{"hostname":"` + strings.Repeat("a", 1<<16) + `"}`)
		b := []byte(`{"hostname":"` + strings.Repeat("b", 1<<17) + `"}`)
		write(t, dir, string(a))
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range 100 {
				next := a
				if i%2 == 0 {
					next = b
				}
				if err := ReplaceConfig(dir, next); err != nil {
					t.Error(err)
				}
			}
		})
		for range 100 {
			doc, err := ReadBundle(dir)
			if err != nil {
				t.Error(err)
			} else if string(doc.Raw) != string(a) && string(doc.Raw) != string(b) {
				t.Error("half a file")
			}
		}
		wg.Wait()
		onlyConfig(t, dir)
	})
}

// limitFileSize makes larger writes of this process fail, for one test.
func limitFileSize(t *testing.T, size uint64) {
	t.Helper()
	var old unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &old))
	must(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: old.Max}))
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_FSIZE, &old) })
}

func onlyConfig(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 1 || entries[0].Name() != ConfigName {
		t.Errorf("the bundle holds %v", entries)
	}
}
