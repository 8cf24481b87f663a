package record

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("records are root's alone")
	}
}

func TestARecordIsFoundByRootAndID(t *testing.T) {
	needRoot(t)
	dir := filepath.Join(t.TempDir(), "run", "records")
	want := Record{Version: 1, Root: "/run/r", ID: "x", Bundle: "/b", Digest: "sha256:1", JudgedAt: time.Now().UTC().Round(0), PolicyDigest: "sha256:2"}
	if err := Write(dir, want); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(dir, "/run/r", "x"); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, other := range [][2]string{{"/run/r", "y"}, {"/run/s", "x"}, {"", "x"}} {
		if got, err := Read(dir, other[0], other[1]); err == nil {
			t.Errorf("%v: %+v", other, got)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestNoIDLeadsOutOfTheDirectory(t *testing.T) {
	for _, id := range []string{"../../x", "/etc/passwd", "a/b", "", strings.Repeat("x", 1000), "a\x00b"} {
		if name := file("/d", "/r", id); filepath.Dir(name) != "/d" || len(filepath.Base(name)) > 40 {
			t.Errorf("%q: %s", id, name)
		}
	}
}

func TestARecordThatOthersMayHaveWrittenIsNotRead(t *testing.T) {
	needRoot(t)
	for name, spoil := range map[string]func(dir, file string) error{
		"another user's":          func(_, f string) error { return os.Chown(f, 1000, 1000) },
		"writable":                func(_, f string) error { return os.Chmod(f, 0o666) },
		"in a writable directory": func(d, _ string) error { return os.Chmod(d, 0o777) },
		"a directory behind a link": func(d, _ string) error {
			if err := os.Rename(d, d+".x"); err != nil {
				return err
			}
			return os.Symlink(d+".x", d)
		},
		"no JSON":           func(_, f string) error { return os.WriteFile(f, []byte("{"), 0o600) },
		"too large":         func(_, f string) error { return os.WriteFile(f, make([]byte, maxRecord+1), 0o600) },
		"another version's": func(_, f string) error { return os.WriteFile(f, []byte(`{"version":9,"root":"r","id":"x"}`), 0o600) },
		"another's":         func(_, f string) error { return os.WriteFile(f, []byte(`{"version":1,"root":"r","id":"z"}`), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "records")
			if err := Write(dir, Record{Root: "r", ID: "x"}); err != nil {
				t.Fatal(err)
			}
			if err := spoil(dir, file(dir, "r", "x")); err != nil {
				t.Fatal(err)
			}
			if got, err := Read(dir, "r", "x"); err == nil {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestOldRecordsOfGoneBundlesAreRemovedOnceThereAreMany(t *testing.T) {
	needRoot(t)
	dir, bundle := filepath.Join(t.TempDir(), "records"), t.TempDir()
	old := time.Now().Add(-time.Hour)
	write := func(id, bundle string) {
		t.Helper()
		if err := Write(dir, Record{Root: "r", ID: id, Bundle: bundle}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range sweepAbove - 1 {
		id := fmt.Sprint("gone", i)
		write(id, "/no/such")
		if err := os.Chtimes(file(dir, "r", id), old, old); err != nil {
			t.Fatal(err)
		}
	}
	count := func() int {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	if n := count(); n != sweepAbove-1 {
		t.Fatalf("%d records", n)
	}
	write("alive", bundle)
	if err := os.Chtimes(file(dir, "r", "alive"), old, old); err != nil {
		t.Fatal(err)
	}
	write("young", "/no/such")
	sweep(dir)
	if n := count(); n != 2 {
		t.Errorf("%d records are left, want those of a bundle that exists and of one that is just made", n)
	}
}
