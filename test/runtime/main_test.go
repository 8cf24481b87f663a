// Package runtime runs the wrapper and the hook in front of the real runc and
// crun, without an engine. It needs root.
package runtime

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nodeadmit/nodeadmit/test/engine"
)

// programs is where nodeadmit's programs were built.
var programs string

func TestMain(m *testing.M) {
	if os.Getenv("NODEADMIT_E2E") == "" || os.Geteuid() != 0 {
		fmt.Println("skipped: set NODEADMIT_E2E=1 as root to run the wrapper in front of real runtimes")
		os.Exit(0)
	}
	var dir string
	err := enter()
	if err == nil {
		dir, err = os.MkdirTemp("", "nodeadmit-runtime-")
	}
	if err == nil {
		err = engine.Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	programs = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// inside marks that we run in a mount namespace of our own.
const inside = "NODEADMIT_TEST_MOUNT_NAMESPACE"

// enter starts the tests anew in a mount namespace of their own, in which crun
// finds what it needs: it refuses a machine with both cgroup versions where
// version 2 still has a controller, so there the list of them is covered by an
// empty one. The machine stays as it is.
func enter() error {
	if os.Getenv(inside) == "" {
		unshare, err := exec.LookPath("unshare")
		if err != nil {
			return err
		}
		argv := append([]string{"unshare", "--mount", "--propagation", "private", "--"}, os.Args...)
		return syscall.Exec(unshare, argv, append(os.Environ(), inside+"=1"))
	}
	const controllers = "/sys/fs/cgroup/unified/cgroup.controllers"
	if data, err := os.ReadFile(controllers); err != nil || len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	empty, err := os.CreateTemp("", "nodeadmit-no-controllers-")
	if err != nil {
		return err
	}
	defer os.Remove(empty.Name())
	if err := syscall.Mount(empty.Name(), controllers, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("cover %s for crun: %w", controllers, err)
	}
	return empty.Close()
}

const baseline = `apiVersion: nodeadmit.dev/v1alpha1
kind: NodePolicy
metadata: {name: baseline}
spec: {preset: baseline}
`

// node is one wrapped runtime with a configuration of its own.
type node struct {
	t *testing.T
	// dir has everything; real is the runtime behind.
	dir, real, wrapper, root, bundle, log string
	id                                    string
}

// newNode wraps a runtime. settings are more lines of the configuration.
func newNode(t *testing.T, grammar, settings string) *node {
	t.Helper()
	return newNodeOf(t, "none", grammar, settings)
}

// newNodeOf wraps a runtime for an engine's bundles.
func newNodeOf(t *testing.T, engine, grammar, settings string) *node {
	t.Helper()
	real, err := exec.LookPath(grammar)
	if err != nil {
		if os.Getenv("CI") == "" {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	dir := t.TempDir()
	n := &node{
		t: t, dir: dir, real: real, wrapper: filepath.Join(dir, "runtimes", "r"), root: filepath.Join(dir, "root"),
		bundle: filepath.Join(dir, "bundle"), log: filepath.Join(dir, "log.json"),
		id: "nodeadmit-test-" + filepath.Base(filepath.Dir(dir)),
	}
	for _, d := range []string{"runtimes", "policies.d", "bundle/rootfs/bin", "bundle/rootfs/proc", "bundle/rootfs/sys", "bundle/rootfs/dev"} {
		n.must(os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	entries, err := os.ReadDir(programs)
	n.must(err)
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(programs, e.Name()))
		n.must(err)
		n.must(os.WriteFile(filepath.Join(dir, e.Name()), data, 0o755))
	}
	n.write("policies.d/baseline.yaml", baseline)
	n.write("config.yaml", fmt.Sprintf(`apiVersion: nodeadmit.dev/v1alpha1
kind: NodeConfig
policyDir: %[1]s/policies.d
stateDir: %[1]s/state
decisionLog: {path: %[1]s/decisions.jsonl}
runtimes: {r: {engine: %[4]s, grammar: %[2]s}}
%[3]s`, dir, grammar, settings, engine))
	n.must(os.Symlink("../runtime-wrapper", n.wrapper))
	n.must(os.Symlink(real, n.wrapper+".real"))
	n.must(os.Symlink(filepath.Join(dir, "config.yaml"), n.wrapper+".config"))
	busybox, err := exec.LookPath("busybox")
	n.must(err)
	data, err := os.ReadFile(busybox)
	n.must(err)
	n.write("bundle/rootfs/bin/busybox", string(data))
	n.must(os.Chmod(filepath.Join(n.bundle, "rootfs/bin/busybox"), 0o755))
	for _, applet := range []string{"sh", "ls", "id", "cat", "sleep"} {
		n.must(os.Symlink("busybox", filepath.Join(n.bundle, "rootfs/bin", applet)))
	}
	spec := exec.Command("runc", "spec")
	spec.Dir = n.bundle
	if out, err := spec.CombinedOutput(); err != nil {
		t.Fatalf("runc spec: %v: %s", err, out)
	}
	n.edit(func(c map[string]any) {
		p := c["process"].(map[string]any)
		p["terminal"] = false
		p["args"] = []string{"/bin/sh", "-c", "exit 7"}
		delete(p, "rlimits")
	})
	t.Cleanup(func() { exec.Command(real, "--root", n.root, "delete", "--force", n.id).Run() })
	return n
}

func (n *node) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) path(name string) string { return filepath.Join(n.dir, name) }

func (n *node) write(name, text string) {
	n.t.Helper()
	n.must(os.WriteFile(n.path(name), []byte(text), 0o644))
}

func (n *node) config() string { return filepath.Join(n.bundle, "config.json") }

// edit changes the bundle's config.json.
func (n *node) edit(change func(map[string]any)) {
	n.t.Helper()
	data, err := os.ReadFile(n.config())
	n.must(err)
	var c map[string]any
	n.must(json.Unmarshal(data, &c))
	change(c)
	data, err = json.Marshal(c)
	n.must(err)
	n.must(os.WriteFile(n.config(), data, 0o644))
}

// result is how a command ended.
type result struct {
	code           int
	stdout, stderr string
}

// call runs the wrapper.
func (n *node) call(args ...string) result { return n.run(n.bundle, nil, n.wrapper, args...) }

func (n *node) run(dir string, env []string, program string, args ...string) result {
	n.t.Helper()
	var stdout, stderr bytes.Buffer
	c := exec.Command(program, args...)
	c.Dir, c.Env, c.Stdout, c.Stderr = dir, env, &stdout, &stderr
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		n.t.Fatal(err)
	}
	return result{c.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// start runs the bundle to its end.
func (n *node) start(more ...string) result {
	n.t.Helper()
	args := append([]string{"--root", n.root, "--log", n.log, "--log-format", "json", "run"}, more...)
	return n.call(append(args, "--bundle", n.bundle, n.id)...)
}

// refused asserts that a start was refused for this reason, in all places that
// people read, and that the runtime knows of no container.
func (n *node) refused(r result, wants ...string) {
	n.t.Helper()
	if r.code != 1 {
		n.t.Errorf("exit code %d, want 1: %s", r.code, r.stderr)
	}
	line := strings.TrimSuffix(r.stderr, "\n")
	if !strings.HasPrefix(line, "nodeadmit: ") || strings.Contains(line, "\n") || len(line) > 800 {
		n.t.Errorf("stderr is not one line of ours: %q", r.stderr)
	}
	for _, w := range wants {
		if !strings.Contains(line, w) {
			n.t.Errorf("stderr is %q, want %q in it", line, w)
		}
	}
	if got := n.logged(); got != line {
		n.t.Errorf("the runtime's log has %q, want %q", got, line)
	}
	if out := n.run("/", nil, n.real, "--root", n.root, "state", n.id); out.code == 0 {
		n.t.Errorf("the container exists: %s", out.stdout)
	}
}

// logged returns the last error of the runtime's log, as containerd reads it.
func (n *node) logged() string {
	data, err := os.ReadFile(n.log)
	if err != nil {
		return err.Error()
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	msg := ""
	for dec.More() {
		var e struct{ Level, Msg, Time string }
		if err := dec.Decode(&e); err != nil {
			return err.Error()
		}
		if e.Level == "error" {
			msg = e.Msg
		}
	}
	return msg
}

type decision struct {
	Decision, Moment, Message string
	Notes                     []string
}

func (n *node) decisions() []decision {
	n.t.Helper()
	data, err := os.ReadFile(n.path("decisions.jsonl"))
	n.must(err)
	var out []decision
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		var d decision
		n.must(json.Unmarshal([]byte(line), &d))
		out = append(out, d)
	}
	return out
}

func (n *node) moments() string {
	var out []string
	for _, d := range n.decisions() {
		out = append(out, d.Decision+" "+d.Moment)
	}
	return strings.Join(out, ", ")
}
