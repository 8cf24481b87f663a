package policybundle

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

func key(seed byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, ed25519.SeedSize))
}

func public(seeds ...byte) []ed25519.PublicKey {
	var out []ed25519.PublicKey
	for _, s := range seeds {
		out = append(out, key(s).Public().(ed25519.PublicKey))
	}
	return out
}

func nodePolicy(preset string) string {
	return "apiVersion: nodeadmit.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: " + preset + "}\nspec: {preset: " + preset + "}\n"
}

// bundle makes a bundle of files, given as names and contents in turn.
func bundle(t *testing.T, version uint64, seed byte, files ...string) []byte {
	t.Helper()
	var list []policy.Source
	for i := 0; i < len(files); i += 2 {
		list = append(list, policy.Source{Name: files[i], Data: []byte(files[i+1])})
	}
	data, err := Make(policy.NewSources("p", list), version, key(seed))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func check(o policy.Origin) error {
	s, err := o.ReadSources()
	if err == nil {
		_, _, err = s.Parse()
	}
	return err
}

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root's files are used")
	}
}

func TestABundleIsReadAsItWasMade(t *testing.T) {
	data := bundle(t, 7, 1, "a.yaml", nodePolicy("baseline"), "b.json", "{}")
	if again := bundle(t, 7, 1, "a.yaml", nodePolicy("baseline"), "b.json", "{}"); !bytes.Equal(data, again) {
		t.Error("made twice it is not the same")
	}
	b, err := Read("x.bundle", data, public(2, 1))
	if err != nil {
		t.Fatal(err)
	}
	s, err := b.ReadSources()
	if err != nil || b.Version != 7 {
		t.Fatal(b.Version, err)
	}
	want := []policy.Source{{Name: "x.bundle/a.yaml", Data: []byte(nodePolicy("baseline"))}, {Name: "x.bundle/b.json", Data: []byte("{}")}}
	if diff := cmp.Diff(want, s.Files); diff != "" {
		t.Error(diff)
	}
}

// entries are a tar's.
type tarEntry struct {
	header tar.Header
	data   []byte
}

func unpack(t *testing.T, data []byte) []tarEntry {
	t.Helper()
	var out []tarEntry
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, tarEntry{*h, text})
	}
}

