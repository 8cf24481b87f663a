// Package packages builds the packages and installs, upgrades and removes them
// with dpkg and rpm in fresh roots, while containers start through the wrapper.
package packages

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// built are two versions, and the first once more.
type built struct{ first, again, second string }

var build = sync.OnceValues(func() (*built, error) {
	dir, err := os.MkdirTemp("", "nodeadmit-packages-")
	if err != nil {
		return nil, err
	}
	b := &built{dir + "/1", dir + "/1-again", dir + "/2"}
	for out, version := range map[string]string{b.first: "v0.0.1", b.again: "v0.0.1", b.second: "v0.0.2"} {
		c := exec.Command("../../packaging/packages.sh", version, out, "amd64")
		c.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1764547200")
		if text, err := c.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, text)
		}
	}
	return b, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if os.Getenv("NODEADMIT_E2E") != "" {
		if b, err := build(); err == nil {
			_ = os.RemoveAll(filepath.Dir(b.first))
		}
	}
	os.Exit(code)
}

func packages(t *testing.T) *built {
	t.Helper()
	if os.Getenv("NODEADMIT_E2E") == "" {
		t.Skip("builds packages and installs them into roots: NODEADMIT_E2E=1, as root")
	}
	b, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReproducible(t *testing.T) {
	b := packages(t)
	files, err := os.ReadDir(b.first)
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v: want a deb and an rpm", files, err)
	}
	for _, f := range files {
		one, err1 := os.ReadFile(filepath.Join(b.first, f.Name()))
		two, err2 := os.ReadFile(filepath.Join(b.again, f.Name()))
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(one, two) {
			t.Errorf("%s was built twice and is not the same", f.Name())
		}
	}
}

func TestLint(t *testing.T) {
	b := packages(t)
	root := t.TempDir()
	run(t, exec.Command("dpkg", "-x", find(t, b.first, "deb"), root))
	units := root + "/usr/lib/systemd/system"
	service := units + "/nodeadmit-evaluator.service"
	write(t, service, strings.Replace(read(t, service), "/usr/bin/nodeadmit", root+"/usr/bin/nodeadmit", 1), 0o644)
	for _, l := range [][]string{
		{"lintian", "--no-cfg", "--allow-root", "--fail-on", "error,warning", find(t, b.first, "deb")},
		{"rpmlint", "-c", "../../packaging/rpmlint.toml", find(t, b.first, "rpm")},
		{"systemd-analyze", "verify", "--man=no", units + "/nodeadmit-evaluator.service", units + "/nodeadmit-evaluator.socket"},
	} {
		// systemd-analyze ends well where it only warns, and rpmlint too.
		if out, err := exec.Command(l[0], l[1:]...).CombinedOutput(); err != nil || bytes.Contains(out, []byte(": W: ")) || l[0] == "systemd-analyze" && len(out) > 0 {
			t.Errorf("%s: %v\n%s", l[0], err, out)
		}
	}
}

