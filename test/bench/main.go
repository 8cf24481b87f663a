// Command bench measures what nodeadmit costs, as ratios within one run against
// the bare runtime and against the least that a Go program in front of it can
// be. Rounds are interleaved, so that a busy machine is busy for all.
//
// usage: bench [-rounds N] [-pods N] [-quick] [-o text|json] [distribution|module]...
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/nodeadmit/nodeadmit/test/engine"
)

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 400, "rounds of single commands")
	flag.IntVar(&o.pods, "pods", 60, "pods per way through each containerd")
	quick := flag.Bool("quick", false, "few rounds: shows that it works, not what it costs")
	output := flag.String("o", "text", "output `format`: text or json")
	flag.Parse()
	if *quick {
		o.rounds, o.pods = 20, 3
	}
	rows, err := run(context.Background(), o, flag.Args())
	if err == nil {
		err = show(rows, *output)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

type options struct{ rounds, pods int }

// row is one way of doing something, with its times.
type row struct {
	What string `json:"what"`
	Way  string `json:"way"`
	// P25 and Median are in milliseconds.
	P25    float64 `json:"p25"`
	Median float64 `json:"median"`
	// Ratio is Median by that of the first way of the same thing, RatioP25 the
	// same of the lower quartiles, which a busy machine disturbs less.
	Ratio    float64 `json:"ratio"`
	RatioP25 float64 `json:"ratioP25"`
	Goal     string  `json:"goal,omitempty"`
}

// way is one way of doing what others do as well.
type way struct {
	name, goal string
	do         func() error
	// after cleans up, outside the time.
	after func() error
}

// measure does all ways in turn, and the first few rounds for nothing.
func measure(what string, rounds int, ways []way) ([]row, error) {
	times := make([][]float64, len(ways))
	for round := range rounds + 2 {
		for i, w := range ways {
			start := time.Now()
			if err := w.do(); err != nil {
				return nil, fmt.Errorf("%s, %s: %w", what, w.name, err)
			}
			took := time.Since(start)
			if w.after != nil {
				if err := w.after(); err != nil {
					return nil, fmt.Errorf("%s, %s: %w", what, w.name, err)
				}
			}
			if round >= 2 {
				times[i] = append(times[i], float64(took.Microseconds())/1000)
			}
		}
	}
	var rows []row
	for i, t := range times {
		slices.Sort(t)
		r := row{What: what, Way: ways[i].name, P25: t[len(t)/4], Median: t[len(t)/2], Goal: ways[i].goal}
		rows = append(rows, r)
		rows[i].Ratio, rows[i].RatioP25 = r.Median/rows[0].Median, r.P25/rows[0].P25
	}
	return rows, nil
}

func run(ctx context.Context, o options, names []string) ([]row, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("container engines need root")
	}
	flavours := []engine.Flavour{engine.Distribution, engine.Module}
	if len(names) > 0 {
		flavours = nil
		for _, n := range names {
			flavours = append(flavours, engine.Flavour(n))
		}
	}
	programs, err := os.MkdirTemp("", "nodeadmit-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(programs)
	if err := engine.Build(programs); err != nil {
		return nil, err
	}
	minimal := filepath.Join(programs, "minimal")
	build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", minimal, "./test/bench/minimal")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	rows, err := commands(o, programs)
	if err != nil {
		return nil, err
	}
	for _, f := range flavours {
		r, err := pods(ctx, o, f, programs)
		if err != nil {
			return nil, err
		}
		rows = append(rows, r...)
	}
	return rows, nil
}

// commands measures single calls of the runtime.
func commands(o options, programs string) ([]row, error) {
	runc, err := exec.LookPath("runc")
	if err != nil {
		return nil, err
	}
	base, err := os.MkdirTemp("/run", "nodeadmit-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(base)
	bundle, err := makeBundle(base, runc, filepath.Join(programs, "minimal"))
	if err != nil {
		return nil, err
	}
	ways := map[string]string{"bare": runc}
	minimal := filepath.Join(base, "minimal")
	if err := errors.Join(os.Symlink(filepath.Join(programs, "minimal"), minimal), os.Symlink(runc, minimal+".real")); err != nil {
		return nil, err
	}
	ways["minimal"] = minimal
	for name, config := range map[string]string{"late": "lateCheck: true\n", "early": "lateCheck: false\n"} {
		i, err := engine.Install(engine.InstallOptions{
			Dir: filepath.Join(base, name), Programs: programs, Config: config,
			Runtimes: map[string]string{"containerd-runc": runc},
		})
		if err != nil {
			return nil, err
		}
		ways[name] = i.Wrapper("containerd-runc")
	}
	root := filepath.Join(base, "root")
	state := func(program string) func() error {
		// A container that there is not: the runtime does the least.
		return func() error {
			err := call(program, "--root", root, "state", "none")
			var exit *exec.ExitError
			if errors.As(err, &exit) && exit.ExitCode() == 1 {
				return nil
			}
			return fmt.Errorf("state of no container: %v", err)
		}
	}
	rows, err := measure("pass-through (state)", o.rounds, []way{
		{"a minimal Go exec in front of runc", "", state(ways["minimal"]), nil},
		{"nodeadmit in front of runc", "at most 1.05", state(ways["late"]), nil},
		{"runc", "", state(runc), nil},
	})
	if err != nil {
		return nil, err
	}
	original, err := os.ReadFile(filepath.Join(bundle, "config.json"))
	if err != nil {
		return nil, err
	}
	create := func(program string) func() error {
		return func() error {
			// The late check changes the bundle, as each engine's is new.
			if err := os.WriteFile(filepath.Join(bundle, "config.json"), original, 0o644); err != nil {
				return err
			}
			if err := call(program, "--root", root, "create", "--bundle", bundle, "x"); err != nil {
				return err
			}
			return nil
		}
	}
	remove := func() error { return call(runc, "--root", root, "delete", "--force", "x") }
	more, err := measure("create", max(o.rounds/8, 3), []way{
		{"runc", "", create(runc), remove},
		{"nodeadmit without late check", "", create(ways["early"]), remove},
		{"nodeadmit with late check", "", create(ways["late"]), remove},
	})
	return append(rows, more...), err
}

// call runs a program. A created container holds on to our stdio, so it gets
// none that has to be waited for.
func call(program string, args ...string) error {
	c := exec.Command(program, args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if out, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		defer out.Close()
		c.Stdin, c.Stdout, c.Stderr = out, out, out
	}
	return c.Run()
}

// makeBundle makes a bundle as runc itself would, with a program that is never
// started.
func makeBundle(base, runc, program string) (string, error) {
	bundle := filepath.Join(base, "bundle")
	if err := os.MkdirAll(filepath.Join(bundle, "rootfs", "proc"), 0o755); err != nil {
		return "", err
	}
	if err := copyFile(program, filepath.Join(bundle, "rootfs", "init")); err != nil {
		return "", err
	}
	c := exec.Command(runc, "spec")
	c.Dir = bundle
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	name := filepath.Join(bundle, "config.json")
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	text := strings.NewReplacer(`"terminal": true`, `"terminal": false`, `"sh"`, `"/init"`).Replace(string(data))
	return bundle, os.WriteFile(name, []byte(text), 0o644)
}

// pods measures whole pods: sandbox and container up to its start.
func pods(ctx context.Context, o options, f engine.Flavour, programs string) ([]row, error) {
	tools, err := f.Find()
	if err != nil {
		return nil, err
	}
	base, err := engine.NewBase()
	if err != nil {
		return nil, err
	}
	handlers := []engine.Handler{{Name: "runc", BinaryName: tools.Runc}}
	if err := errors.Join(copyFile(filepath.Join(programs, "minimal"), filepath.Join(base, "minimal")), os.Symlink(tools.Runc, filepath.Join(base, "minimal.real"))); err != nil {
		return nil, err
	}
	handlers = append(handlers, engine.Handler{Name: "minimal", BinaryName: filepath.Join(base, "minimal")})
	for name, config := range map[string]string{"late": "lateCheck: true\n", "early": "lateCheck: false\n"} {
		i, err := engine.InstallBefore(base, engine.InstallOptions{
			Dir: name, Programs: programs, Config: config, Runtimes: map[string]string{"containerd-runc": tools.Runc},
		})
		if err != nil {
			return nil, err
		}
		handlers = append(handlers, engine.Handler{Name: name, BinaryName: i.Wrapper("containerd-runc")})
	}
	e, err := engine.Start(ctx, engine.Options{Flavour: f, Base: base, Handlers: handlers})
	if err != nil {
		return nil, err
	}
	defer e.Close()
	var (
		n       int
		started *engine.Running
	)
	remove := func() error { return started.Remove(ctx) }
	pod := func(handler string) func() error {
		return func() error {
			n++
			r, err := e.Kubelet().Run(ctx, engine.Pod{
				Name: fmt.Sprintf("bench-%d", n), Handler: handler,
				Containers: []engine.Container{{Command: []string{"/bin/sh", "-c", "trap exit TERM; while :; do sleep 1 & wait $!; done"}}},
			})
			if err != nil {
				return err
			}
			if r.Failure != nil {
				return errors.New(r.Failure.Event)
			}
			started = r
			return nil
		}
	}
	what := "pod start, containerd " + e.Tools.Version
	rows, err := measure(what, o.pods, []way{
		{"runc", "", pod("runc"), remove},
		{"a minimal Go exec in front", "", pod("minimal"), remove},
		{"nodeadmit without late check", "at most 1.07", pod("early"), remove},
		{"nodeadmit with late check", "at most 1.12", pod("late"), remove},
	})
	return rows, errors.Join(err, e.Close())
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

func show(rows []row, output string) error {
	if output == "json" {
		enc := json.NewEncoder(os.Stdout)
		enc.SetIndent("", "  ")
		return enc.Encode(rows)
	}
	return table(os.Stdout, rows)
}

func table(w io.Writer, rows []row) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "WHAT\tWAY\tP25 ms\tMEDIAN ms\tRATIO OF P25\tRATIO OF MEDIANS\tGOAL")
	for _, r := range rows {
		fmt.Fprintf(tw, "%s\t%s\t%.2f\t%.2f\t%.3f\t%.3f\t%s\n", r.What, r.Way, r.P25, r.Median, r.RatioP25, r.Ratio, r.Goal)
	}
	return tw.Flush()
}
