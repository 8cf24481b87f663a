package engine

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodeadmit/nodeadmit/test/images"
)

// The images' names. Only this package's containerd knows the registry behind
// that name.
const (
	Registry   = "registry.test"
	PauseImage = Registry + "/pause:3.10"
	AppImage   = Registry + "/app:1"
)

//go:embed supervise.sh
var supervise []byte

//go:embed cni.sh
var cniPlugin []byte

// Handler is one of containerd's runtime handlers, which a RuntimeClass names.
type Handler struct {
	Name string
	// BinaryName is the runtime's path.
	BinaryName string
	// Extra is TOML for the handler's own table.
	Extra string
}

// Options say what to start.
type Options struct {
	Flavour Flavour
	// Base is the directory that all is in, which must be new; it is made under
	// /run if empty. Make it with NewBase to put something there first.
	Base string
	// Handlers are the runtimes, the first being the default. Without any, the
	// flavour's runc is handler "runc".
	Handlers []Handler
	// Images are more images for the registry.
	Images []*images.Image
	// BeforeStart is called when the configuration, config.toml in Base, is
	// written and containerd doesn't run yet.
	BeforeStart func(*Engine) error
	// Debug makes containerd log more.
	Debug bool
}

// Engine is a running containerd.
type Engine struct {
	Tools  Tools
	Base   string
	Socket string
	// RootDir and StateDir are containerd's. RootDir is a tmpfs that only
	// containerd's mount namespace shows.
	RootDir, StateDir string
	// RuncRoot is the runtimes' --root, without containerd's "/k8s.io".
	RuncRoot string
	// KubeletRoot is the directory of the Kubelet.
	KubeletRoot string
	// CgroupParent is the cgroup of all pods.
	CgroupParent string
	// PID is containerd's.
	PID int
	// Registry serves the images.
	Registry *images.Registry

	namespace  *os.File // the mount namespace, held so that its number stays its own
	conn       *grpc.ClientConn
	supervisor *exec.Cmd
	lifeline   io.Closer
	once       sync.Once
	closeErr   error
}

// NewBase makes a directory for an engine, with a name short enough for
// sockets.
func NewBase() (string, error) { return os.MkdirTemp("/run", baseName) }

// baseName is what the names of engines' directories and cgroups begin with.
const baseName = "nodeadmit-"

// Start runs a containerd and waits until it can run pods. Its sandbox image is
// there already.
func Start(ctx context.Context, o Options) (*Engine, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("a container engine needs root")
	}
	tools, err := o.Flavour.Find()
	if err != nil {
		return nil, err
	}
	base := o.Base
	if base == "" {
		if base, err = NewBase(); err != nil {
			return nil, err
		}
	}
	e := &Engine{
		Tools:        tools,
		Base:         base,
		Socket:       filepath.Join(base, "c.sock"),
		RootDir:      filepath.Join(base, "root"),
		StateDir:     filepath.Join(base, "state"),
		RuncRoot:     filepath.Join(base, "runc"),
		KubeletRoot:  filepath.Join(base, "kubelet"),
		CgroupParent: "/" + filepath.Base(base),
	}
	if err := e.start(ctx, o); err != nil {
		err = fmt.Errorf("%s containerd %s: %w\n%s", o.Flavour, tools.Version, err, tail(e.Log(), 20))
		return nil, errors.Join(err, e.Close())
	}
	return e, nil
}

func (e *Engine) start(ctx context.Context, o Options) error {
	if err := e.serveImages(o.Images); err != nil {
		return err
	}
	if err := e.writeFiles(o); err != nil {
		return err
	}
	if o.BeforeStart != nil {
		if err := o.BeforeStart(e); err != nil {
			return err
		}
	}
	if err := e.run(); err != nil {
		return err
	}
	if err := e.connect(ctx); err != nil {
		return err
	}
	// The pause image is pulled by containerd itself at a first sandbox: have it
	// before, so that a pod's pulls are only its own.
	_, err := e.Images().PullImage(ctx, &cri.PullImageRequest{Image: &cri.ImageSpec{Image: PauseImage}})
	return err
}

