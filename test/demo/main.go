// Command demo shows, on a private containerd, which pods a node with the
// baseline policy starts and which it refuses, in the words that the kubelet
// would show. It checks all that it shows and exits with 1 if any of it is not
// so.
//
// usage: demo [distribution|module]...
//
// Without arguments it takes the distribution's containerd, and containerd 2 if
// that was built already (test/prerequisites.sh module).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/nodeadmit/nodeadmit/test/engine"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: %v\n", err)
		os.Exit(1)
	}
	fmt.Printf("\nAll as expected, in %.0f s.\n", time.Since(began).Seconds())
}

func run(ctx context.Context, names []string) error {
	flavours, err := choose(names)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("a container engine needs root: sudo make demo")
	}
	before, err := engine.Look()
	if err != nil {
		return err
	}
	programs, err := os.MkdirTemp("", "nodeadmit-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(programs)
	fmt.Println("Building nodeadmit ...")
	if err := engine.Build(programs); err != nil {
		return err
	}
	var results []result
	for _, f := range flavours {
		r, err := show(ctx, f, programs)
		if err != nil {
			return err
		}
		results = append(results, r...)
	}
	title("What came of it")
	unexpected := table(results)
	left, err := before.LeftBehind()
	if err != nil {
		return err
	}
	if len(left) == 0 {
		fmt.Println("\nMounts, processes, cgroups, network and files of this machine are as they were before.")
	}
	if unexpected = append(unexpected, left...); len(unexpected) > 0 {
		return errors.New("not as expected:\n  " + strings.Join(unexpected, "\n  "))
	}
	return nil
}

func choose(names []string) ([]engine.Flavour, error) {
	if len(names) == 0 {
		flavours := []engine.Flavour{engine.Distribution}
		if _, err := engine.Module.Find(); err == nil {
			flavours = append(flavours, engine.Module)
		}
		return flavours, nil
	}
	var flavours []engine.Flavour
	for _, name := range names {
		f := engine.Flavour(name)
		if f != engine.Distribution && f != engine.Module {
			return nil, fmt.Errorf("unknown engine %q: want distribution or module", name)
		}
		flavours = append(flavours, f)
	}
	return flavours, nil
}

// example is a pod and what must become of it.
type example struct {
	what string
	pod  engine.Pod
	// step is where it is refused; empty, it is started.
	step engine.Step
	// control is what refuses it.
	control string
}

// command is what the pods run.
const command = `echo "user $(id -u) on $(hostname) sees $(ls -d /proc/[0-9]* | wc -l) processes and $(ls /sys/class/net | wc -l) network interface"
trap exit TERM; while :; do sleep 1 & wait $!; done`

func examples(containerdMajor int) []example {
	privileged := engine.StepStart
	if containerdMajor >= 2 {
		privileged = engine.StepSandbox
	}
	app := engine.Container{Command: []string{"/bin/sh", "-c", command}}
	with := func(change func(*engine.Container)) []engine.Container {
		c := app
		change(&c)
		return []engine.Container{c}
	}
	return []example{
		{"an ordinary pod", engine.Pod{Name: "ordinary", Containers: []engine.Container{app}}, "", ""},
		{"hostNetwork: true", engine.Pod{Name: "host-network", HostNetwork: true, Containers: []engine.Container{app}}, engine.StepSandbox, "hostNetwork"},
		{"hostPID: true", engine.Pod{Name: "host-pid", HostPID: true, Containers: []engine.Container{app}}, engine.StepSandbox, "hostPID"},
		{"a hostPath volume, /etc", engine.Pod{Name: "host-path", Containers: with(func(c *engine.Container) {
			c.HostPaths = []engine.HostPath{{Path: "/etc", MountPath: "/host-etc"}}
		})}, engine.StepStart, "hostPaths"},
		{"capabilities: {add: [NET_ADMIN]}", engine.Pod{Name: "capability", Containers: with(func(c *engine.Container) {
			c.CapsAdd = []string{"NET_ADMIN"}
		})}, engine.StepStart, "capabilities"},
		{"privileged: true", engine.Pod{Name: "privileged", Containers: with(func(c *engine.Container) {
			c.Privileged = true
		})}, privileged, "privileged"},
	}
}

// result is a line of the table.
type result struct {
	engine  string
	example example
	failure *engine.Failure
	// pulls are those that the kubelet called for, and served what the registry
	// counted.
	pulls, served int
	wrong         []string
}

