package install

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodeadmit/nodeadmit/test/engine"
)

// On a real podman, in a mount namespace with an /etc of its own: the runtimes
// that it knows by name are wrapped, and it injects the hook from the directory
// that only it is told of.
func TestPodman(t *testing.T) {
	needEngines(t)
	if _, err := exec.LookPath("podman"); err != nil {
		t.Skip("no podman")
	}
	base, err := engine.NewBase()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		// podman's clean-up after a container may still be at work.
		for try := range 50 {
			if err = os.RemoveAll(base); err == nil {
				return
			}
			time.Sleep(time.Duration(try) * 5 * time.Millisecond)
		}
		t.Error(err)
	}()
	n := newNode(t, base+"/nodeadmit")
	for from, to := range map[string]string{
		"../../hooks.d/00-nodeadmit-podman.json": "/share/hooks.d/00-nodeadmit-podman.json",
		"/bin/busybox":                           "/../rootfs/bin/sh",
	} {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		to = filepath.Join(n.base, to)
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, data, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.Command("unshare", "--mount", "--propagation", "private", "/bin/sh", "-eu", "testdata/podman.sh", base)
	out, err := c.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(out), "== ")[1:] {
		name, text, _ := strings.Cut(s, "\n")
		sections[name] = text
	}
	for name, want := range map[string]string{
		"install":   "podman: runc -> ",
		"allowed":   "hello\n",
		"refused":   "runc: nodeadmit: container outside Kubernetes: privileged: ",
		"hook":      "error running hook: exit status 22", // hostPID: docs/exit-codes.md
		"doctor":    "proof: podman runc: a bundle that may run is made and deleted",
		"uninstall": "removed /etc/containers/containers.conf.d/zz-nodeadmit.conf",
		"left":      "end\n",
	} {
		if !strings.Contains(sections[name], want) {
			t.Errorf("%s: got %q, want %q in it", name, sections[name], want)
		}
	}
	if got := sections["left"]; got != "end\n" {
		t.Errorf("uninstall left %s", got)
	}
	// Without nodeadmit it is at least not refused by it.
	if strings.Contains(sections["after"], "nodeadmit:") {
		t.Errorf("after uninstall: %s", sections["after"])
	}
}