func pack(t *testing.T, entries []tarEntry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		if e.header.Typeflag == tar.TypeReg {
			e.header.Size = int64(len(e.data))
		}
		if err := w.WriteHeader(&e.header); err != nil {
			t.Fatal(err)
		}
		if e.header.Typeflag == tar.TypeReg {
			if _, err := w.Write(e.data); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sign makes the manifest's signature right again.
func sign(e []tarEntry, manifest string) {
	e[0].data = []byte(manifest)
	e[1].data = ed25519.Sign(key(1), append([]byte(signed), manifest...))
}

func TestABundleThatIsNotAsItWasSignedIsRefused(t *testing.T) {
	good := bundle(t, 1, 1, "a.yaml", nodePolicy("baseline"), "b.yaml", nodePolicy("restricted"))
	entry := func(name string, kind byte) tarEntry {
		return tarEntry{header: tar.Header{Name: name, Typeflag: kind, Linkname: "/etc/passwd", Mode: 0o644}}
	}
	manifest := func(from, to string) func(e []tarEntry) []tarEntry {
		return func(e []tarEntry) []tarEntry {
			text := string(e[0].data)
			if !strings.Contains(text, from) {
				panic(text)
			}
			sign(e, strings.Replace(text, from, to, 1))
			return e
		}
	}
	for name, c := range map[string]struct {
		change func(e []tarEntry) []tarEntry
		want   string
	}{
		"a file that was changed": {func(e []tarEntry) []tarEntry { e[2].data[0]++; return e }, "a.yaml: is not what was signed"},
		"a manifest that was changed": {func(e []tarEntry) []tarEntry {
			e[0].data = bytes.Replace(e[0].data, []byte("1"), []byte("2"), 1)
			return e
		}, "its signature is of none of the keys"},
		"a signature that was changed":     {func(e []tarEntry) []tarEntry { e[1].data[0]++; return e }, "its signature is of none of the keys"},
		"a short signature":                {func(e []tarEntry) []tarEntry { e[1].data = e[1].data[:10]; return e }, "its signature is of none of the keys"},
		"no signature":                     {func(e []tarEntry) []tarEntry { return slices.Delete(e, 1, 2) }, `where the file manifest.sig is expected`},
		"a signature of the bare manifest": {func(e []tarEntry) []tarEntry { e[1].data = ed25519.Sign(key(1), e[0].data); return e }, "its signature is of none of the keys"},
		"files in another order":           {func(e []tarEntry) []tarEntry { e[2], e[3] = e[3], e[2]; return e }, `has "b.yaml"`},
		"a file too few":                   {func(e []tarEntry) []tarEntry { return e[:3] }, "b.yaml is missing"},
		"a file too many":                  {func(e []tarEntry) []tarEntry { return append(e, tarEntry{e[2].header, nil}) }, "more than its manifest names"},
		"a link in place of a file":        {func(e []tarEntry) []tarEntry { e[2] = entry("a.yaml", tar.TypeSymlink); return e }, "where the file a.yaml is expected"},
		"a hard link in place of a file":   {func(e []tarEntry) []tarEntry { e[2] = entry("a.yaml", tar.TypeLink); return e }, "where the file a.yaml is expected"},
		"a device in place of a file":      {func(e []tarEntry) []tarEntry { e[2] = entry("a.yaml", tar.TypeChar); return e }, "where the file a.yaml is expected"},
		"a file outside":                   {manifest(`"a.yaml"`, `"../a.yaml"`), `file "../a.yaml": want a plain name`},
		"a hidden file":                    {manifest(`"a.yaml"`, `".a.yaml"`), `want a plain name`},
		"a file of another kind":           {manifest(`"a.yaml"`, `"a.so"`), `want a plain name`},
		"a file named twice":               {manifest(`"b.yaml"`, `"a.yaml"`), `"a.yaml" is named twice`},
		"no version":                       {manifest(`"version": 1,`, ``), "version is missing"},
		"a version below zero":             {manifest(`"version": 1`, `"version": -1`), "manifest.json: json"},
		"another kind":                     {manifest("PolicyBundle", "Other"), `kind "Other"`},
		"an unknown field":                 {manifest(`"version"`, `"x": 1, "version"`), `unknown field "x"`},
		"no files": {func(e []tarEntry) []tarEntry {
			sign(e, `{"apiVersion":"nodeadmit.dev/v1alpha1","kind":"PolicyBundle","version":1}`)
			return e
		}, "names 0 files"},
		"nothing": {func([]tarEntry) []tarEntry { return nil }, "manifest.json is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read("x", pack(t, c.change(unpack(t, good))), public(1))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	for name, data := range map[string][]byte{"no tar": []byte(strings.Repeat("x", 1024)), "half a tar": good[:1500], "too much": make([]byte, MaxSize+1)} {
		if _, err := Read("x", data, public(1)); err == nil {
			t.Errorf("%s: read", name)
		}
	}
	if _, err := Read("x", good, public(2)); err == nil {
		t.Error("of another key: read")
	}
}

// place is a policy directory and what belongs to it.
type place struct {
	t *testing.T
	Options
}

func newPlace(t *testing.T) *place {
	needRoot(t)
	base := t.TempDir()
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	return &place{t, Options{Dir: base + "/policies.d", StateDir: base + "/state", Keys: public(1), Check: check}}
}

func (p *place) write(name, text string) {
	p.t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		p.t.Fatal(err)
	}
}

// holds compares the policy directory with files, and sees that nothing else is left
// beside it.
func (p *place) holds(want map[string]string) {
	p.t.Helper()
	got := map[string]string{}
	entries, _ := os.ReadDir(p.Dir)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(p.Dir, e.Name()))
		if err != nil {
			p.t.Fatal(err)
		}
		got[e.Name()] = string(data)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Error(diff)
	}
	left, _ := filepath.Glob(filepath.Dir(p.Dir) + "/.*.new-*")
	if len(left) > 0 {
		p.t.Errorf("left: %v", left)
	}
}

