package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodeadmit/nodeadmit/test/engine"
)

func TestEngines(t *testing.T) {
	onEachEngine(t, func(t *testing.T, n *node) {
		t.Run("allowed pods are started", n.testAllowed)
		t.Run("refused pods are refused, as early as can be", n.testRefused)
		t.Run("the second container of a pod is judged too", n.testSecondContainer)
		t.Run("a symbolic link to a host path is refused", n.testSymlink)
		t.Run("retries leave nothing behind", n.testRetries)
		t.Run("each wrapped handler refuses", n.testHandlers)
		t.Run("Audit refuses nothing and says what it would have", n.testAudit)
		t.Run("exec, stop and remove work", n.testLife)
		t.Run("without policy nothing is started", n.testNoPolicy)
		t.Run("a policy that no longer loads leaves the last good one in force", n.testLastGood)
		t.Run("without configuration nothing is started", n.testNoConfig)
		t.Run("what runs goes on when configuration and policy break", n.testBroken)
	})
}

func ptr[T any](v T) *T { return &v }

func (n *node) testAllowed(t *testing.T) {
	for _, c := range []struct {
		name      string
		container engine.Container
	}{
		{"default", engine.Container{}},
		{"drop-all", engine.Container{CapsDrop: []string{"ALL"}, CapsAdd: []string{"NET_BIND_SERVICE"}}},
		{"hardened", engine.Container{
			CapsDrop: []string{"ALL"}, RunAsUser: ptr(int64(1000)), Seccomp: engine.RuntimeDefault,
			ReadOnlyRootFilesystem: true, AllowPrivilegeEscalation: ptr(false),
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.container.Command = []string{"/bin/sh", "-c", "echo user $(id -u); trap exit TERM; while :; do sleep 1 & wait $!; done"}
			before := n.Registry.Pulls("app:1")
			r := n.run(t, engine.Pod{Name: c.name, Containers: []engine.Container{c.container}})
			started(t, r)
			want := "user 0\n"
			if c.container.RunAsUser != nil {
				want = fmt.Sprintf("user %d\n", *c.container.RunAsUser)
			}
			if _, err := r.WaitOutput(t.Context(), "app", want); err != nil {
				t.Error(err)
			}
			if got := n.Registry.Pulls("app:1") - before; got != 1 || r.Pulls != 1 {
				t.Errorf("the registry counted %d pulls and the kubelet %d, want 1", got, r.Pulls)
			}
			// The wrapper decides before the runtime, and the late check's hook
			// again when mounts and namespaces are real.
			var logged []string
			for _, d := range decisions(t, n.baseline, c.name) {
				logged = append(logged, d.Decision+" "+d.Kind+" "+d.Moment)
			}
			want = "Allow sandbox create, Allow sandbox hook, Allow container create, Allow container hook"
			if got := strings.Join(logged, ", "); got != want {
				t.Errorf("decision log: %s, want %s", got, want)
			}
		})
	}
}

