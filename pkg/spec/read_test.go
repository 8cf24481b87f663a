package spec

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestReadBundle(t *testing.T) {
	tests := []struct {
		name  string
		setup func(t *testing.T, dir string) // dir exists and is empty
		// want is the end of the error, "" for none.
		want string
		// nodes is true for a fault of the node's own, not the bundle's.
		nodes bool
	}{
		{"a config.json is read", func(t *testing.T, dir string) { write(t, dir, `{"hostname":"x"}`) }, "", false},
		{"no config.json", func(*testing.T, string) {}, `": the directory has no config.json`, false},
		{"no such directory", func(t *testing.T, dir string) { must(t, os.Remove(dir)) }, `": no such directory`, false},
		{"a file in the directory's place", func(t *testing.T, dir string) {
			must(t, os.Remove(dir))
			must(t, os.WriteFile(dir, nil, 0o600))
		}, `": not a directory`, false},
		{"a dangling symlink in the directory's place", func(t *testing.T, dir string) {
			must(t, os.Remove(dir))
			must(t, os.Symlink("/nonexistent/bundle", dir))
		}, `": a symlink to "/nonexistent/bundle", which does not exist`, false},
		{"symlinks in a circle", func(t *testing.T, dir string) {
			must(t, os.Remove(dir))
			must(t, os.Symlink(dir, dir))
		}, `": its symlinks lead in a circle`, false},
		{"a symlink to a directory is followed", func(t *testing.T, dir string) {
			real := t.TempDir()
			write(t, real, `{"hostname":"x"}`)
			must(t, os.Remove(dir))
			must(t, os.Symlink(real, dir))
		}, "", false},
		{"config.json as a symlink", func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, "other.json"), []byte(`{}`), 0o600))
			must(t, os.Symlink("other.json", filepath.Join(dir, ConfigName)))
		}, `": config.json: is a symlink; want a regular file`, false},
		{"config.json as a dangling symlink", func(t *testing.T, dir string) {
			must(t, os.Symlink("nowhere", filepath.Join(dir, ConfigName)))
		}, `": config.json: is a symlink; want a regular file`, false},
		{"config.json as a named pipe that nobody writes", func(t *testing.T, dir string) {
			must(t, unix.Mkfifo(filepath.Join(dir, ConfigName), 0o600))
		}, `": config.json: is a named pipe; want a regular file`, false},
		{"config.json as a directory", func(t *testing.T, dir string) {
			must(t, os.Mkdir(filepath.Join(dir, ConfigName), 0o700))
		}, `": config.json: is a directory; want a regular file`, false},
		{"config.json as a socket", func(t *testing.T, dir string) {
			t.Chdir(dir) // a socket's path must be short
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			must(t, err)
			t.Cleanup(func() { unix.Close(fd) })
			must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: ConfigName}))
		}, `": config.json: is a socket; want a regular file`, false},
		{"config.json as a device", func(t *testing.T, dir string) {
			if err := unix.Mknod(filepath.Join(dir, ConfigName), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))); err != nil {
				t.Skip("can't make a device:", err)
			}
		}, `": config.json: is a device; want a regular file`, false},
		{"an empty config.json", func(t *testing.T, dir string) { write(t, dir, "") },
			`": config.json: line 1, column 1: the file is empty; want a JSON object`, false},
		{"a config.json of 50 MiB", func(t *testing.T, dir string) {
			write(t, dir, "")
			must(t, os.Truncate(filepath.Join(dir, ConfigName), 50<<20))
		}, `": config.json: 52428800 bytes are too large: the limit is 16777216 (16 MiB)`, false},
		{"a config.json as large as allowed", func(t *testing.T, dir string) {
			write(t, dir, "{}"+strings.Repeat(" ", MaxConfigSize-2))
		}, "", false},
		{"an unreadable config.json", func(t *testing.T, dir string) {
			if os.Getuid() == 0 {
				t.Skip("root reads everything")
			}
			write(t, dir, "{}")
			must(t, os.Chmod(filepath.Join(dir, ConfigName), 0))
		}, `": open config.json: permission denied`, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "bundle")
			must(t, os.Mkdir(dir, 0o700))
			tt.setup(t, dir)
			before := openFiles(t)
			doc, err := ReadBundle(dir)
			if after := openFiles(t); after != before {
				t.Errorf("%d open files became %d", before, after)
			}
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				if doc.Dir != dir {
					t.Errorf("Dir is %q, want %q", doc.Dir, dir)
				}
				return
			}
			if want := `read bundle "` + dir + tt.want; err == nil || err.Error() != want {
				t.Fatalf("got  %v\nwant %s", err, want)
			}
			var ie *InputError
			if errors.As(err, &ie) == tt.nodes {
				t.Errorf("an InputError: %v, want %v", !tt.nodes, tt.nodes)
			}
		})
	}
	t.Run("a relative directory is made absolute", func(t *testing.T) {
		dir := t.TempDir()
		write(t, dir, `{}`)
		t.Chdir(dir)
		for _, name := range []string{".", "", "../" + filepath.Base(dir) + "/"} {
			doc, err := ReadBundle(name)
			if err != nil {
				t.Fatal(err)
			}
			if doc.Dir != dir {
				t.Errorf("%q: Dir is %q, want %q", name, doc.Dir, dir)
			}
		}
	})
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, `{"hostname":"x"}`)
	config := filepath.Join(dir, ConfigName)
	link := filepath.Join(dir, "link")
	must(t, os.Symlink(ConfigName, link))
	pipe := filepath.Join(dir, "pipe")
	must(t, unix.Mkfifo(pipe, 0o600))
	big := filepath.Join(dir, "big")
	must(t, os.WriteFile(big, nil, 0o600))
	must(t, os.Truncate(big, 50<<20))

	for _, path := range []string{config, link} {
		doc, err := ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if doc.Spec.Hostname != "x" || doc.Dir != "" {
			t.Errorf("hostname %q, Dir %q", doc.Spec.Hostname, doc.Dir)
		}
	}
	for path, want := range map[string]string{
		pipe:        "is a named pipe; want a regular file",
		dir:         "is a directory; want a regular file",
		big:         "52428800 bytes are too large: the limit is 16777216 (16 MiB)",
		"/dev/null": "is a device; want a regular file",
	} {
		if _, err := ReadFile(path); err == nil || err.Error() != `read "`+path+`": `+want {
			t.Errorf("%s: got %v, want %s", path, err, want)
		}
	}
	if _, err := ReadFile(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want a file that doesn't exist", err)
	}
}