func TestABundleBecomesThePolicyDirectoryAsAWhole(t *testing.T) {
	p := newPlace(t)
	one := bundle(t, 1, 1, "a.yaml", nodePolicy("baseline"), "b.yaml", nodePolicy("restricted"))
	r, err := Put("x", one, p.Options)
	if err != nil || !r.Changed || r.Version != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	p.holds(map[string]string{"a.yaml": nodePolicy("baseline"), "b.yaml": nodePolicy("restricted")})

	if r, err := Put("x", one, p.Options); err != nil || r.Changed {
		t.Errorf("once more: %+v, %v", r, err)
	}
	two := bundle(t, 2, 1, "c.yaml", nodePolicy("privileged"))
	if r, err = Put("x", two, p.Options); err != nil || !r.Changed || r.Previous != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	p.holds(map[string]string{"c.yaml": nodePolicy("privileged")})
}

func TestABundleThatIsRefusedChangesNothing(t *testing.T) {
	in := map[string]string{"a.yaml": nodePolicy("baseline")}
	for name, c := range map[string]struct {
		bundle []byte
		change func(p *place)
		want   string
	}{
		"an older one":                {bundle(t, 2, 1, "b.yaml", nodePolicy("privileged")), nil, "is version 2, and version 3 is in place"},
		"another of the same version": {bundle(t, 3, 1, "b.yaml", nodePolicy("privileged")), nil, "give it a higher version"},
		"one of another key":          {bundle(t, 4, 2, "b.yaml", nodePolicy("privileged")), nil, "signature"},
		"one that doesn't load":       {bundle(t, 4, 1, "b.yaml", nodePolicy("privileged"), "c.yaml", "kind: x\n"), nil, "x/c.yaml:1:1: "},
		"one without a policy":        {bundle(t, 4, 1, "b.yaml", "# nothing\n"), nil, "holds no policy"},
		"one that doesn't load where it is": {bundle(t, 4, 1, "b.yaml", nodePolicy("privileged")), func(p *place) {
			p.Check = func(o policy.Origin) error {
				if _, ok := o.(policy.Dir); ok {
					return errors.New("no")
				}
				return nil
			}
		}, "doesn't load where it is, the one before is back: no"},
		"a dry run":                                {bundle(t, 4, 1, "b.yaml", nodePolicy("privileged")), func(p *place) { p.DryRun = true }, ""},
		"a state that can't be read":               {bundle(t, 4, 1, "b.yaml", nodePolicy("privileged")), func(p *place) { p.write(p.StateDir+"/"+stateName, "{") }, "which version is in place can't be told"},
		"a state that others may write, older too": {bundle(t, 1, 1, "b.yaml", nodePolicy("privileged")), func(p *place) { _ = os.Chmod(p.StateDir+"/"+stateName, 0o666) }, "lets others write"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			if _, err := Put("x", bundle(t, 3, 1, "a.yaml", nodePolicy("baseline")), p.Options); err != nil {
				t.Fatal(err)
			}
			if c.change != nil {
				c.change(p)
			}
			_, err := Put("x", c.bundle, p.Options)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			p.holds(in)
			if c.change == nil {
				if s, err := readState(p.StateDir); err != nil || s.Version != 3 {
					t.Errorf("the state says %+v, %v", s, err)
				}
			}
		})
	}
}

func TestAnOlderBundleIsTakenIfTheOwnerSaysSo(t *testing.T) {
	p := newPlace(t)
	for _, v := range []uint64{3, 2} {
		p.AllowOlder = v == 2
		if _, err := Put("x", bundle(t, v, 1, "a.yaml", nodePolicy("baseline")+strings.Repeat("#", int(v))), p.Options); err != nil {
			t.Fatal(err)
		}
	}
	p.holds(map[string]string{"a.yaml": nodePolicy("baseline") + "##"})
}