func (n *node) testRefused(t *testing.T) {
	privileged := engine.StepStart
	if n.Tools.Major >= 2 {
		privileged = engine.StepSandbox // containerd 1's sandbox doesn't show it
	}
	for _, c := range []struct {
		name    string
		pod     engine.Pod
		step    engine.Step
		control string
		text    string // the whole of what is refused, or "" if engines differ
	}{
		{"host-network", engine.Pod{HostNetwork: true}, engine.StepSandbox, "hostNetwork", "the host's network namespace is used"},
		{"host-pid", engine.Pod{HostPID: true}, engine.StepSandbox, "hostPID", ""},
		{"host-ipc", engine.Pod{HostIPC: true}, engine.StepSandbox, "hostIPC", ""},
		{"host-path", engine.Pod{Containers: []engine.Container{{HostPaths: []engine.HostPath{{Path: "/etc", MountPath: "/host-etc"}}}}},
			engine.StepStart, "hostPaths", "/host-etc is mounted from /etc"},
		{"host-path-read-only", engine.Pod{Containers: []engine.Container{{HostPaths: []engine.HostPath{{Path: "/etc", MountPath: "/host-etc", ReadOnly: true}}}}},
			engine.StepStart, "hostPaths", "/host-etc is mounted from /etc"},
		{"capability", engine.Pod{Containers: []engine.Container{{CapsAdd: []string{"NET_ADMIN"}}}},
			engine.StepStart, "capabilities", ""},
		{"all-capabilities", engine.Pod{Containers: []engine.Container{{CapsAdd: []string{"ALL"}}}},
			engine.StepStart, "capabilities", ""},
		{"proc-mount", engine.Pod{Containers: []engine.Container{{ProcMountUnmasked: true}}}, engine.StepStart, "procMount", ""},
		{"privileged", engine.Pod{Containers: []engine.Container{{Privileged: true}}}, privileged, "privileged", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.pod.Name = c.name
			before := n.Registry.Pulls("app:1")
			r := n.run(t, c.pod)
			line := refusal(t, r, c.step)

			subject := "nodeadmit: pod team-a/" + c.name
			pulls := 0
			if c.step != engine.StepSandbox {
				subject += ", container app"
				pulls = 1
			}
			prefix, suffix := subject+": "+c.control+": ", `, which policy "baseline" does not allow`
			if !strings.HasPrefix(line, prefix) || !strings.Contains(line, suffix) {
				t.Errorf("got  %s\nwant %s...%s", line, prefix, suffix)
			}
			if want := prefix + c.text + suffix; c.text != "" && line != want {
				t.Errorf("got  %s\nwant %s", line, want)
			}
			if strings.ContainsAny(line, "\n\r") || len(line) >= 800 {
				t.Errorf("not one short line: %q", line)
			}
			if got := n.Registry.Pulls("app:1") - before; got != pulls || r.Pulls != pulls {
				t.Errorf("the registry counted %d pulls and the kubelet %d, want %d", got, r.Pulls, pulls)
			}
			denied := slices.DeleteFunc(decisions(t, n.baseline, c.name), func(d decision) bool { return d.Decision != "Deny" })
			if len(denied) != 1 || denied[0].Message != line {
				t.Errorf("decision log: %+v", denied)
			}
			if c.step == engine.StepStart {
				s, err := r.State(t.Context(), "app")
				if err != nil {
					t.Fatal(err)
				}
				if s.State != cri.ContainerState_CONTAINER_EXITED || s.Reason != "StartError" {
					t.Errorf("container's state: %s, %s", s.State, s.Reason)
				}
			}
		})
	}
}

func (n *node) testSecondContainer(t *testing.T) {
	r := n.run(t, engine.Pod{Name: "two", Containers: []engine.Container{
		{Name: "good"}, {Name: "bad", CapsAdd: []string{"SYS_ADMIN"}},
	}})
	line := refusal(t, r, engine.StepStart)
	if !strings.HasPrefix(line, "nodeadmit: pod team-a/two, container bad: capabilities: ") {
		t.Error(line)
	}
	if _, _, code, err := r.Exec(t.Context(), "good", "true"); code != 0 || err != nil {
		t.Errorf("the first container doesn't run: exit %d, %v", code, err)
	}
}

func (n *node) testSymlink(t *testing.T) {
	link := filepath.Join(n.Base, "link")
	if err := os.Symlink("/etc", link); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{link, filepath.Join(link, "ssl")} {
		r := n.run(t, engine.Pod{Name: "link", Containers: []engine.Container{{HostPaths: []engine.HostPath{{Path: p, MountPath: "/data"}}}}})
		if line := refusal(t, r, engine.StepStart); !strings.Contains(line, "container app: hostPaths: /data is ") {
			t.Error(line)
		}
	}
}

