package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodeadmit/nodeadmit/test/conformance/translate"
	"github.com/nodeadmit/nodeadmit/test/engine"
)

// save stands in for a runtime: it keeps the config.json that it is given to
// create and refuses it, all of them or those of containers alone.
const save = `#!/bin/sh
bundle= create=
previous=
for a; do
	case $previous in --log) log=$a ;; --bundle) bundle=$a ;; esac
	[ "$a" = create ] && create=yes
	previous=$a
done
if [ "$create" ] && { [ %s = all ] || ! grep -q 'container-type":"sandbox"' "$bundle/config.json"; }; then
	cp "$bundle/config.json" %s/saved.new && mv %s/saved.new %s/saved.json
	echo '{"level":"error","msg":"saved by a test","time":"2026-01-01T00:00:00Z"}' >>"$log"
	exit 1
fi
exec %s "$@"
`

// leastReal is how many bundles of each containerd the translation is held to.
const leastReal = 300

// TestTranslationOfFixturesByRealContainerd gives upstream's fixtures to real
// containerds, and holds the translation to what they write for them: sandboxes
// and containers, all of config.json that the other test compares. Sandboxes are
// refused by the runtime once they are saved; containers are made in a few that
// do run, one for each way in which pods share the node's namespaces.
func TestTranslationOfFixturesByRealContainerd(t *testing.T) {
	if os.Getenv("NODEADMIT_E2E") == "" {
		t.Skip("container engines are started only with NODEADMIT_E2E=1, as root")
	}
	for flavour, e := range map[engine.Flavour]translate.Engine{engine.Distribution: translate.Containerd1, engine.Module: translate.Containerd2} {
		t.Run(string(flavour), func(t *testing.T) { newRealEngine(t, flavour, e).run(t) })
	}
}

// realEngine is a containerd, and the node that it makes of this machine.
type realEngine struct {
	*engine.Engine
	node  *translate.Node
	saved string
	// sandboxes run; they are known by what their containers have of them.
	sandboxes map[string]string
	compared  map[string]int
	refused   map[string]int
}