// show brings up a containerd, runs the examples on it and takes it down.
func show(ctx context.Context, f engine.Flavour, programs string) (results []result, err error) {
	tools, err := f.Find()
	if err != nil {
		return nil, err
	}
	runc, err := exec.CommandContext(ctx, tools.Runc, "--version").Output()
	if err != nil {
		return nil, fmt.Errorf("%s --version: %w", tools.Runc, err)
	}
	name := "containerd " + tools.Version
	first, _, _ := strings.Cut(string(runc), "\n")
	title(fmt.Sprintf("%s (%s), %s (%s)", name, tools.Containerd, strings.Replace(first, " version", "", 1), tools.Runc))

	base, err := engine.NewBase()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(base)
	const wrapper = "containerd-runc"
	i, err := engine.InstallBefore(base, engine.InstallOptions{Programs: programs, Runtimes: map[string]string{wrapper: tools.Runc}})
	if err != nil {
		return nil, err
	}
	e, err := engine.Start(ctx, engine.Options{Flavour: f, Base: base, Handlers: []engine.Handler{{Name: "runc", BinaryName: i.Wrapper(wrapper)}}})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	fmt.Printf("Its own sockets, directories, mount namespace, cgroups and registry, for this demonstration only.\n")
	fmt.Printf("containerd's BinaryName: %s, in front of %s\n", i.Wrapper(wrapper), tools.Runc)
	fmt.Printf("The node's policy, %s/baseline.yaml:\n", i.PolicyDir)
	indent("    ", engine.BaselinePolicy)

	for _, x := range examples(tools.Major) {
		r, err := try(ctx, e, x)
		if err != nil {
			return results, err
		}
		r.engine = name
		results = append(results, r)
	}
	decisions := i.Decisions()
	fmt.Printf("\nThe decision log has %d lines. The last refusal:\n", len(decisions))
	for _, d := range slices.Backward(decisions) {
		if strings.Contains(d, `"decision":"Deny"`) {
			indent("    ", d)
			break
		}
	}
	return results, nil
}

// try runs an example in the kubelet's order and tells each step.
func try(ctx context.Context, e *engine.Engine, x example) (result, error) {
	r := result{example: x}
	fmt.Printf("\n--- %s\n", x.what)
	before, began := e.Registry.Pulls("app:1"), time.Now()
	running, err := e.Kubelet().Run(ctx, x.pod)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return r, err
	}
	took := time.Since(began)
	r.failure, r.pulls, r.served = running.Failure, running.Pulls, e.Registry.Pulls("app:1")-before
	for _, step := range []engine.Step{engine.StepSandbox, engine.StepPull, engine.StepCreate, engine.StepStart} {
		if r.failure != nil && r.failure.Step == step {
			fmt.Printf("    %-16s REFUSED\n", step)
			break
		}
		fmt.Printf("    %-16s done\n", step)
	}
	if r.failure == nil {
		out, err := running.WaitOutput(ctx, "app", "\n")
		if err != nil {
			return r, err
		}
		fmt.Printf("    The pod runs, after %.1f s. It says:\n", took.Seconds())
		indent("        ", out)
	} else {
		fmt.Println("    kubectl describe pod would show:")
		fmt.Printf("        Warning  %s  kubelet  %s\n", r.failure.Reason, r.failure.Event)
	}
	r.check(e)
	return r, running.Remove(ctx)
}

// check says what is not as it must be.
func (r *result) check(e *engine.Engine) {
	wrong := func(format string, args ...any) {
		r.wrong = append(r.wrong, fmt.Sprintf("%s: %s", r.example.what, fmt.Sprintf(format, args...)))
	}
	pulls := 1
	if r.example.step == engine.StepSandbox {
		pulls = 0
	}
	if r.pulls != pulls || r.served != pulls {
		wrong("the kubelet pulled %d times and the registry counted %d: want %d", r.pulls, r.served, pulls)
	}
	switch {
	case r.example.step == "" && r.failure != nil:
		wrong("refused: %v\n%s", r.failure, e.LogTail(20))
	case r.example.step == "":
	case r.failure == nil:
		wrong("started")
	case r.failure.Step != r.example.step:
		wrong("refused at %s: want %s", r.failure.Step, r.example.step)
	default:
		pod := "default/" + r.example.pod.Name
		if r.example.step != engine.StepSandbox {
			pod += ", container app"
		}
		text := fmt.Sprintf("OCI runtime create failed: nodeadmit: pod %s: %s: ", pod, r.example.control)
		if !strings.Contains(r.failure.Event, text) || !strings.Contains(r.failure.Event, `, which policy "baseline" does not allow`) {
			wrong("the event doesn't have %q", text)
		}
	}
}

// table prints all results and returns what is wrong with them.
func table(results []result) (wrong []string) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "ENGINE\tPOD\tRESULT\tIMAGE PULLS\tSEEN BY THE REGISTRY\t")
	for _, r := range results {
		outcome, mark := "started", ""
		if r.failure != nil {
			outcome = "refused at " + string(r.failure.Step)
		}
		if len(r.wrong) > 0 {
			mark = "UNEXPECTED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n", r.engine, r.example.what, outcome, r.pulls, r.served, mark)
		for _, text := range r.wrong {
			wrong = append(wrong, r.engine+": "+text)
		}
	}
	w.Flush()
	return wrong
}

func title(s string) { fmt.Printf("\n=== %s\n\n", s) }

func indent(by, text string) {
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		fmt.Print(by, line)
	}
}