var standardImages = sync.OnceValues(func() ([]*images.Image, error) {
	pause, err := images.Pause()
	if err != nil {
		return nil, err
	}
	app, err := images.App()
	return []*images.Image{pause, app}, err
})

func (e *Engine) serveImages(more []*images.Image) error {
	standard, err := standardImages()
	if err != nil {
		return err
	}
	e.Registry, err = images.Serve(append(more, standard...)...)
	return err
}

func (e *Engine) writeFiles(o Options) error {
	handlers := o.Handlers
	if len(handlers) == 0 {
		handlers = []Handler{{Name: "runc", BinaryName: e.Tools.Runc}}
	}
	level := "info"
	if o.Debug {
		level = "debug"
	}
	config, err := configValues{Base: e.Base, Tools: e.Tools, PauseImage: PauseImage, LogLevel: level, Handlers: handlers}.render()
	if err != nil {
		return err
	}
	server := "http://" + e.Registry.Address()
	for _, f := range []struct {
		name string
		mode os.FileMode
		data []byte
	}{
		{"config.toml", 0o600, config},
		{"supervise.sh", 0o700, supervise},
		{"cni/bin/loopback", 0o700, cniPlugin},
		{"cni/bin/lo", 0o700, cniPlugin},
		{"cni/net.d/10-lo.conflist", 0o600, []byte(`{"cniVersion":"0.4.0","name":"nodeadmit","plugins":[{"type":"lo"}]}`)},
		{"certs.d/" + Registry + "/hosts.toml", 0o600, []byte(fmt.Sprintf("server = %q\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n", server, server))},
	} {
		name := filepath.Join(e.Base, f.name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, f.data, f.mode); err != nil {
			return err
		}
	}
	return os.MkdirAll(e.KubeletRoot, 0o755)
}

// run starts the supervisor, and with it containerd. Standard input is the
// lifeline: all is taken down when it closes, by Close or because this process
// died.
func (e *Engine) run() error {
	// By the shell, because /run may be noexec.
	c := exec.Command("/bin/sh", filepath.Join(e.Base, "supervise.sh"), e.Base, strings.TrimPrefix(e.CgroupParent, "/"), e.Tools.Containerd)
	c.Dir = "/"
	c.Env = []string{"PATH=" + filepath.Dir(e.Tools.Containerd) + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	// Standard output and error stay unset: a pipe of ours, held by whatever is
	// left, would block Wait.
	stdin, err := c.StdinPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return fmt.Errorf("supervisor: %w", err)
	}
	e.supervisor, e.lifeline = c, stdin
	return nil
}

// connect waits until containerd says that runtime and network are ready.
func (e *Engine) connect(ctx context.Context) error {
	conn, err := grpc.NewClient("unix://"+e.Socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	e.conn = conn
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := e.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready: %w", err)
		case <-tick.C:
		}
		if e.PID != 0 && exited(e.PID) {
			return errors.New("containerd ended")
		}
	}
}

func (e *Engine) ready(ctx context.Context) error {
	data, err := os.ReadFile(filepath.Join(e.Base, "pid"))
	if err != nil {
		return err
	}
	if e.PID, err = strconv.Atoi(strings.TrimSpace(string(data))); err != nil {
		return err
	}
	if _, err := os.Stat(e.Socket); err != nil {
		return err // without dialling: gRPC backs off after a failure
	}
	s, err := e.Runtime().Status(ctx, &cri.StatusRequest{})
	if err != nil {
		return err
	}
	if e.namespace == nil {
		if e.namespace, err = os.Open(fmt.Sprintf("/proc/%d/ns/mnt", e.PID)); err != nil {
			return err
		}
	}
	for _, c := range s.GetStatus().GetConditions() {
		if (c.Type == cri.RuntimeReady || c.Type == cri.NetworkReady) && !c.Status {
			return fmt.Errorf("%s: %s", c.Type, c.Message)
		}
	}
	return nil
}