func newRealEngine(t *testing.T, flavour engine.Flavour, e translate.Engine) *realEngine {
	t.Helper()
	tools, err := flavour.Find()
	if err != nil {
		t.Fatal(err)
	}
	base, err := engine.NewBase()
	if err != nil {
		t.Fatal(err)
	}
	r := &realEngine{saved: filepath.Join(base, "saved.json"), sandboxes: map[string]string{}, compared: map[string]int{}, refused: map[string]int{}}
	var handlers []engine.Handler
	for _, what := range []string{"containers", "all"} {
		name := filepath.Join(base, "save-"+what)
		if err := os.WriteFile(name, fmt.Appendf(nil, save, what, base, base, base, tools.Runc), 0o755); err != nil {
			t.Fatal(err)
		}
		handlers = append(handlers, engine.Handler{Name: what, BinaryName: name})
	}
	r.Engine, err = engine.Start(t.Context(), engine.Options{Flavour: flavour, Base: base, Handlers: handlers})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	n := translate.NewNode(e)
	n.AppArmor, n.SELinux = false, false
	n.Root, n.State, n.KubeletRoot = r.RootDir, r.StateDir, r.KubeletRoot
	n.Image.Users = map[string][2]int64{"root": {0, 0}, "app": {1000, 1000}}
	n.AllCapabilities = capabilitiesOf(t, r.PID)
	_, err = os.Stat("/sys/fs/cgroup/cgroup.controllers")
	n.CgroupV2 = err == nil
	r.node = n
	if _, err := r.Images().PullImage(t.Context(), &cri.PullImageRequest{Image: &cri.ImageSpec{Image: engine.AppImage}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// capabilitiesOf are those that an engine has itself and can hand on.
func capabilitiesOf(t *testing.T, pid int) []string {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(data), "CapPrm:")
	var mask uint64
	if _, err := fmt.Sscanf(after, "%x", &mask); err != nil {
		t.Fatal(err)
	}
	var out []string
	for i, name := range kernelCapabilities {
		if mask&(1<<i) != 0 {
			out = append(out, name)
		}
	}
	return out
}

// kernelCapabilities are in the order of their bits.
var kernelCapabilities = strings.Fields(`CAP_CHOWN CAP_DAC_OVERRIDE CAP_DAC_READ_SEARCH CAP_FOWNER CAP_FSETID CAP_KILL CAP_SETGID CAP_SETUID
	CAP_SETPCAP CAP_LINUX_IMMUTABLE CAP_NET_BIND_SERVICE CAP_NET_BROADCAST CAP_NET_ADMIN CAP_NET_RAW CAP_IPC_LOCK CAP_IPC_OWNER
	CAP_SYS_MODULE CAP_SYS_RAWIO CAP_SYS_CHROOT CAP_SYS_PTRACE CAP_SYS_PACCT CAP_SYS_ADMIN CAP_SYS_BOOT CAP_SYS_NICE CAP_SYS_RESOURCE
	CAP_SYS_TIME CAP_SYS_TTY_CONFIG CAP_MKNOD CAP_LEASE CAP_AUDIT_WRITE CAP_AUDIT_CONTROL CAP_SETFCAP CAP_MAC_OVERRIDE CAP_MAC_ADMIN
	CAP_SYSLOG CAP_WAKE_ALARM CAP_BLOCK_SUSPEND CAP_AUDIT_READ CAP_PERFMON CAP_BPF CAP_CHECKPOINT_RESTORE`)

func (r *realEngine) run(t *testing.T) {
	start := time.Now()
	for _, f := range distinct(fixturesOf(t)) {
		p := f.pod.DeepCopy()
		if f.standard.version == "v1.0" || len(p.Spec.Volumes) > 0 {
			mountAll(p) // once more, with volumes
		}
		requests, err := r.node.Kubelet(p)
		if errors.Is(err, translate.ErrNotStarted) {
			r.refused[err.Error()]++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !r.sandbox(t, &f, requests.Sandbox) {
			continue
		}
		for _, c := range requests.Containers {
			r.container(t, &f, requests.Sandbox, c)
		}
		if t.Failed() {
			return
		}
	}
	for _, why := range sortedKeys(r.refused) {
		t.Logf("%4d not made: %s", r.refused[why], why)
	}
	n := r.compared["sandbox"] + r.compared["container"]
	t.Logf("containerd %s: %d bundles compared (%d sandboxes, %d containers) in %v", r.Tools.Version, n, r.compared["sandbox"], r.compared["container"], time.Since(start).Round(time.Second))
	if n < leastReal {
		t.Errorf("%d bundles were compared, want %d", n, leastReal)
	}
}

// distinct are fixtures of which no two are the same but for their names.
func distinct(list []fixture) []fixture {
	seen := map[string]bool{}
	var out []fixture
	for _, f := range list {
		p := f.pod.DeepCopy()
		p.Name = ""
		key := string(mustJSON(p))
		if seen[key] {
			continue
		}
		seen[key] = true
		f.pod = f.pod.DeepCopy()
		f.pod.Name = fmt.Sprintf("p%d", len(out))
		for i := range f.pod.Spec.Containers {
			f.pod.Spec.Containers[i].Image = engine.AppImage
		}
		for i := range f.pod.Spec.InitContainers {
			f.pod.Spec.InitContainers[i].Image = engine.AppImage
		}
		out = append(out, f)
	}
	return out
}

// took returns what the runtime was given since the last call.
func (r *realEngine) took(t *testing.T) *specs.Spec {
	t.Helper()
	data, err := os.ReadFile(r.saved)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.Remove(r.saved)
	}
	s := &specs.Spec{}
	if err == nil {
		err = json.Unmarshal(data, s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// sandbox has a pod's sandbox written and compares it. It reports whether the
// engine would make it.
func (r *realEngine) sandbox(t *testing.T, f *fixture, c *cri.PodSandboxConfig) bool {
	t.Helper()
	c.Linux.CgroupParent = r.CgroupParent + "/kubepods/besteffort/pod" + c.Metadata.Uid
	c.LogDirectory = filepath.Join(r.Base, "log")
	_, err := r.Runtime().RunPodSandbox(t.Context(), &cri.RunPodSandboxRequest{Config: c, RuntimeHandler: "all"})
	if err == nil {
		t.Fatalf("%s: the sandbox was started", f)
	}
	want := r.took(t)
	if want == nil {
		r.refused["the engine refuses the sandbox: "+reason(err)]++
		return false
	}
	r.compare(t, f, "sandbox", want, r.node.ContainerdSandbox(c, r.identity(want)))
	return true
}

// reason is the last part of an engine's error, without ids.
func reason(err error) string {
	text := err.Error()
	return text[strings.LastIndex(text, ": ")+2:]
}

func (r *realEngine) identity(s *specs.Spec) translate.Identity {
	if dir := netNS(s, r.node.Engine); dir != "" {
		r.node.NetNS = dir
	}
	return identity(s)
}

// container has a container written, in a sandbox that runs, and compares it.
func (r *realEngine) container(t *testing.T, f *fixture, sb *cri.PodSandboxConfig, c *cri.ContainerConfig) {
	t.Helper()
	if ref := c.GetLinux().GetSecurityContext().GetSeccomp().GetLocalhostRef(); ref != "" {
		writeFile(t, ref, `{"defaultAction":"SCMP_ACT_ERRNO"}`)
	}
	in, err := r.running(t.Context(), sb)
	if err != nil {
		r.refused["the engine doesn't run a sandbox: "+reason(err)]++
		return
	}
	made, err := r.Runtime().CreateContainer(t.Context(), &cri.CreateContainerRequest{PodSandboxId: in, Config: c, SandboxConfig: sb})
	if err != nil {
		r.refused["the engine refuses the container: "+reason(err)]++
		return
	}
	defer r.Runtime().RemoveContainer(context.WithoutCancel(t.Context()), &cri.RemoveContainerRequest{ContainerId: made.ContainerId})
	if _, err := r.Runtime().StartContainer(t.Context(), &cri.StartContainerRequest{ContainerId: made.ContainerId}); err == nil {
		t.Fatalf("%s: container %s was started", f, c.Metadata.Name)
	} else if !strings.Contains(err.Error(), "saved by a test") {
		r.refused["the engine doesn't start the container: "+reason(err)]++
		return
	}
	want := r.took(t)
	if want == nil {
		t.Fatalf("%s: container %s: nothing was saved", f, c.Metadata.Name)
	}
	who := translate.Identity{Sandbox: in, PID: sandboxPID(want)}
	got, err := r.node.ContainerdContainer(sb, c, who, made.ContainerId)
	if err != nil {
		t.Fatalf("%s: %v", f, err)
	}
	r.compare(t, f, "container", want, got)
}

func writeFile(t *testing.T, name, text string) {
	t.Helper()
	err := os.MkdirAll(filepath.Dir(name), 0o755)
	if err == nil {
		err = os.WriteFile(name, []byte(text), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// running returns a sandbox that runs and shares of the node what a pod's does.
func (r *realEngine) running(ctx context.Context, c *cri.PodSandboxConfig) (string, error) {
	sc := c.GetLinux().GetSecurityContext()
	key := fmt.Sprint(sc.GetNamespaceOptions(), sc.GetPrivileged())
	if id, ok := r.sandboxes[key]; ok {
		return id, nil
	}
	name := fmt.Sprintf("running-%d", len(r.sandboxes))
	made, err := r.Runtime().RunPodSandbox(ctx, &cri.RunPodSandboxRequest{RuntimeHandler: "containers", Config: &cri.PodSandboxConfig{
		Metadata: &cri.PodSandboxMetadata{Name: name, Namespace: "default", Uid: name}, LogDirectory: c.LogDirectory,
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent:    r.CgroupParent + "/kubepods/besteffort/" + name,
			SecurityContext: &cri.LinuxSandboxSecurityContext{NamespaceOptions: sc.GetNamespaceOptions(), Privileged: sc.GetPrivileged()},
		},
	}})
	if err != nil {
		return "", err
	}
	r.sandboxes[key] = made.PodSandboxId
	return made.PodSandboxId, nil
}

func (r *realEngine) compare(t *testing.T, f *fixture, what string, want, got *specs.Spec) {
	t.Helper()
	got.Process.Args, got.Process.Cwd = want.Process.Args, want.Process.Cwd
	x, y := normal(want, r.node.Engine), normal(got, r.node.Engine)
	if bytes.Equal(mustJSON(x), mustJSON(y)) {
		r.compared[what]++
		return
	}
	t.Errorf("%s: %s (-real +translated):\n%s", f, what, cmp.Diff(x, y))
}