// testRetries does what the kubelet does with a refused pod: it tries again.
func (n *node) testRetries(t *testing.T) {
	before, err := n.traces()
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]bool{}
	for range 10 {
		r, err := n.Kubelet().Run(t.Context(), engine.Pod{Name: "again", HostPID: true, Containers: []engine.Container{{}}})
		if err != nil {
			t.Fatal(err)
		}
		lines[refusal(t, r, engine.StepSandbox)] = true
		// The kubelet's own directories; there is nothing to stop.
		if err := r.Remove(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if len(lines) != 1 {
		t.Errorf("the text changes: %v", lines)
	}
	// containerd takes a failed sandbox down before it answers, but a shim may
	// still be ending.
	var left []string
	for range 50 {
		after, err := n.traces()
		if err != nil {
			t.Fatal(err)
		}
		left = slices.DeleteFunc(after, func(s string) bool { return slices.Contains(before, s) })
		if len(left) == 0 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	for _, s := range left {
		t.Errorf("left behind: %s", s)
	}
}

// traces lists what a pod makes on the node: mounts (its network namespace's
// too), cgroups, the runtime's state, bundles, shims, and what CRI knows.
func (n *node) traces() ([]string, error) {
	out, err := n.Mounts(n.Base)
	if err != nil {
		return nil, err
	}
	for _, pattern := range []string{
		"/sys/fs/cgroup" + n.CgroupParent + "/*/*/*", "/sys/fs/cgroup/*" + n.CgroupParent + "/*/*/*",
		filepath.Join(n.RuncRoot, "k8s.io/*"), n.Bundle("*"), filepath.Join(n.StateDir, "*/*/*"), filepath.Join(n.StateDir, "*/*"),
		fmt.Sprintf("/proc/%d/root/run/containerd/*/*", n.PID), fmt.Sprintf("/proc/%d/root/run/nodeadmit/*", n.PID),
		fmt.Sprintf("/proc/%d/root%s/*/*/*", n.PID, n.RootDir),
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	pods, err := n.Runtime().ListPodSandbox(context.Background(), &cri.ListPodSandboxRequest{})
	if err != nil {
		return nil, err
	}
	for _, p := range pods.Items {
		out = append(out, "pod "+p.Id)
	}
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return nil, err
	}
	for _, c := range commands {
		if command, _ := os.ReadFile(c); strings.Contains(string(command), n.Socket) && strings.Contains(string(command), "shim") {
			out = append(out, "shim "+c)
		}
	}
	return out, nil
}

// testHandlers takes every handler: a RuntimeClass lets a pod choose.
func (n *node) testHandlers(t *testing.T) {
	for _, handler := range []string{baseline, second, chained} {
		t.Run(handler, func(t *testing.T) {
			started(t, n.run(t, engine.Pod{Name: "good-" + handler, Handler: handler}))
			r := n.run(t, engine.Pod{Name: "bad-" + handler, Handler: handler, HostNetwork: true})
			if line := refusal(t, r, engine.StepSandbox); !strings.HasPrefix(line, "nodeadmit: pod team-a/bad-"+handler+": hostNetwork: ") {
				t.Error(line)
			}
		})
	}
}

func (n *node) testAudit(t *testing.T) {
	r := n.run(t, engine.Pod{Name: "audited", Handler: audit, HostPID: true, Containers: []engine.Container{{CapsAdd: []string{"NET_ADMIN"}}}})
	started(t, r)
	controls := map[string]bool{}
	for _, d := range decisions(t, n.audit, "audited") {
		if d.Decision != "Allow" {
			t.Errorf("decision log: %+v", d)
		}
		for _, v := range d.Violations {
			controls[v.Control] = true
		}
	}
	if !controls["hostPID"] || !controls["capabilities"] {
		t.Errorf("violations logged: %v, want hostPID and capabilities", controls)
	}
}

func (n *node) testLife(t *testing.T) {
	r := n.run(t, engine.Pod{Name: "life"})
	started(t, r)
	stdout, stderr, code, err := r.Exec(t.Context(), "app", "/bin/sh", "-c", "echo out; echo err >&2; exit 3")
	if stdout != "out\n" || stderr != "err\n" || code != 3 || err != nil {
		t.Errorf("exec: %q, %q, exit %d, %v", stdout, stderr, code, err)
	}
	n.stops(t, r)
}

// stops stops a pod and proves that its processes are gone.
func (n *node) stops(t *testing.T, r *engine.Running) {
	t.Helper()
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := r.State(t.Context(), "app")
	if err != nil {
		t.Fatal(err)
	}
	if s.State != cri.ContainerState_CONTAINER_EXITED {
		t.Errorf("container's state after the stop: %s", s.State)
	}
	states, _ := filepath.Glob(filepath.Join(n.RuncRoot, "k8s.io", r.SandboxID))
	if len(states) != 0 {
		t.Errorf("the runtime still knows %v", states)
	}
}

func (n *node) testNoPolicy(t *testing.T) {
	r := n.run(t, engine.Pod{Name: "lawless", Handler: noPolicy})
	line := refusal(t, r, engine.StepSandbox)
	if !strings.HasPrefix(line, "nodeadmit: pod team-a/lawless: ") || !strings.Contains(line, "policy") || !strings.Contains(line, n.noPolicy.PolicyDir) {
		t.Error(line)
	}
	if r.Pulls != 0 {
		t.Errorf("%d pulls", r.Pulls)
	}
}

// testLastGood breaks the policy that other tests have loaded, and mends it.
func (n *node) testLastGood(t *testing.T) {
	file := filepath.Join(n.baseline.PolicyDir, "zz-broken.yaml")
	if err := os.WriteFile(file, []byte("kind: NodePolicy\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(file)
	started(t, n.run(t, engine.Pod{Name: "kept", Handler: second}))
	refusal(t, n.run(t, engine.Pod{Name: "still-refused", Handler: second, HostNetwork: true}), engine.StepSandbox)
	for _, d := range decisions(t, n.baseline, "kept") {
		if d.StalePolicy.Since == "" || !strings.Contains(d.StalePolicy.Error, file) {
			t.Errorf("the decision log doesn't say that the policy is stale: %+v", d)
		}
	}
}

func (n *node) testNoConfig(t *testing.T) {
	r := n.run(t, engine.Pod{Name: "lost", Handler: noConfig})
	line := refusal(t, r, engine.StepSandbox)
	if !strings.Contains(line, "configuration") || !strings.Contains(line, n.noConfig.ConfigFile) {
		t.Error(line)
	}
}

// testBroken breaks configuration and policy under running pods. It is the last
// test, and mends nothing.
func (n *node) testBroken(t *testing.T) {
	r := n.run(t, engine.Pod{Name: "survivor", Handler: second})
	started(t, r)

	if err := os.RemoveAll(n.baseline.PolicyDir); err != nil {
		t.Fatal(err)
	}
	if _, _, code, err := r.Exec(t.Context(), "app", "true"); code != 0 || err != nil {
		t.Errorf("exec without policy: exit %d, %v", code, err)
	}
	if err := os.WriteFile(n.baseline.ConfigFile, []byte("{this is no YAML"), 0o644); err != nil {
		t.Fatal(err)
	}
	if line := refusal(t, n.run(t, engine.Pod{Name: "late", Handler: second}), engine.StepSandbox); !strings.Contains(line, n.baseline.ConfigFile) {
		t.Errorf("a new pod is refused, but not for the configuration: %s", line)
	}
	id := r.Containers["app"]
	for _, args := range [][]string{
		{"state", id}, {"ps", "--format", "json", id}, {"list"}, {"--version"}, {"features"}, {"pause", id}, {"resume", id}, {"events", "--stats", id},
	} {
		if args[0] == "features" && n.Tools.Major < 2 {
			continue // runc 1.0 has no features
		}
		out, err := n.Command(t.Context(), n.baseline.Wrapper("containerd-second"), append([]string{"--root", filepath.Join(n.RuncRoot, "k8s.io")}, args...)...).CombinedOutput()
		if err != nil {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
	if _, err := n.Runtime().UpdateContainerResources(t.Context(), &cri.UpdateContainerResourcesRequest{
		ContainerId: id, Linux: &cri.LinuxContainerResources{CpuShares: 512},
	}); err != nil {
		t.Errorf("update: %v", err)
	}
	n.stops(t, r)
}