// exited says whether a process is gone or waits to be reaped.
func exited(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	_, after, _ := bytes.Cut(data, []byte(") "))
	return bytes.HasPrefix(after, []byte("Z"))
}

// Runtime returns the CRI's runtime service.
func (e *Engine) Runtime() cri.RuntimeServiceClient { return cri.NewRuntimeServiceClient(e.conn) }

// Images returns the CRI's image service.
func (e *Engine) Images() cri.ImageServiceClient { return cri.NewImageServiceClient(e.conn) }

// Log returns what containerd has logged.
func (e *Engine) Log() string {
	data, _ := os.ReadFile(filepath.Join(e.Base, "containerd.log"))
	return string(data)
}

// LogTail returns the last lines of Log.
func (e *Engine) LogTail(lines int) string { return tail(e.Log(), lines) }

// Command returns a command that runs where containerd runs, in its mount
// namespace.
func (e *Engine) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{fmt.Sprintf("--mount=/proc/%d/ns/mnt", e.PID), "--", name}, args...)...)
}

// Mounts returns the mount points in containerd's namespace below a directory.
func (e *Engine) Mounts(below string) ([]string, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", e.PID))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var out []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if fields := strings.Fields(lines.Text()); strings.HasPrefix(fields[4], below+"/") {
			out = append(out, fields[4])
		}
	}
	return out, lines.Err()
}

// Bundle returns a container's or a sandbox's bundle directory.
func (e *Engine) Bundle(id string) string {
	return filepath.Join(e.StateDir, "io.containerd.runtime.v2.task/k8s.io", id)
}

// Close removes all pods, stops containerd and removes all that Start made. It
// may be called again.
func (e *Engine) Close() error {
	e.once.Do(func() { e.closeErr = e.shutDown() })
	return e.closeErr
}

func (e *Engine) shutDown() error {
	var errs []error
	if e.conn != nil {
		e.removePods()
		errs = append(errs, e.conn.Close())
	}
	if e.lifeline != nil {
		errs = append(errs, e.lifeline.Close())
		if err := e.supervisor.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("supervisor: %w", err))
		}
	}
	if e.Registry != nil {
		errs = append(errs, e.Registry.Close())
	}
	errs = append(errs, os.RemoveAll(e.Base))
	for _, left := range e.leftBehind() {
		errs = append(errs, fmt.Errorf("left behind: %s", left))
	}
	return errors.Join(errs...)
}

// leftBehind lists what there still is of a closed engine. A process of it is
// in its mount namespace or in its cgroups, so no more than that can be left.
func (e *Engine) leftBehind() []string {
	var out []string
	for _, pattern := range []string{e.Base, "/sys/fs/cgroup" + e.CgroupParent, "/sys/fs/cgroup/*" + e.CgroupParent} {
		found, _ := filepath.Glob(pattern)
		out = append(out, found...)
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, e.Base) {
			out = append(out, "mount "+strings.TrimSpace(line))
		}
	}
	if e.namespace == nil {
		return out
	}
	defer e.namespace.Close()
	namespace, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", e.namespace.Fd()))
	if err != nil {
		return append(out, err.Error())
	}
	processes, _ := filepath.Glob("/proc/[0-9]*/ns/mnt")
	for _, p := range processes {
		if ns, err := os.Readlink(p); err == nil && ns == namespace {
			out = append(out, "process "+p)
		}
	}
	return out
}

// removePods does it the proper way. What is left after that is the
// supervisor's.
func (e *Engine) removePods() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	pods, err := e.Runtime().ListPodSandbox(ctx, &cri.ListPodSandboxRequest{})
	if err != nil {
		return
	}
	var wait sync.WaitGroup
	for _, p := range pods.GetItems() {
		wait.Go(func() {
			e.Runtime().StopPodSandbox(ctx, &cri.StopPodSandboxRequest{PodSandboxId: p.Id})
			e.Runtime().RemovePodSandbox(ctx, &cri.RemovePodSandboxRequest{PodSandboxId: p.Id})
		})
	}
	wait.Wait()
}

// tail returns the last n lines of a text.
func tail(s string, n int) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