func TestFilesThatNoBundleBroughtAreNeverLost(t *testing.T) {
	for name, change := range map[string]func(p *place){
		"a directory of before":     func(p *place) { p.write(p.Dir+"/own.yaml", nodePolicy("baseline")) },
		"another file than policy":  func(p *place) { p.write(p.Dir+"/README", "x") },
		"a file that was added":     func(p *place) { p.first(); p.write(p.Dir+"/own.yaml", nodePolicy("restricted")) },
		"a file that was changed":   func(p *place) { p.first(); p.write(p.Dir+"/a.yaml", nodePolicy("restricted")) },
		"a README that was added":   func(p *place) { p.first(); p.write(p.Dir+"/README", "x") },
		"a file that was taken out": func(p *place) { p.first(); os.Remove(p.Dir + "/b.yaml") },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			change(p)
			before := map[string]string{}
			entries, _ := os.ReadDir(p.Dir)
			for _, e := range entries {
				data, _ := os.ReadFile(filepath.Join(p.Dir, e.Name()))
				before[e.Name()] = string(data)
			}
			next := bundle(t, 2, 1, "c.yaml", nodePolicy("baseline"))
			if _, err := Put("x", next, p.Options); err == nil || !strings.Contains(err.Error(), "--replace") {
				t.Errorf("without --replace: %v", err)
			}
			p.holds(before)
			p.Replace = true
			r, err := Put("x", next, p.Options)
			if err != nil {
				t.Fatal(err)
			}
			p.holds(map[string]string{"c.yaml": nodePolicy("baseline")})
			p.Dir = r.Aside
			p.holds(before)
		})
	}
}

func (p *place) first() {
	p.t.Helper()
	if _, err := Put("x", bundle(p.t, 1, 1, "a.yaml", nodePolicy("baseline"), "b.yaml", "# b\n"), p.Options); err != nil {
		p.t.Fatal(err)
	}
}

// A pull that was killed between state and swap, or after it, is done again.
func TestAPullThatWasCutOffIsDoneAgain(t *testing.T) {
	p := newPlace(t)
	p.first()
	two := bundle(t, 2, 1, "c.yaml", nodePolicy("restricted"))
	b, err := Read("x", two, p.Keys)
	if err != nil {
		t.Fatal(err)
	}
	was, err := readState(p.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := b.ReadSources()
	if err := writeState(p.StateDir, state{2, b.Digest, s.Digest, was.PolicyDigest}); err != nil {
		t.Fatal(err)
	}
	if r, err := Put("x", two, p.Options); err != nil || !r.Changed {
		t.Fatalf("%+v, %v", r, err)
	}
	p.holds(map[string]string{"c.yaml": nodePolicy("restricted")})
}

func TestABundleIsFetchedOverHTTPSAlone(t *testing.T) {
	want := []byte("bundle")
	mux := http.NewServeMux()
	mux.HandleFunc("/good", func(w http.ResponseWriter, _ *http.Request) { w.Write(want) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/good", http.StatusFound) })
	mux.HandleFunc("/down", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+r.Host+"/good", http.StatusFound)
	})
	mux.HandleFunc("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
	mux.HandleFunc("/gone", http.NotFound)
	mux.HandleFunc("/flood", func(w http.ResponseWriter, _ *http.Request) {
		for {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				return
			}
		}
	})
	server := httptest.NewTLSServer(mux)
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	for path, fails := range map[string]string{
		"/good": "", "/moved": "", "/down": "want https", "/loop": "at most 5 times", "/gone": "404", "/flood": "larger than",
	} {
		got, err := Fetch(context.Background(), server.URL+path, roots)
		if fails == "" && (err != nil || !bytes.Equal(got, want)) || fails != "" && (err == nil || !strings.Contains(err.Error(), fails)) {
			t.Errorf("%s: %q, %v, want %q", path, got, err, fails)
		}
	}
	if _, err := Fetch(context.Background(), server.URL+"/good", nil); err == nil {
		t.Error("a server with a certificate of nobody: fetched")
	}
	if _, err := Fetch(context.Background(), strings.Replace(server.URL, "https", "http", 1), roots); err == nil || !strings.Contains(err.Error(), "want a file or an https URL") {
		t.Errorf("http: %v", err)
	}
}

func FuzzRead(f *testing.F) {
	data, err := Make(policy.NewSources("p", []policy.Source{{Name: "a.yaml", Data: []byte("x")}}), 1, key(1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:700])
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := Read("x", data, public(1))
		if err == nil && (b.Version != 1 || len(b.Files) != 1 || string(b.Files[0].data) != "x") {
			t.Errorf("what nobody signed is read: %+v", b)
		}
	})
}
