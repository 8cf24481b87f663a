package engine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Kubelet runs pods on an Engine as the kubelet does: in the order of
// kuberuntime's SyncPod, with the requests of generatePodSandboxConfig and
// generateContainerConfig (kubernetes 1.37, pkg/kubelet/kuberuntime).
type Kubelet struct{ engine *Engine }

// Kubelet returns the engine's kubelet.
func (e *Engine) Kubelet() *Kubelet { return &Kubelet{e} }

// Step is where a pod's start failed.
type Step string

// The steps, in order. All but the first are done for each container.
const (
	StepSandbox Step = "RunPodSandbox"
	StepPull    Step = "PullImage"
	StepCreate  Step = "CreateContainer"
	StepStart   Step = "StartContainer"
)

// Failure is why a pod didn't start.
type Failure struct {
	Step Step
	// Container is empty for the sandbox.
	Container string
	// Err is what the engine answered.
	Err error
	// Reason and Event are the kubelet's event, as "kubectl describe pod" shows
	// it.
	Reason, Event string
}

func (f *Failure) Error() string { return fmt.Sprintf("%s: %v", f.Step, f.Err) }

// Unwrap returns the engine's answer.
func (f *Failure) Unwrap() error { return f.Err }

// Running is a pod that was started, or what was made of it until it failed.
type Running struct {
	Pod        Pod
	UID        string
	SandboxID  string            // empty if it was refused
	Containers map[string]string // id by name, also of one that wasn't started
	// Pulls counts the kubelet's calls of PullImage.
	Pulls int
	// Failure is nil if all containers were started.
	Failure *Failure

	kubelet *Kubelet
	sandbox *cri.PodSandboxConfig
}

// Run starts a pod and returns what came of it. The error is the test's own;
// what the engine refuses is in Running.Failure.
func (k *Kubelet) Run(ctx context.Context, pod Pod) (*Running, error) {
	pod = pod.withDefaults()
	r := &Running{Pod: pod, UID: newUID(), Containers: map[string]string{}, kubelet: k}
	if err := k.prepare(r); err != nil {
		return r, err
	}
	r.sandbox = k.sandboxConfig(r)
	s, err := k.engine.Runtime().RunPodSandbox(ctx, &cri.RunPodSandboxRequest{Config: r.sandbox, RuntimeHandler: pod.Handler})
	if err != nil {
		// SyncPod: events.FailedCreatePodSandBox.
		r.Failure = &Failure{StepSandbox, "", err, "FailedCreatePodSandBox", fmt.Sprintf("Failed to create pod sandbox: %v", err)}
		return r, nil
	}
	r.SandboxID = s.PodSandboxId
	for _, c := range pod.Containers {
		if r.Failure = k.startContainer(ctx, r, c); r.Failure != nil {
			return r, nil
		}
	}
	return r, nil
}

// startContainer is kuberuntime's function of that name, with imagePullPolicy
// Always.
func (k *Kubelet) startContainer(ctx context.Context, r *Running, c Container) *Failure {
	image := &cri.ImageSpec{Image: c.Image, UserSpecifiedImage: c.Image}
	if _, err := k.engine.Images().ImageStatus(ctx, &cri.ImageStatusRequest{Image: image}); err != nil {
		return &Failure{StepPull, c.Name, err, "InspectFailed", fmt.Sprintf("Failed to inspect image %q: %v", c.Image, err)}
	}
	r.Pulls++
	pulled, err := k.engine.Images().PullImage(ctx, &cri.PullImageRequest{Image: image, SandboxConfig: r.sandbox})
	if err != nil {
		return &Failure{StepPull, c.Name, err, "Failed", fmt.Sprintf("Failed to pull image %q: %v", c.Image, err)}
	}
	config := k.containerConfig(r, c)
	config.Image = &cri.ImageSpec{Image: pulled.ImageRef, UserSpecifiedImage: c.Image}
	made, err := k.engine.Runtime().CreateContainer(ctx, &cri.CreateContainerRequest{
		PodSandboxId: r.SandboxID, Config: config, SandboxConfig: r.sandbox,
	})
	if err != nil {
		// events.FailedToCreateContainer
		return &Failure{StepCreate, c.Name, err, "Failed", "Error: " + status.Convert(err).Message()}
	}
	r.Containers[c.Name] = made.ContainerId
	if _, err := k.engine.Runtime().StartContainer(ctx, &cri.StartContainerRequest{ContainerId: made.ContainerId}); err != nil {
		// events.FailedToStartContainer
		return &Failure{StepStart, c.Name, err, "Failed", "Error: " + status.Convert(err).Message()}
	}
	return nil
}

