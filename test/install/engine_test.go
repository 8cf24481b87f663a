package install

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"github.com/nodeadmit/nodeadmit/test/engine"
)

// node is nodeadmit's package in one directory, with its own state.
type node struct{ base, config string }

func newNode(t *testing.T, base string) *node {
	t.Helper()
	lib := filepath.Join(base, "lib")
	if err := os.MkdirAll(lib, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := engine.Build(lib); err != nil {
		t.Fatal(err)
	}
	n := &node{base, filepath.Join(base, "etc/config.yaml")}
	for name, text := range map[string]string{
		"share/config.yaml": fmt.Sprintf(`# the node's own
apiVersion: nodeadmit.dev/v1alpha1
kind: NodeConfig
policyDir: %[1]s/etc/policies.d
decisionLog: {path: %[1]s/decisions.jsonl}
stateDir: %[1]s/var
`, base),
		"etc/policies.d/baseline.yaml": engine.BaselinePolicy,
	} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(base, name)), 0o755), os.WriteFile(filepath.Join(base, name), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// run runs nodeadmit. It returns what it says and its exit code.
func (n *node) run(t *testing.T, args ...string) (string, int) {
	t.Helper()
	out, err := exec.Command(filepath.Join(n.base, "lib/nodeadmit"), append(args, "--state-dir", n.base+"/var")...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		return string(out), exit.ExitCode()
	}
	return string(out), 0
}

func (n *node) install(t *testing.T, config, binary string, more ...string) string {
	t.Helper()
	out, code := n.run(t, append([]string{"install", "--engine", "containerd", "--engine-config", config, "--engine-binary", binary,
		"--lib-dir", n.base + "/lib", "--share-dir", n.base + "/share", "--config", n.config}, more...)...)
	if code > 1 {
		t.Fatalf("install: exit code %d\n%s", code, out)
	}
	return out
}

func needEngines(t *testing.T) {
	if os.Getenv("NODEADMIT_E2E") == "" {
		t.Skip("needs container engines: NODEADMIT_E2E=1, as root")
	}
}

// Each image's configuration of containerd is given to the real ones: they take
// the result, call the wrapper for each handler, and everything else is the same.
func TestContainerdTakesIt(t *testing.T) {
	needEngines(t)
	for _, f := range engine.Flavours {
		tools, err := f.Find()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range images {
			if !strings.HasPrefix(c.name, "containerd-") && c.name != "k3s" || c.name == "containerd-inline" || c.name == "containerd-docker" || c.name == "containerd-missing" {
				continue
			}
			if tools.Major < 2 && (c.name == "k3s" || c.name == "containerd-2.4-default") {
				continue // of version 3 and 4, which containerd 1 doesn't know
			}
			t.Run(string(f)+"/"+c.name, func(t *testing.T) {
				base := t.TempDir()
				n := newNode(t, base)
				config := filepath.Join(base, "engine/config.toml")
				source := filepath.Join("testdata", c.name, "etc/containerd")
				if c.name == "k3s" {
					source = filepath.Join("testdata", c.name, "var/lib/rancher/k3s/agent/etc/containerd")
				}
				if err := os.CopyFS(filepath.Dir(config), os.DirFS(source)); err != nil {
					t.Fatal(err)
				}
				text, err := os.ReadFile(config)
				if err != nil {
					t.Fatal(err)
				}
				// Never the machine's own drop-ins.
				imports := fmt.Sprintf("imports = [%q]\n", base+"/engine/conf.d/*.toml")
				var kept []string
				for line := range strings.Lines(string(text)) {
					if !strings.HasPrefix(line, "imports") {
						kept = append(kept, line)
					}
				}
				text = []byte(imports + strings.Join(kept, ""))
				text = bytes.ReplaceAll(text, []byte("/usr/bin/nvidia-container-runtime"), []byte("crun"))
				if err := os.WriteFile(config, text, 0o600); err != nil {
					t.Fatal(err)
				}
				drop := filepath.Join(base, "engine/conf.d/99-nvidia.toml")
				if data, err := os.ReadFile(drop); err == nil {
					if err := os.WriteFile(drop, bytes.ReplaceAll(data, []byte("/usr/bin/nvidia-container-runtime"), []byte("crun")), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				before := snapshot(t, filepath.Dir(config))
				out := n.install(t, config, tools.Containerd)
				dump, err := exec.Command(tools.Containerd, "--config", config, "config", "dump").Output()
				if err != nil {
					t.Fatal(err)
				}
				handlers := runcHandlers(t, dump)
				if len(handlers) == 0 {
					t.Errorf("no handlers in\n%s", dump)
				}
				for name, binary := range handlers {
					if want := base + "/lib/runtimes/containerd-" + name; binary != want {
						t.Errorf("handler %q calls %q, want %q\n%s", name, binary, want, out)
					}
				}
				if out := n.install(t, config, tools.Containerd); !strings.Contains(out, "Nothing to do") {
					t.Errorf("a second installation did something:\n%s", out)
				}
				if out, code := n.run(t, "uninstall", "--lib-dir", base+"/lib"); code != 0 {
					t.Errorf("uninstall: exit code %d\n%s", code, out)
				}
				if diff := cmp.Diff(before, snapshot(t, filepath.Dir(config))); diff != "" {
					t.Errorf("uninstall left a difference:\n%s", diff)
				}
			})
		}
	}
}

// runcHandlers returns what a dump's handlers of runc's shim call.
func runcHandlers(t *testing.T, dump []byte) map[string]string {
	t.Helper()
	type runtimes struct {
		Containerd struct {
			Runtimes map[string]struct {
				Type    string `toml:"runtime_type"`
				Options struct{ BinaryName string }
			} `toml:"runtimes"`
		} `toml:"containerd"`
	}
	var d struct {
		Plugins map[string]any `toml:"plugins"`
	}
	if err := toml.Unmarshal(dump, &d); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, plugin := range []string{"io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime"} {
		text, err := toml.Marshal(d.Plugins[plugin])
		if err != nil || d.Plugins[plugin] == nil {
			continue
		}
		var r runtimes
		if err := toml.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
		for name, rt := range r.Containerd.Runtimes {
			if rt.Type == "io.containerd.runc.v2" {
				out[name] = rt.Options.BinaryName
			}
		}
	}
	return out
}

// On a real containerd: what install configured refuses and starts, doctor
// proves it, and after uninstall the engine, which was not restarted, starts all.
func TestOnAnEngine(t *testing.T) {
	needEngines(t)
	for _, f := range engine.Flavours {
		t.Run(string(f), func(t *testing.T) { onAnEngine(t, f) })
	}
}

func onAnEngine(t *testing.T, f engine.Flavour) {
	look, err := engine.Look()
	if err != nil {
		t.Fatal(err)
	}
	tools, err := f.Find()
	if err != nil {
		t.Fatal(err)
	}
	base, err := engine.NewBase()
	if err != nil {
		t.Fatal(err)
	}
	n := newNode(t, filepath.Join(base, "nodeadmit"))
	config := filepath.Join(base, "config.toml")
	var original []byte
	e, err := engine.Start(t.Context(), engine.Options{
		Flavour: f, Base: base,
		Handlers: []engine.Handler{{Name: "runc", BinaryName: tools.Runc}, {Name: "second", BinaryName: tools.Runc}},
		BeforeStart: func(e *engine.Engine) error {
			text, err := os.ReadFile(config)
			if err != nil {
				return err
			}
			original = append([]byte(fmt.Sprintf("imports = [%q]\n", base+"/conf.d/*.toml")), text...)
			if err := os.WriteFile(config, original, 0o600); err != nil {
				return err
			}
			dry := n.install(t, config, tools.Containerd, "--kubelet-root", e.KubeletRoot, "--dry-run")
			if now, err := os.ReadFile(config); err != nil || !bytes.Equal(now, original) || !strings.Contains(dry, "+++ ") {
				return fmt.Errorf("a dry run: %w\n%s", err, dry)
			}
			t.Log(n.install(t, config, tools.Containerd, "--kubelet-root", e.KubeletRoot))
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		left, err := look.LeftBehind()
		if err != nil {
			t.Error(err)
		}
		for _, trace := range left {
			t.Error(trace)
		}
	})
	var pods []*engine.Running
	run := func(pod engine.Pod) error {
		t.Helper()
		pod.Namespace, pod.Containers = "team-a", []engine.Container{{}}
		r, err := e.Kubelet().Run(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		pods = append(pods, r)
		if r.Failure != nil {
			return r.Failure
		}
		return nil
	}
	for _, handler := range []string{"runc", "second"} {
		if err := run(engine.Pod{Name: "plain-" + handler, Handler: handler}); err != nil {
			t.Errorf("handler %s: %v", handler, err)
		}
		err := run(engine.Pod{Name: "host-" + handler, Handler: handler, HostNetwork: true})
		if err == nil || !strings.Contains(err.Error(), "nodeadmit: pod team-a/host-"+handler+": hostNetwork: ") {
			t.Errorf("handler %s: a pod in the host's network: %v", handler, err)
		}
	}
	n.doctor(t, f)

	// Break-glass, with a /run/nodeadmit that only this engine sees.
	inside := func(script string) {
		t.Helper()
		if out, err := e.Command(t.Context(), "/bin/sh", "-euc", script).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	inside("mount -t tmpfs -o mode=0700 tmpfs /run/nodeadmit; " + n.base + "/lib/nodeadmit disable --for 5m")
	if err := run(engine.Pod{Name: "break-glass", HostNetwork: true}); err != nil {
		t.Errorf("while nothing is refused: %v", err)
	}
	if log, err := os.ReadFile(n.base + "/decisions.jsonl"); err != nil || !strings.Contains(string(log), "BREAK-GLASS") {
		t.Errorf("the decision log doesn't say so: %v", err)
	}
	inside(n.base + "/lib/nodeadmit enable; umount /run/nodeadmit")
	if err := run(engine.Pod{Name: "enabled", HostNetwork: true}); err == nil {
		t.Error("after enable nothing is refused")
	}

	out, code := n.run(t, "uninstall", "--lib-dir", n.base+"/lib")
	if code != 0 {
		t.Fatalf("uninstall: exit code %d\n%s", code, out)
	}
	if now, err := os.ReadFile(config); err != nil || !bytes.Equal(now, original) {
		t.Errorf("the engine's configuration is not as it was: %v\n%s", err, cmp.Diff(string(original), string(now)))
	}
	// As if the package was removed as well.
	for _, p := range []string{"runtime-wrapper", "runtime-judge", "oci-hook"} {
		if err := os.Remove(filepath.Join(n.base, "lib", p)); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(engine.Pod{Name: "after", HostNetwork: true}); err != nil {
		t.Errorf("after uninstall: %v", err)
	}
	for _, r := range pods {
		if err := r.Remove(context.Background()); err != nil {
			t.Errorf("after uninstall, remove pod %s: %v", r.Pod.Name, err)
		}
	}
}

// doctor proves both handlers.
func (n *node) doctor(t *testing.T, f engine.Flavour) {
	t.Helper()
	out, code := n.run(t, "doctor", "-o", "json")
	var report struct {
		Findings []struct{ Check, Subject, Status, Message string }
	}
	if err := json.Unmarshal([]byte(out), &report); err != nil {
		t.Fatalf("doctor: %v\n%s", err, out)
	}
	proofs := 0
	for _, r := range report.Findings {
		switch {
		case r.Status == "problem":
			t.Errorf("doctor: %s %s: %s", r.Check, r.Subject, r.Message)
		case r.Check == "proof" && r.Status == "ok":
			proofs++
		}
	}
	if proofs != 4 || code > 1 {
		t.Errorf("%s: doctor has %d proofs, want 4; exit code %d\n%s", f, proofs, code, out)
	}
	if out, _ := n.run(t, "doctor", "-o", "prometheus"); !strings.Contains(out, "\nnodeadmit_doctor_status ") {
		t.Errorf("doctor -o prometheus: %s", out)
	}
}
