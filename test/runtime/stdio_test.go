package runtime

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func (n *node) program(args ...string) {
	n.t.Helper()
	n.edit(func(c map[string]any) { c["process"].(map[string]any)["args"] = args })
}

func TestTheContainersExitCodeIsTheWrappers(t *testing.T) {
	bothRuntimes(t, func(t *testing.T, grammar string) {
		n := newNode(t, grammar, "")
		for script, want := range map[string]int{"exit 0": 0, "exit 3": 3, "exit 137": 137} {
			n.program("/bin/sh", "-c", script)
			bare := n.run(n.bundle, nil, n.real, "--root", n.root, "run", "--bundle", n.bundle, n.id)
			if r := n.start(); r.code != bare.code || r.code != want {
				t.Errorf("%s: exit code %d, and %d with the bare runtime: %s", script, r.code, bare.code, r.stderr)
			}
		}
	})
}

func TestStdinAndPreservedDescriptorsPass(t *testing.T) {
	bothRuntimes(t, func(t *testing.T, grammar string) {
		n := newNode(t, grammar, "")
		n.program("/bin/sh", "-c", "cat; cat <&3; ls /proc/self/fd")
		run := func(program string) string {
			r, w, err := os.Pipe()
			n.must(err)
			defer r.Close()
			_, err = io.WriteString(w, "by descriptor\n")
			n.must(err)
			n.must(w.Close())
			c := exec.Command(program, "--root", n.root, "run", "--preserve-fds", "1", "--bundle", n.bundle, n.id)
			var stdout, stderr bytes.Buffer
			c.Stdin, c.Stdout, c.Stderr, c.ExtraFiles = strings.NewReader("by stdin\n"), &stdout, &stderr, []*os.File{r}
			if err := c.Run(); err != nil {
				t.Errorf("%s: %v: %s", program, err, &stderr)
			}
			return stdout.String()
		}
		bare, wrapped := run(n.real), run(n.wrapper)
		if wrapped != bare || !strings.HasPrefix(wrapped, "by stdin\nby descriptor\n") {
			t.Errorf("%q, and %q with the bare runtime", wrapped, bare)
		}
	})
}

// The runtime fails for such a log by itself, and in its own words.
func TestAnAllowedStartWithALogThatCanNotBeMadeEndsAsTheBareRuntimes(t *testing.T) {
	bothRuntimes(t, func(t *testing.T, grammar string) {
		n := newNode(t, grammar, "")
		args := []string{"--root", n.root, "--log", n.path("no/such/dir/log.json"), "--log-format", "json", "run", "--bundle", n.bundle, n.id}
		bare, r := n.run(n.bundle, nil, n.real, args...), n.call(args...)
		if r.code != bare.code || !strings.Contains(r.stderr, "no/such/dir/log.json") {
			t.Errorf("exit code %d, %s; and %d, %s with the bare runtime", r.code, r.stderr, bare.code, bare.stderr)
		}
	})
}

func TestWhatTheRuntimeCanDoIsAskedOfItDirectly(t *testing.T) {
	n := newNode(t, "runc", "")
	n.must(os.Remove(n.path("config.yaml")))
	n.must(os.RemoveAll(n.path("policies.d")))
	for _, args := range [][]string{{"features"}, {"--version"}, {"spec", "--help"}, {"--root", n.root, "list", "-q"}, {"--root", n.root, "events", "--stats", "none"}, {"no-such-command"}} {
		bare, r := n.run("/", nil, n.real, args...), n.run("/", nil, n.wrapper, args...)
		if r != bare {
			t.Errorf("%v: %+v, and %+v with the bare runtime", args, r, bare)
		}
	}
}

func TestAPolicyDirectoryOfAnotherUserIsRefused(t *testing.T) {
	n := newNode(t, "runc", "")
	n.must(os.Chown(n.path("policies.d"), 1000, 1000))
	n.refused(n.start(), "belongs to uid 1000")
}

// Two installations in a row: the outer one's runtime is the inner one. Both
// judge, and each leaves its hook.
func TestAWrapperBehindAnother(t *testing.T) {
	outer, inner := newNode(t, "runc", ""), newNode(t, "runc", "")
	outer.write("inner", "#!/bin/sh\nexec "+inner.wrapper+" \"$@\"\n")
	outer.must(os.Chmod(outer.path("inner"), 0o755))
	outer.must(os.Remove(outer.wrapper + ".real"))
	outer.must(os.Symlink(outer.path("inner"), outer.wrapper+".real"))
	if r := outer.start(); r.code != 7 {
		t.Fatalf("exit code %d: %s", r.code, r.stderr)
	}
	if o, i := outer.moments(), inner.moments(); o != "Allow run, Allow hook" || i != "Allow run, Allow hook" {
		t.Errorf("outer %s, inner %s", o, i)
	}
	inner.write("policies.d/baseline.yaml", "nonsense")
	if r := outer.start(); r.code != 1 && r.code != 7 {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	if _, err := os.Stat(filepath.Join(outer.bundle, "config.json")); err != nil {
		t.Error(err)
	}
}
