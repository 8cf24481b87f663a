// Command oci-hook judges a container that is being made: it runs as a prestart
// or createRuntime hook, when namespaces and mounts are real and nothing of the
// container has run.
//
// The runtime gives the container's state on stdin. Nothing is taken from the
// working directory or the environment. Exit code 0 lets the container start;
// every other refuses it and says why (see internal/judge.Reason), since crun
// shows nothing else of a hook.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/internal/config"
	"github.com/nodeadmit/nodeadmit/internal/host"
	"github.com/nodeadmit/nodeadmit/internal/judge"
	"github.com/nodeadmit/nodeadmit/internal/ociargs"
	"github.com/nodeadmit/nodeadmit/internal/record"
	"github.com/nodeadmit/nodeadmit/internal/report"
	"github.com/nodeadmit/nodeadmit/internal/version"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// maxState bounds the state document, in bytes. It repeats the annotations.
const maxState = 16 << 20

func main() {
	os.Clearenv()
	// A reader that went away must not kill us before we say our exit code.
	signal.Ignore(syscall.SIGPIPE)
	h := &hook{began: time.Now()}
	if err := os.Chdir("/"); err != nil {
		h.refuse(&judge.Answer{}, &judge.Fault{Reason: judge.Internal, Err: err})
	}
	defer func() {
		if p := recover(); p != nil {
			f := &judge.Fault{Reason: judge.Internal, Err: fmt.Errorf("internal error: %v", p)}
			if h.decided {
				h.end(&judge.Answer{}, f)
			}
			h.refuse(&judge.Answer{}, f)
		}
	}()
	h.run(os.Args[1:], os.Stdin)
}

type hook struct {
	began   time.Time
	once    sync.Mutex // held for good by whoever ends the process
	decided bool       // the main goroutine holds it
	options options
	config  *config.Config
	grammar ociargs.Grammar
	state   specs.State
}

type options struct {
	config, runtime, engine, root string
	late                          bool
}

// parse reads the hook's arguments. There are few, and cobra would cost every
// container a millisecond.
func parse(args []string) (options, error) {
	var o options
	fs := flag.NewFlagSet("oci-hook", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&o.config, "config", config.DefaultPath, "configuration `file`")
	fs.StringVar(&o.runtime, "runtime", "", "`name` under runtimes in the configuration")
	fs.StringVar(&o.engine, "engine", "", "`engine` that writes the bundles, if no runtime is named: containerd, crio, podman, docker or none")
	fs.BoolVar(&o.late, "late", false, "the wrapper has judged the bundle before")
	fs.StringVar(&o.root, "root", "", "the runtime's --root, under which the wrapper recorded what it judged")
	showVersion := fs.Bool("version", false, "print the version")
	err := fs.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fs.SetOutput(os.Stdout)
		fmt.Println("oci-hook: a prestart or createRuntime hook; the container's state is read from stdin")
		fs.PrintDefaults()
		os.Exit(0)
	}
	if *showVersion {
		fmt.Println("oci-hook", version.Version)
		os.Exit(0)
	}
	switch {
	case err != nil:
		return o, err
	case fs.NArg() > 0 && fs.Arg(0) != "prestart" && fs.Arg(0) != "createRuntime":
		return o, fmt.Errorf("unknown argument %q", fs.Arg(0))
	case !filepath.IsAbs(o.config):
		return o, fmt.Errorf("--config %q: want an absolute path", o.config)
	case o.runtime == "" && o.engine == "":
		return o, errors.New("want --runtime or --engine")
	}
	return o, nil
}

func (h *hook) run(args []string, stdin io.Reader) {
	late := time.AfterFunc(config.DefaultDeadline, h.timedOut)
	// The runtime may wait until all of the state is read.
	data, err := io.ReadAll(io.LimitReader(stdin, maxState+1))
	_, _ = io.Copy(io.Discard, stdin)
	tooLarge := err != nil || len(data) > maxState
	h.options, err = parse(args)
	if err != nil {
		h.refuse(&judge.Answer{}, fault(judge.BadConfig, err))
	}
	h.config, err = config.Load(h.options.config)
	if err != nil {
		h.refuse(&judge.Answer{}, fault(judge.BadConfig, err))
	}
	late.Reset(h.config.Deadline - time.Since(h.began))
	engine, err := h.engine()
	if err != nil {
		h.refuse(&judge.Answer{}, fault(judge.BadConfig, err))
	}
	if tooLarge {
		h.refuse(&judge.Answer{}, fault(judge.BadInput, fmt.Errorf("state on stdin: not readable, or larger than %d bytes", maxState)))
	}
	if err := h.readState(data); err != nil {
		h.refuse(&judge.Answer{}, fault(judge.BadInput, fmt.Errorf("state on stdin: %w", err)))
	}
	a := judge.Judge(judge.Request{
		Config: h.config, Engine: engine, Runtime: h.options.runtime, Bundle: h.state.Bundle, ID: h.state.ID, PID: h.state.Pid, Late: h.options.late, Host: host.New(),
	})
	if a.Refusal != "" {
		h.refuse(&a, nil)
	}
	h.once.Lock() // the deadline is met
	h.decided = true
	e := h.entry(&a)
	e.Notes = append(e.Notes, h.compare(&a)...)
	_ = report.Decision(h.config.DecisionLog, e)
}