func TestRead(t *testing.T) {
	doc, err := Read(iotestOneByte{strings.NewReader(`{"hostname":"x"}`)})
	if err != nil {
		t.Fatal(err)
	}
	if doc.Spec.Hostname != "x" {
		t.Errorf("hostname %q", doc.Spec.Hostname)
	}
	t.Run("a stream without an end is read to the limit only", func(t *testing.T) {
		r := &spaces{}
		_, err := Read(r)
		if want := "read spec: more than 16777216 bytes; the limit is 16 MiB"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
		if r.read > MaxConfigSize+1 {
			t.Errorf("%d bytes read", r.read)
		}
	})
	t.Run("a stream that fails", func(t *testing.T) {
		if _, err := Read(io.MultiReader(strings.NewReader("{}"), failing{})); !errors.Is(err, errFailing) {
			t.Errorf("got %v", err)
		}
	})
}

// iotestOneByte is a reader that gives one byte at a time.
type iotestOneByte struct{ r io.Reader }

func (o iotestOneByte) Read(p []byte) (int, error) { return o.r.Read(p[:1]) }

type spaces struct{ read int }

func (s *spaces) Read(p []byte) (int, error) {
	copy(p, bytes.Repeat([]byte(" "), len(p)))
	s.read += len(p)
	return len(p), nil
}

var errFailing = errors.New("out of order")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errFailing }

func write(t *testing.T, dir, content string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, ConfigName), []byte(content), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(entries)
}
