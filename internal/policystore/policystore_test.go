package policystore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const good = `apiVersion: nodeadmit.dev/v1alpha1
kind: NodePolicy
metadata: {name: baseline}
spec: {preset: baseline}
`

type dirs struct {
	t              *testing.T
	policies, base string
}

func newDirs(t *testing.T) dirs {
	t.Helper()
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("want root: only root's files are trusted")
		}
		t.Skip("needs root: only root's files are trusted")
	}
	d := dirs{t, filepath.Join(t.TempDir(), "policies.d"), filepath.Join(t.TempDir(), "store")}
	if err := os.Mkdir(d.policies, 0o755); err != nil {
		t.Fatal(err)
	}
	d.put("a.yaml", good)
	return d
}

func (d dirs) put(name, text string) {
	d.t.Helper()
	if err := os.WriteFile(filepath.Join(d.policies, name), []byte(text), 0o644); err != nil {
		d.t.Fatal(err)
	}
}

func (d dirs) load() *Loaded {
	d.t.Helper()
	l, err := Load(d.policies, d.base)
	if err != nil {
		d.t.Fatal(err)
	}
	return l
}

func (d dirs) copyFile() string { return fileFor(d.policies, d.base) }

func TestTheSecondLoadReadsTheCopyOfTheFirst(t *testing.T) {
	d := newDirs(t)
	first := d.load()
	if first.Uncompiled != nil || first.Stale != nil {
		t.Fatalf("first load: %+v", first)
	}
	info, err := os.Stat(d.copyFile())
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the copy has mode %v, want 0600", info.Mode())
	}
	second := d.load()
	if second.Set.Digest != first.Set.Digest || second.Set.Policies[0].Name != "baseline" {
		t.Errorf("the second load gave %+v", second.Set)
	}
	again, err := os.Stat(d.copyFile())
	if err != nil || !os.SameFile(info, again) {
		t.Errorf("an unchanged directory was compiled again: %v", err)
	}
}

func TestAChangedDirectoryIsReadAnew(t *testing.T) {
	d := newDirs(t)
	before := d.load().Set.Digest
	d.put("a.yaml", strings.Replace(good, "baseline}", "other}", 1))
	l := d.load()
	if l.Set.Policies[0].Name != "other" || l.Set.Digest == before {
		t.Errorf("got %q with digest %s", l.Set.Policies[0].Name, l.Set.Digest)
	}
}

func TestADirectoryThatNoLongerLoadsLeavesTheLastGoodPolicyInForce(t *testing.T) {
	for name, breakIt := range map[string]func(dirs){
		"a file that is no YAML":             func(d dirs) { d.put("b.yaml", "{") },
		"an unknown control":                 func(d dirs) { d.put("a.yaml", good+"  controls: {hostPath: {}}\n") },
		"a file that others may write":       func(d dirs) { d.put("b.yaml", good); os.Chmod(filepath.Join(d.policies, "b.yaml"), 0o666) },
		"a file of another user":             func(d dirs) { d.put("b.yaml", good); os.Chown(filepath.Join(d.policies, "b.yaml"), 1000, 0) },
		"the last file deleted":              func(d dirs) { os.Remove(filepath.Join(d.policies, "a.yaml")) },
		"the directory deleted":              func(d dirs) { os.RemoveAll(d.policies) },
		"a directory that others may write":  func(d dirs) { os.Chmod(d.policies, 0o777) },
		"a name that two files use":          func(d dirs) { d.put("b.yaml", good) },
		"a directory in the place of a file": func(d dirs) { os.Mkdir(filepath.Join(d.policies, "c.yaml"), 0o755) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirs(t)
			want := d.load().Set.Digest
			breakIt(d)
			l := d.load()
			if l.Stale == nil || l.Since.IsZero() || l.Set.Digest != want {
				t.Errorf("got stale %v since %v, digest %s; want the digest %s", l.Stale, l.Since, l.Set.Digest, want)
			}
		})
	}
}

func TestACopyThatCanNotBeTrustedIsNotUsed(t *testing.T) {
	edit := func(d dirs, f func([]byte) []byte) {
		data, err := os.ReadFile(d.copyFile())
		if err != nil {
			d.t.Fatal(err)
		}
		if err := os.WriteFile(d.copyFile(), f(data), 0o600); err != nil {
			d.t.Fatal(err)
		}
	}
	for name, spoil := range map[string]func(dirs){
		"another user's":     func(d dirs) { os.Chown(d.copyFile(), 1000, 0) },
		"writable by others": func(d dirs) { os.Chmod(d.copyFile(), 0o602) },
		"in a directory that others may write": func(d dirs) {
			os.Chmod(d.base, 0o777)
		},
		"a symbolic link": func(d dirs) {
			os.Rename(d.copyFile(), d.copyFile()+".x")
			os.Symlink(d.copyFile()+".x", d.copyFile())
		},
		"of another version": func(d dirs) {
			edit(d, func(b []byte) []byte { return append([]byte("nodeadmit compiled policy v0\n"), b[len(header()):]...) })
		},
		"tampered with": func(d dirs) {
			edit(d, func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
		},
		"cut short": func(d dirs) { edit(d, func(b []byte) []byte { return b[:len(b)/2] }) },
		"empty":     func(d dirs) { edit(d, func([]byte) []byte { return nil }) },
		"gone":      func(d dirs) { os.Remove(d.copyFile()) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDirs(t)
			d.load()
			spoil(d)
			if l := d.load(); l.Stale != nil || l.Set.Policies[0].Name != "baseline" {
				t.Errorf("with a good directory: %+v", l)
			}
			d = newDirs(t)
			d.load()
			spoil(d)
			d.put("a.yaml", "{")
			if l, err := Load(d.policies, d.base); err == nil {
				t.Errorf("it was used: %+v", l)
			}
		})
	}
}

func TestAStoreThatCanNotBeWrittenChangesNoDecision(t *testing.T) {
	d := newDirs(t)
	if err := os.WriteFile(d.base, nil, 0o600); err != nil { // a file in the directory's place
		t.Fatal(err)
	}
	if l := d.load(); l.Uncompiled == nil || l.Set.Policies[0].Name != "baseline" {
		t.Errorf("%+v", l)
	}
}

func TestNoPolicyAndNoCopyIsAnError(t *testing.T) {
	d := newDirs(t)
	os.Remove(filepath.Join(d.policies, "a.yaml"))
	if l, err := Load(d.policies, d.base); err == nil || !strings.Contains(err.Error(), "holds no policy") {
		t.Errorf("%+v, %v", l, err)
	}
}

func BenchmarkLoad(b *testing.B) {
	base := b.TempDir()
	policies := filepath.Join(base, "policies.d")
	os.Mkdir(policies, 0o755)
	os.WriteFile(filepath.Join(policies, "a.yaml"), []byte(good), 0o644)
	for b.Loop() {
		if _, err := Load(policies, filepath.Join(base, "store")); err != nil {
			b.Fatal(err)
		}
	}
}