func fault(r judge.Reason, err error) *judge.Fault { return &judge.Fault{Reason: r, Err: err} }

// engine returns what wrote the bundle: the configuration says it, never the
// bundle.
func (h *hook) engine() (spec.Engine, error) {
	if h.options.runtime != "" {
		rt, ok := h.config.Runtimes[h.options.runtime]
		if !ok {
			return spec.Engine{}, fmt.Errorf("%s: runtimes has no %q", h.config.File, h.options.runtime)
		}
		h.grammar = rt.Grammar
		return rt.Engine, nil
	}
	d, err := spec.ParseDialect(h.options.engine)
	if err != nil {
		return spec.Engine{}, err
	}
	return spec.NewEngine(d), nil
}

// readState reads the OCI state. crun adds the key root and says "created".
func (h *hook) readState(data []byte) error {
	if err := json.Unmarshal(data, &h.state); err != nil {
		return err
	}
	switch {
	case h.state.Bundle == "":
		return errors.New("bundle is missing")
	case !filepath.IsAbs(h.state.Bundle):
		return fmt.Errorf("bundle is %s: want an absolute path", spec.Quote(h.state.Bundle))
	case h.state.Pid <= 1:
		return fmt.Errorf("pid is %d: this hook belongs at prestart or createRuntime, where the container's process is seen", h.state.Pid)
	}
	return nil
}

// compare tells whether the judged document is the one that the wrapper
// judged. Another hook or NRI may have changed it: then this judgement counts.
func (h *hook) compare(a *judge.Answer) []string {
	if !h.options.late {
		return nil
	}
	r, err := record.Read(record.Dir, h.options.root, h.state.ID)
	switch {
	case err != nil:
		return []string{"no record of what the wrapper judged: " + err.Error()}
	case r.Digest != a.Document.Digest:
		return []string{"config.json changed since the wrapper judged it as " + r.Digest}
	}
	return nil
}

func (h *hook) entry(a *judge.Answer) report.Entry {
	e := report.NewEntry(a, h.began)
	e.Moment, e.Runtime, e.ID, e.Bundle = "hook", h.options.runtime, h.state.ID, h.state.Bundle
	return e
}

func (h *hook) timedOut() {
	if h.once.TryLock() {
		h.end(&judge.Answer{}, fault(judge.TimedOut, errors.New("the decision took too long")))
	}
}

func (h *hook) refuse(a *judge.Answer, f *judge.Fault) {
	h.once.Lock() // for ever, if the deadline's refusal is on its way
	h.decided = true
	h.end(a, f)
}

// end writes the reason and exits with its code. Only runc shows a hook's
// stderr to people. crun can be made to append it to any file, as root, by an
// annotation that a pod author writes (run.oci.hooks.stderr), so for it nothing
// is written that a pod author could word.
func (h *hook) end(a *judge.Answer, f *judge.Fault) {
	if f != nil {
		a.Err, a.Reason, a.Refusal = f, f.Reason, judge.FaultLine(a.Intent, f)
	}
	logPath := config.Defaults().DecisionLog
	if h.config != nil {
		logPath = h.config.DecisionLog
	}
	_ = report.Decision(logPath, h.entry(a))
	text := a.Refusal
	if h.grammar != ociargs.Runc {
		switch a.Reason {
		case judge.BadConfig, judge.BadPolicy, judge.TimedOut:
			text = judge.FaultLine(nil, a.Err) // the node owner's words alone
		default:
			text = fmt.Sprintf("nodeadmit: refused, reason %d: see the decision log", a.Reason)
		}
	}
	report.Stderr(os.Stderr, text)
	os.Exit(int(a.Reason))
}