func TestShellScripts(t *testing.T) {
	packages(t)
	scripts := []string{"../../.ci/run"}
	if err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".sh" {
			scripts = append(scripts, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if len(scripts) < 10 {
		t.Fatalf("only %v", scripts)
	}
	if out, err := exec.Command("shellcheck", scripts...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func find(t *testing.T, dir, ext string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*."+ext))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %v, %v: want one .%s", dir, found, err, ext)
	}
	return found[0]
}

// manager is dpkg or rpm on a root of its own.
type manager struct {
	name, ext string
	// args install or upgrade a package, or remove it.
	prepare func(t *testing.T, root string)
	put     func(root, file string) *exec.Cmd
	remove  func(root string) *exec.Cmd
	// kept are files that a removal keeps.
	kept []string
}

var managers = []manager{
	{
		name: "dpkg", ext: "deb",
		prepare: func(t *testing.T, root string) {
			for _, dir := range []string{"info", "updates", "triggers"} {
				mkdir(t, root+"/var/lib/dpkg/"+dir)
			}
			write(t, root+"/var/lib/dpkg/status", "", 0o644)
		},
		put: func(root, file string) *exec.Cmd {
			return exec.Command("dpkg", "--root", root, "-i", "--force-depends", file)
		},
		remove: func(root string) *exec.Cmd { return exec.Command("dpkg", "--root", root, "-r", "nodeadmit") },
		kept:   []string{"/etc/nodeadmit/config.yaml", "/etc/logrotate.d/nodeadmit"},
	},
	{
		name: "rpm", ext: "rpm",
		prepare: func(t *testing.T, root string) {
			if out, err := exec.Command("rpm", "--root", root, "--initdb").CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		},
		put: func(root, file string) *exec.Cmd {
			return exec.Command("rpm", "--root", root, "-U", "--oldpackage", "--nodeps", "--nosignature", file)
		},
		remove: func(root string) *exec.Cmd { return exec.Command("rpm", "--root", root, "-e", "--nodeps", "nodeadmit") },
	},
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, name, text string, mode fs.FileMode) {
	t.Helper()
	mkdir(t, filepath.Dir(name))
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

const containerdConfig = `version = 2

[plugins]
  [plugins."io.containerd.grpc.v1.cri"]
    [plugins."io.containerd.grpc.v1.cri".cni]
      bin_dir = "/usr/lib/cni"
`

// freshRoot has a shell for maintainer scripts, a runtime and an engine's
// configuration.
func freshRoot(t *testing.T, m manager) string {
	t.Helper()
	root := t.TempDir()
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	shell, err := os.ReadFile("/bin/busybox")
	if err != nil {
		t.Fatalf("busybox-static is missing: %v", err)
	}
	write(t, root+"/bin/busybox", string(shell), 0o755)
	for _, name := range []string{"sh", "touch", "rm", "rmdir"} {
		if err := os.Symlink("busybox", root+"/bin/"+name); err != nil {
			t.Fatal(err)
		}
	}
	mkdir(t, root+"/usr/bin")
	mkdir(t, root+"/tmp")
	mkdir(t, root+"/dev")
	write(t, root+"/dev/null", "", 0o666)
	write(t, root+"/usr/sbin/runc", "#!/bin/sh\nexit 1\n", 0o755)
	write(t, root+"/etc/containerd/config.toml", containerdConfig, 0o644)
	m.prepare(t, root)
	return root
}

func run(t *testing.T, c *exec.Cmd) {
	t.Helper()
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", c.Args, err, out)
	}
}

func TestLife(t *testing.T) {
	b := packages(t)
	for _, m := range managers {
		t.Run(m.name, func(t *testing.T) {
			root := freshRoot(t, m)
			run(t, m.put(root, find(t, b.first, m.ext)))
			if got := read(t, root+"/etc/containerd/config.toml"); got != containerdConfig {
				t.Errorf("the package changed the engine's configuration:\n%s", got)
			}
			if _, err := os.Stat(root + "/usr/lib/nodeadmit/runtimes"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the package made links: %v", err)
			}

			nodeadmit := func(args ...string) string {
				out, err := exec.Command("chroot", append([]string{root, "/usr/bin/nodeadmit"}, args...)...).CombinedOutput()
				if err != nil {
					t.Logf("nodeadmit %v: %v", args, err)
				}
				return string(out)
			}
			if got := nodeadmit("version"); got != "nodeadmit v0.0.1\n" {
				t.Errorf("version: %q", got)
			}
			// Below a root, as in an image: the runtime of this one is a dummy.
			put := func() string {
				out, err := exec.Command(root+"/usr/bin/nodeadmit", "install", "--root", root, "--engine", "containerd").CombinedOutput()
				if err != nil {
					return err.Error() + ": " + string(out)
				}
				return string(out)
			}
			if got := put(); !strings.Contains(got, "no valid policy in /etc/nodeadmit/policies.d") {
				t.Errorf("without a policy: %s", got)
			}
			write(t, root+"/etc/nodeadmit/policies.d/baseline.yaml", read(t, root+"/usr/share/nodeadmit/policies/baseline.yaml"), 0o644)
			if got := put(); !strings.Contains(got, "containerd: runc -> /usr/sbin/runc") {
				t.Fatalf("install: %s", got)
			}
			if got := read(t, root+"/etc/containerd/config.toml"); !strings.Contains(got, `BinaryName = "/usr/lib/nodeadmit/runtimes/containerd-runc"`) {
				t.Errorf("the engine doesn't call the wrapper:\n%s", got)
			}

			startsDuringUpgrade(t, root, func(round int) {
				file := find(t, b.second, m.ext)
				if round%2 == 1 {
					file = find(t, b.first, m.ext)
				}
				run(t, m.put(root, file))
			})

			run(t, m.remove(root))
			if got := read(t, root+"/etc/containerd/config.toml"); got != containerdConfig {
				t.Errorf("after the removal the engine's configuration differs:\n%s", cmp.Diff(containerdConfig, got))
			}
			var left []string
			for _, dir := range []string{"/usr/lib/nodeadmit", "/usr/share", "/etc/nodeadmit", "/usr/lib/systemd", "/etc/logrotate.d", "/usr/bin"} {
				_ = filepath.WalkDir(root+dir, func(path string, d fs.DirEntry, err error) error {
					if err == nil && !d.IsDir() {
						left = append(left, strings.TrimPrefix(path, root))
					}
					return nil
				})
			}
			left = slices.DeleteFunc(left, func(f string) bool {
				// What an admin or this test wrote.
				return slices.Contains(m.kept, f) || f == "/etc/nodeadmit/policies.d/baseline.yaml" || strings.HasSuffix(f, ".rpmsave") || strings.Contains(f, "test-runc")
			})
			if len(left) > 0 {
				t.Errorf("the removal left %v", left)
			}
		})
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// startsDuringUpgrade makes 200 containers by the wrapper and the machine's runc
// while the package is up- and downgraded. None may fail.
func startsDuringUpgrade(t *testing.T, root string, replace func(round int)) {
	t.Helper()
	runc, err := exec.LookPath("runc")
	if err != nil {
		runc = "/usr/sbin/runc"
	}
	// A handler of this machine, not of the root: its files are all below root.
	name := root + "/usr/lib/nodeadmit/runtimes/test-runc"
	config := root + "/etc/nodeadmit/test-runc.yaml"
	write(t, config, fmt.Sprintf(`apiVersion: nodeadmit.dev/v1alpha1
kind: NodeConfig
policyDir: %[1]s/etc/nodeadmit/policies.d
decisionLog: {path: %[1]s/decisions.jsonl}
stateDir: %[1]s/var/lib/nodeadmit
runtimes:
  test-runc: {engine: none, grammar: runc}
`, root), 0o644)
	for link, target := range map[string]string{name: "../runtime-wrapper", name + ".real": runc, name + ".config": config} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	const starts, workers = 200, 3
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	done := make(chan struct{})
	for w := range workers {
		bundle := t.TempDir()
		makeBundle(t, runc, bundle)
		wg.Go(func() {
			for next.Add(1) <= starts {
				id := fmt.Sprintf("nodeadmit-upgrade-%d-%d-%d", os.Getpid(), w, next.Load())
				call := func(args ...string) (string, error) {
					out, err := os.CreateTemp(bundle, "out")
					if err != nil {
						return "", err
					}
					defer out.Close()
					c := exec.Command(name, append([]string{"--root", bundle + "/state"}, args...)...)
					c.Stdout, c.Stderr = out, out
					err = c.Run()
					text, _ := os.ReadFile(out.Name())
					return string(text), err
				}
				if out, err := call("create", "--bundle", bundle, id); err != nil {
					failed.Add(1)
					t.Errorf("start %s: %v: %s", id, err, out)
				}
				if out, err := call("delete", "--force", id); err != nil {
					t.Errorf("delete %s: %v: %s", id, err, out)
				}
			}
		})
	}
	go func() { wg.Wait(); close(done) }()
	rounds := 0
	for running := true; running; rounds++ {
		replace(rounds)
		select {
		case <-done:
			running = false
		default:
		}
	}
	if rounds%2 == 0 {
		replace(0)
	}
	for _, f := range []string{name, name + ".real", name + ".config", config} {
		if err := os.Remove(f); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d of %d starts failed during %d upgrades and downgrades", failed.Load(), starts, rounds)
	if rounds < 3 {
		t.Errorf("there were only %d upgrades meanwhile", rounds)
	}
}

func makeBundle(t *testing.T, runc, bundle string) {
	t.Helper()
	c := exec.Command(runc, "spec")
	c.Dir = bundle
	run(t, c)
	write(t, bundle+"/rootfs/bin/sh", read(t, "/bin/busybox"), 0o755)
	var s map[string]any
	if err := json.Unmarshal([]byte(read(t, bundle+"/config.json")), &s); err != nil {
		t.Fatal(err)
	}
	process := s["process"].(map[string]any)
	process["terminal"] = false
	delete(process, "rlimits")
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	write(t, bundle+"/config.json", string(text), 0o644)
}

// The fleet's manifests are what Kubernetes reads, with no field that it doesn't
// know.
func TestManifests(t *testing.T) {
	files, err := filepath.Glob("../../packaging/kubernetes/*/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		var v any
		switch filepath.Base(f) {
		case "daemonset.yaml":
			v = &appsv1.DaemonSet{}
		case "namespace.yaml":
			v = &corev1.Namespace{}
		default:
			v = &map[string]any{}
		}
		if err := yaml.UnmarshalStrict([]byte(read(t, f)), v); err != nil {
			t.Errorf("%s: %v", f, err)
		}
	}
	first, _, _ := strings.Cut(read(t, "../../packaging/kubernetes/base/daemonset.yaml"), "\n")
	if !strings.Contains(first, "cluster admin can delete this") {
		t.Errorf("the first line doesn't say who can delete it: %s", first)
	}
	if got, want := read(t, "../../packaging/kubernetes/base/policies/baseline-audit.yaml"), read(t, "../../packaging/policies/baseline-audit.yaml"); got != want {
		t.Error("the installer's policy is not the packaged one")
	}
}
