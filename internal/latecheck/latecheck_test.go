package latecheck

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/internal/config"
	"github.com/nodeadmit/nodeadmit/internal/judge"
	"github.com/nodeadmit/nodeadmit/internal/ociargs"
	"github.com/nodeadmit/nodeadmit/internal/record"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// hookBinary puts something where the hook should be: beside this program.
func hookBinary(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(filepath.Dir(self), "oci-hook")
	if err := os.WriteFile(name, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(name) })
	return name
}

// add judges nothing: it adds the hook to a bundle with this config.json.
func add(t *testing.T, dir string) (string, error) {
	t.Helper()
	doc, err := spec.ReadBundle(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := config.Defaults()
	c.File = "/etc/x/config.yaml"
	a := &judge.Answer{Document: doc}
	note, err := Add(c, "r", &ociargs.Command{ID: "latecheck-test", Root: "/run/r"}, a)
	if err == nil && note == "" {
		// What was recorded is what the runtime will read.
		now, rerr := spec.ReadBundle(dir)
		rec, err := record.Read(record.Dir, "/run/r", "latecheck-test")
		if rerr != nil || err != nil || rec.Digest != now.Digest || a.Document.Digest != now.Digest || rec.Bundle != dir {
			t.Errorf("record %+v of document %+v: %v %v", rec, now, rerr, err)
		}
	}
	return note, err
}

func write(t *testing.T, text string) (dir, name string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("records are root's alone")
	}
	dir = t.TempDir()
	name = filepath.Join(dir, spec.ConfigName)
	if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	return dir, name
}

func TestTheHookComesLastAndNothingElseChanges(t *testing.T) {
	path := hookBinary(t)
	const (
		head = "{\n\t\"ociVersion\": \"1.0.2\",\n  \"unknown\": {\"b\": 1e3,   \"a\": \"\\u00e4\"},\"hooks\": {\"createRuntime\": [ {\"path\": \"/other\"}"
		tail = " ], \"poststop\": []}, \"root\":{\"path\":\"rootfs\"}}\n\n"
	)
	dir, name := write(t, head+tail)
	if err := os.Chown(name, 1000, 1001); err != nil {
		t.Fatal(err)
	}
	if note, err := add(t, dir); err != nil || note != "" {
		t.Fatal(note, err)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(data, []byte(head)) || !bytes.HasSuffix(data, []byte(tail)) {
		t.Errorf("%s", data)
	}
	var s specs.Spec
	if err := json.Unmarshal(data, &s); err != nil || len(s.Hooks.CreateRuntime) != 2 {
		t.Fatalf("%v: %s", err, data)
	}
	h := s.Hooks.CreateRuntime[1]
	want := []string{"oci-hook", "--config", "/etc/x/config.yaml", "--runtime", "r", "--late", "--root", "/run/r"}
	if h.Path != path || !slices.Equal(h.Args, want) || !slices.Equal(h.Env, Env) || *h.Timeout != 10 {
		t.Errorf("%+v", h)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 1000 || st.Gid != 1001 || info.Mode().Perm() != 0o640 {
		t.Errorf("uid %d, gid %d, mode %v", st.Uid, st.Gid, info.Mode())
	}
	if note, err := add(t, dir); err != nil || note != "" {
		t.Fatal(note, err)
	}
	if again, _ := os.ReadFile(name); !bytes.Equal(again, data) {
		t.Errorf("the second time: %s", again)
	}
}

// A hook that only looks like ours, or isn't the last, doesn't count.
func TestWhatIsNotOurHook(t *testing.T) {
	path := hookBinary(t)
	ours := `{"path":"` + path + `","args":["oci-hook","--config","/etc/x/config.yaml","--runtime","r","--late","--root","/run/r"],"env":["` + Env[0] + `"],"timeout":10}`
	for name, hooks := range map[string]string{
		"another program":       strings.Replace(ours, path, "/x/oci-hook", 1),
		"another configuration": strings.Replace(ours, "/etc/x", "/etc/y", 1),
		"another environment":   strings.Replace(ours, "PATH=", "GODEBUG=", 1),
		"another time-out":      strings.Replace(ours, `"timeout":10`, `"timeout":1`, 1),
		"no time-out":           strings.Replace(ours, `,"timeout":10`, "", 1),
		"not the last":          ours + `,{"path":"/other"}`,
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := write(t, `{"ociVersion":"1.0.2","hooks":{"createRuntime":[`+hooks+`]}}`)
			if note, err := add(t, dir); err != nil || note != "" {
				t.Fatal(note, err)
			}
			doc, err := spec.ReadBundle(dir)
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.Count(hooks, `"path"`) + 1; len(doc.Spec.Hooks.CreateRuntime) != want {
				t.Errorf("%d hooks, want %d", len(doc.Spec.Hooks.CreateRuntime), want)
			}
		})
	}
	dir, name := write(t, `{"ociVersion":"1.0.2","hooks":{"createRuntime":[`+ours+`]}}`)
	before, _ := os.ReadFile(name)
	if note, err := add(t, dir); err != nil || note != "" {
		t.Fatal(note, err)
	}
	if after, _ := os.ReadFile(name); !bytes.Equal(before, after) {
		t.Errorf("our own: %s", after)
	}
}

func TestAHookThatIsMissingIsAnError(t *testing.T) {
	dir, _ := write(t, `{"ociVersion":"1.0.2"}`)
	if note, err := add(t, dir); err == nil || !strings.Contains(err.Error(), "oci-hook is missing") || !strings.Contains(err.Error(), "lateCheck: false") {
		t.Error(note, err)
	}
}

func TestABundleThatCanNotBeRewrittenIsLeftAsItIs(t *testing.T) {
	hookBinary(t)
	const text = `{"ociVersion":"1.0.2"}`
	dir, name := write(t, text)
	doc, err := spec.ReadBundle(dir)
	if err != nil {
		t.Fatal(err)
	}
	// Turned into a link between our look and our write.
	if err := os.Rename(name, name+".x"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(name+".x", name); err != nil {
		t.Fatal(err)
	}
	if _, err := Add(config.Defaults(), "r", &ociargs.Command{ID: "x"}, &judge.Answer{Document: doc}); err == nil {
		t.Error("a link was written over")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 2 {
		t.Errorf("left behind: %v", entries)
	}
	if data, _ := os.ReadFile(name); string(data) != text {
		t.Errorf("%s", data)
	}
}

func TestAConfigurationOutsideTheBundleIsToldOf(t *testing.T) {
	note, err := Add(config.Defaults(), "r", &ociargs.Command{Config: "/x/other.json"}, &judge.Answer{Document: &spec.Document{}})
	if err != nil || !strings.Contains(note, "no late check") {
		t.Error(note, err)
	}
}
