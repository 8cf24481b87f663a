// Package e2e proves the whole: on real containerds with real runcs, pods that
// the node's policy allows are started and others are refused, and what runs
// already is never in anybody's way.
//
// One test function runs per engine, on one containerd with several handlers,
// each with a nodeadmit of its own (see node).
package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodeadmit/nodeadmit/test/engine"
)

// programs is where nodeadmit was built.
var programs string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	if os.Getenv("NODEADMIT_E2E") == "" {
		fmt.Println("skipped: container engines are started only with NODEADMIT_E2E=1, as root")
		return 0
	}
	dir, err := os.MkdirTemp("", "nodeadmit-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := engine.Build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	programs = dir
	return m.Run()
}

// node is a containerd whose handlers are wrapped.
type node struct {
	*engine.Engine
	// Each handler's nodeadmit.
	baseline, audit, noPolicy, noConfig *engine.Installation
}

// The handlers. The first is the default.
const (
	baseline = "runc"
	second   = "second"    // a second handler, wrapped under its own name
	chained  = "chained"   // wrappers in a row
	audit    = "audit"     // policy in mode Audit
	noPolicy = "no-policy" // a policy directory that was always empty
	noConfig = "no-config" // no configuration file
	bare     = "bare"      // the runtime itself
)

func onEachEngine(t *testing.T, test func(*testing.T, *node)) {
	for _, f := range engine.Flavours {
		t.Run(string(f), func(t *testing.T) { test(t, startNode(t, f)) })
	}
}

// startNode starts a containerd and, when the test ends, stops it and proves
// that nothing is left of it.
func startNode(t *testing.T, f engine.Flavour) *node {
	t.Helper()
	before, err := engine.Look()
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
	install := func(dir string, runtimes map[string]string, policies map[string]string) *engine.Installation {
		i, err := engine.InstallBefore(base, engine.InstallOptions{Dir: dir, Programs: programs, Runtimes: runtimes, Policies: policies})
		if err != nil {
			t.Fatal(err)
		}
		return i
	}
	// Somebody else's wrapper between two of ours.
	between := filepath.Join(base, "between")
	script := fmt.Sprintf("#!/bin/sh\nexec %s/nodeadmit/runtimes/containerd-runc \"$@\"\n", base)
	if err := os.WriteFile(between, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	n := &node{}
	n.baseline = install("nodeadmit", map[string]string{
		"containerd-runc":    tools.Runc,
		"containerd-second":  tools.Runc,
		"containerd-chained": between,
	}, nil)
	n.audit = install("audit", map[string]string{"containerd-audit": tools.Runc}, map[string]string{
		"audit.yaml": strings.Replace(engine.BaselinePolicy, "Enforce", "Audit", 1),
	})
	n.noPolicy = install("no-policy", map[string]string{"containerd-no-policy": tools.Runc}, map[string]string{})
	n.noConfig = install("no-config", map[string]string{"containerd-no-config": tools.Runc}, nil)
	if err := os.Remove(n.noConfig.ConfigFile); err != nil {
		t.Fatal(err)
	}
	n.Engine, err = engine.Start(t.Context(), engine.Options{Flavour: f, Base: base, Handlers: []engine.Handler{
		{Name: baseline, BinaryName: n.baseline.Wrapper("containerd-runc")},
		{Name: second, BinaryName: n.baseline.Wrapper("containerd-second")},
		{Name: chained, BinaryName: n.baseline.Wrapper("containerd-chained")},
		{Name: audit, BinaryName: n.audit.Wrapper("containerd-audit")},
		{Name: noPolicy, BinaryName: n.noPolicy.Wrapper("containerd-no-policy")},
		{Name: noConfig, BinaryName: n.noConfig.Wrapper("containerd-no-config")},
		{Name: bare, BinaryName: tools.Runc},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("containerd %s, runc %s", tools.Version, tools.Runc)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("containerd's log ends:\n%s", n.LogTail(30))
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		left, err := before.LeftBehind()
		if err != nil {
			t.Error(err)
		}
		for _, trace := range left {
			t.Error(trace)
		}
	})
	return n
}

// run starts a pod and removes it when the test ends.
func (n *node) run(t *testing.T, pod engine.Pod) *engine.Running {
	t.Helper()
	if pod.Namespace == "" {
		pod.Namespace = "team-a"
	}
	if len(pod.Containers) == 0 {
		pod.Containers = []engine.Container{{}}
	}
	r, err := n.Kubelet().Run(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return r
}

// started fails the test if the pod wasn't.
func started(t *testing.T, r *engine.Running) {
	t.Helper()
	if r.Failure != nil {
		t.Fatalf("the pod was refused: %v", r.Failure)
	}
}

// refusal returns our line of a refused pod, as it comes out of the engine's
// message.
func refusal(t *testing.T, r *engine.Running, step engine.Step) string {
	t.Helper()
	if r.Failure == nil {
		t.Fatal("the pod was started")
	}
	if r.Failure.Step != step {
		t.Errorf("refused at %s, want %s", r.Failure.Step, step)
	}
	_, line, ok := strings.Cut(r.Failure.Event, "OCI runtime create failed: ")
	if !ok || !strings.HasPrefix(line, "nodeadmit: ") {
		t.Errorf("the event doesn't show the refusal: %q", r.Failure.Event)
	}
	// containerd 1 appends the kind of its error.
	return strings.TrimSuffix(line, ": unknown")
}

// decision is what the tests read of a line of the decision log.
type decision struct {
	Decision string `json:"decision"`
	Moment   string `json:"moment"`
	Kind     string `json:"kind"`
	Message  string `json:"message"`
	Pod      struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
		Container string `json:"container"`
	} `json:"pod"`
	Violations []struct {
		Control string `json:"control"`
	} `json:"violations"`
	StalePolicy struct {
		Since string `json:"since"`
		Error string `json:"error"`
	} `json:"stalePolicy"`
}

// decisions returns an installation's decisions on a pod.
func decisions(t *testing.T, i *engine.Installation, pod string) []decision {
	t.Helper()
	var out []decision
	for _, line := range i.Decisions() {
		var d decision
		if err := json.Unmarshal([]byte(line), &d); err != nil {
			t.Fatalf("decision log: %v: %s", err, line)
		}
		if d.Pod.Name == pod {
			out = append(out, d)
		}
	}
	return out
}
