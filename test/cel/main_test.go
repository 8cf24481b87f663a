// Package cel proves on real containerds that policies in CEL and plugins refuse what
// they are to, through the evaluator that is started for it and through the resident
// one, and that it makes no difference which of the two.
package cel

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodeadmit/nodeadmit/test/engine"
)

var programs string

func TestMain(m *testing.M) {
	if os.Getenv("NODEADMIT_E2E") == "" || os.Geteuid() != 0 {
		fmt.Println("skipped: set NODEADMIT_E2E=1 as root to run real container engines")
		os.Exit(0)
	}
	dir, err := os.MkdirTemp("", "nodeadmit-cel-")
	if err == nil {
		err = engine.Build(dir)
	}
	if err == nil {
		err = buildPlugins(dir)
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

// buildPlugins builds the test's plugins into plugins/ of a directory.
func buildPlugins(dir string) error {
	c := exec.Command("go", "build", "-buildvcs=false", "-o", filepath.Join(dir, "test-plugin"), "github.com/nodeadmit/nodeadmit/test/plugin/testplugin")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build the test's plugin: %w\n%s", err, out)
	}
	return nil
}

// registryPolicy wants images of one registry, in the manifest form.
const registryPolicy = `apiVersion: v1
kind: List
items:
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicy
  metadata: {name: registry.static.k8s.io}
  spec:
    matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
    variables:
    - {name: all, expression: "object.spec.containers + object.spec.?initContainers.orValue([]) + object.spec.?ephemeralContainers.orValue([])"}
    validations:
    - {expression: "!has(object.spec.hostNetwork) || !object.spec.hostNetwork", message: "the node's network is the node's"}
    - {expression: "variables.all.all(c, !c.name.startsWith('bad'))", messageExpression: "'a container is called ' + string(object.spec.containers[0].name)"}
- apiVersion: admissionregistration.k8s.io/v1
  kind: ValidatingAdmissionPolicyBinding
  metadata: {name: registry.static.k8s.io}
  spec: {policyName: registry.static.k8s.io, validationActions: [Deny]}
`

const loose = `apiVersion: nodeadmit.dev/v1alpha1
kind: NodePolicy
metadata: {name: loose}
spec: {preset: privileged}
`

// node is a containerd with one wrapped handler.
type node struct {
	*engine.Engine
	*engine.Installation
	socket, pluginDir string
}

// start starts a containerd.
func start(t *testing.T, f engine.Flavour, policies map[string]string) *node {
	t.Helper()
	tools, err := f.Find()
	if err != nil {
		t.Fatal(err)
	}
	base, err := engine.NewBase()
	if err != nil {
		t.Fatal(err)
	}
	n := &node{socket: filepath.Join(base, "evaluator", "e.sock"), pluginDir: filepath.Join(base, "nodeadmit", "plugins.d")}
	n.Installation, err = engine.InstallBefore(base, engine.InstallOptions{
		Programs: programs, Runtimes: map[string]string{"containerd-runc": tools.Runc}, Policies: policies,
		Config: fmt.Sprintf("evaluatorSocket: %s\npluginDir: %s\n", n.socket, n.pluginDir),
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Engine, err = engine.Start(t.Context(), engine.Options{Flavour: f, Base: base, Handlers: []engine.Handler{
		{Name: "runc", BinaryName: n.Wrapper("containerd-runc")},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			lines := n.Decisions()
			t.Logf("decisions end:\n%s", strings.Join(lines[max(0, len(lines)-6):], "\n"))
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

// resident starts a resident evaluator and returns it when it listens.
func (n *node) resident(t *testing.T) *exec.Cmd {
	t.Helper()
	c := exec.Command(filepath.Join(n.Dir, "nodeadmit"), "evaluate", "--resident", "--socket", n.socket)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Process.Kill()
		_ = c.Wait()
		if t.Failed() && out.Len() > 0 {
			t.Logf("resident evaluator: %s", out.String())
		}
	})
	for range 200 {
		if _, err := os.Stat(n.socket); err == nil {
			return c
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("the resident evaluator doesn't listen: %s", out.String())
	return nil
}

// run starts a pod, and removes it at once. It returns the refusal, or "".
func (n *node) run(t *testing.T, pod engine.Pod) (refusal string, step engine.Step, pulls int) {
	t.Helper()
	pod.Namespace = "team-a"
	if len(pod.Containers) == 0 {
		pod.Containers = []engine.Container{{}}
	}
	r, err := n.Kubelet().Run(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := r.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if r.Failure == nil {
		return "", "", r.Pulls
	}
	_, line, ok := strings.Cut(r.Failure.Event, "OCI runtime create failed: ")
	if !ok {
		t.Fatalf("the event isn't a refusal: %q", r.Failure.Event)
	}
	return strings.TrimSuffix(line, ": unknown"), r.Failure.Step, r.Pulls
}