// newUID returns a random UUID.
func newUID() string {
	var b [16]byte
	rand.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func (k *Kubelet) podDir(r *Running) string {
	return filepath.Join(k.engine.KubeletRoot, "pods", r.UID)
}

func (k *Kubelet) logDir(r *Running) string {
	return filepath.Join(k.engine.Base, "log/pods", fmt.Sprintf("%s_%s_%s", r.Pod.Namespace, r.Pod.Name, r.UID))
}

const tokenDir = "volumes/kubernetes.io~projected/kube-api-access-test"

// prepare makes what the kubelet mounts into containers.
func (k *Kubelet) prepare(r *Running) error {
	files := map[string]string{
		"etc-hosts":         "# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n",
		tokenDir + "/token": "no token\n",
	}
	for _, c := range r.Pod.Containers {
		files[terminationLog(c)] = ""
		if err := os.MkdirAll(filepath.Join(k.logDir(r), c.Name), 0o755); err != nil {
			return err
		}
	}
	for name, text := range files {
		name = filepath.Join(k.podDir(r), name)
		if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func terminationLog(c Container) string { return "containers/" + c.Name + "/5f3a9c01" }

func (k *Kubelet) labels(r *Running) map[string]string {
	labels := maps.Clone(r.Pod.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels["io.kubernetes.pod.name"] = r.Pod.Name
	labels["io.kubernetes.pod.namespace"] = r.Pod.Namespace
	labels["io.kubernetes.pod.uid"] = r.UID
	return labels
}

func (k *Kubelet) sandboxConfig(r *Running) *cri.PodSandboxConfig {
	p := r.Pod
	annotations := map[string]string{
		"kubernetes.io/config.seen":   "2026-01-01T00:00:00Z",
		"kubernetes.io/config.source": "api",
	}
	maps.Copy(annotations, p.Annotations)
	hostname := p.Name
	if p.HostNetwork {
		hostname = ""
	}
	return &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: p.Name, Namespace: p.Namespace, Uid: r.UID},
		Hostname:     hostname,
		LogDirectory: k.logDir(r),
		DnsConfig: &cri.DNSConfig{
			Servers: []string{"10.96.0.10"}, Searches: []string{p.Namespace + ".svc.cluster.local", "svc.cluster.local"}, Options: []string{"ndots:5"},
		},
		Labels:      k.labels(r),
		Annotations: annotations,
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent: k.engine.CgroupParent + "/kubepods/besteffort/pod" + r.UID,
			Sysctls:      p.Sysctls,
			SecurityContext: &cri.LinuxSandboxSecurityContext{
				// "Forcing sandbox to run as runtime/default".
				Seccomp:          &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault},
				Privileged:       p.privileged(),
				NamespaceOptions: namespaces(p),
			},
			Overhead:  &cri.LinuxContainerResources{},
			Resources: &cri.LinuxContainerResources{CpuPeriod: 100000, CpuShares: 2},
		},
	}
}

func namespaces(p Pod) *cri.NamespaceOption {
	o := &cri.NamespaceOption{Network: cri.NamespaceMode_POD, Pid: cri.NamespaceMode_CONTAINER, Ipc: cri.NamespaceMode_POD}
	if p.HostNetwork {
		o.Network = cri.NamespaceMode_NODE
	}
	if p.HostPID {
		o.Pid = cri.NamespaceMode_NODE
	}
	if p.HostIPC {
		o.Ipc = cri.NamespaceMode_NODE
	}
	return o
}

// The lists of k8s.io/kubernetes/pkg/securitycontext, for procMount Default.
var (
	maskedPaths = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
		"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

func (k *Kubelet) containerConfig(r *Running, c Container) *cri.ContainerConfig {
	labels := k.labels(r)
	for name := range r.Pod.Labels {
		delete(labels, name)
	}
	labels["io.kubernetes.container.name"] = c.Name

	s := &cri.LinuxContainerSecurityContext{
		Capabilities:     &cri.Capability{AddCapabilities: c.CapsAdd, DropCapabilities: c.CapsDrop},
		Privileged:       c.Privileged,
		NamespaceOptions: namespaces(r.Pod),
		ReadonlyRootfs:   c.ReadOnlyRootFilesystem,
		NoNewPrivs:       c.AllowPrivilegeEscalation != nil && !*c.AllowPrivilegeEscalation,
		Seccomp:          &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Unconfined},
	}
	if c.Seccomp == RuntimeDefault {
		s.Seccomp.ProfileType = cri.SecurityProfile_RuntimeDefault
	}
	if c.RunAsUser != nil {
		s.RunAsUser = &cri.Int64Value{Value: *c.RunAsUser}
	}
	if !c.Privileged && !c.ProcMountUnmasked {
		s.MaskedPaths, s.ReadonlyPaths = maskedPaths, readonlyPaths
	}

	dir := k.podDir(r)
	var mounts []*cri.Mount
	for _, m := range c.HostPaths {
		mounts = append(mounts, &cri.Mount{ContainerPath: m.MountPath, HostPath: m.Path, Readonly: m.ReadOnly})
	}
	mounts = append(mounts,
		&cri.Mount{ContainerPath: "/var/run/secrets/kubernetes.io/serviceaccount", HostPath: filepath.Join(dir, tokenDir), Readonly: true},
		&cri.Mount{ContainerPath: "/etc/hosts", HostPath: filepath.Join(dir, "etc-hosts")},
		&cri.Mount{ContainerPath: "/dev/termination-log", HostPath: filepath.Join(dir, terminationLog(c))},
	)
	return &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: c.Name},
		Command:  c.Command,
		Envs: []*cri.KeyValue{
			{Key: "KUBERNETES_SERVICE_HOST", Value: []byte("10.96.0.1")}, {Key: "KUBERNETES_SERVICE_PORT", Value: []byte("443")},
		},
		Mounts:  mounts,
		Labels:  labels,
		LogPath: c.Name + "/0.log",
		Annotations: map[string]string{
			"io.kubernetes.container.hash":                     "5f3a9c01",
			"io.kubernetes.container.restartCount":             "0",
			"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
			"io.kubernetes.container.terminationMessagePolicy": "File",
			"io.kubernetes.pod.terminationGracePeriod":         "30",
		},
		Linux: &cri.LinuxContainerConfig{
			SecurityContext: s,
			Resources:       &cri.LinuxContainerResources{CpuPeriod: 100000, CpuShares: 2, OomScoreAdj: 1000},
		},
	}
}

// Exec runs a command in a container, as an exec probe does.
func (r *Running) Exec(ctx context.Context, container string, command ...string) (stdout, stderr string, code int32, err error) {
	out, err := r.kubelet.engine.Runtime().ExecSync(ctx, &cri.ExecSyncRequest{ContainerId: r.Containers[container], Cmd: command, Timeout: 20})
	if err != nil {
		return "", "", -1, err
	}
	return string(out.Stdout), string(out.Stderr), out.ExitCode, nil
}

// State returns a container's state.
func (r *Running) State(ctx context.Context, container string) (*cri.ContainerStatus, error) {
	s, err := r.kubelet.engine.Runtime().ContainerStatus(ctx, &cri.ContainerStatusRequest{ContainerId: r.Containers[container]})
	if err != nil {
		return nil, err
	}
	return s.Status, nil
}

// Output returns what a container has written, without the log's time stamps.
func (r *Running) Output(container string) string {
	data, _ := os.ReadFile(filepath.Join(r.kubelet.logDir(r), container, "0.log"))
	var out strings.Builder
	for line := range strings.Lines(string(data)) {
		// "2026-12-01T10:00:00.000000000Z stdout F text"
		if fields := strings.SplitN(line, " ", 4); len(fields) == 4 {
			out.WriteString(fields[3])
		}
	}
	return out.String()
}

// WaitOutput waits until a container's output has a text in it.
func (r *Running) WaitOutput(ctx context.Context, container, text string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	for {
		out := r.Output(container)
		if strings.Contains(out, text) {
			return out, nil
		}
		select {
		case <-ctx.Done():
			return out, fmt.Errorf("container %s hasn't written %q: %w", container, text, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Stop stops the containers and then the sandbox.
func (r *Running) Stop(ctx context.Context) error {
	var mu sync.Mutex
	var errs []error
	var wait sync.WaitGroup
	for name, id := range r.Containers {
		wait.Go(func() {
			if _, err := r.kubelet.engine.Runtime().StopContainer(ctx, &cri.StopContainerRequest{ContainerId: id, Timeout: 5}); err != nil {
				mu.Lock()
				errs = append(errs, fmt.Errorf("stop container %s: %w", name, err))
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	if r.SandboxID != "" {
		if _, err := r.kubelet.engine.Runtime().StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: r.SandboxID}); err != nil {
			errs = append(errs, fmt.Errorf("stop sandbox: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Remove stops the pod and removes all that is left of it.
func (r *Running) Remove(ctx context.Context) error {
	errs := []error{r.Stop(ctx)}
	for name, id := range r.Containers {
		if _, err := r.kubelet.engine.Runtime().RemoveContainer(ctx, &cri.RemoveContainerRequest{ContainerId: id}); err != nil {
			errs = append(errs, fmt.Errorf("remove container %s: %w", name, err))
		}
	}
	if r.SandboxID != "" {
		if _, err := r.kubelet.engine.Runtime().RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: r.SandboxID}); err != nil {
			errs = append(errs, fmt.Errorf("remove sandbox: %w", err))
		}
	}
	errs = append(errs, os.RemoveAll(r.kubelet.podDir(r)), os.RemoveAll(r.kubelet.logDir(r)))
	removeCgroup(r.sandbox.GetLinux().GetCgroupParent())
	return errors.Join(errs...)
}

// removeCgroup removes a pod's cgroup, which is the kubelet's to do.
func removeCgroup(parent string) {
	if parent == "" {
		return
	}
	os.Remove("/sys/fs/cgroup" + parent)
	dirs, _ := filepath.Glob("/sys/fs/cgroup/*" + parent)
	for _, dir := range dirs {
		os.Remove(dir)
	}
}
