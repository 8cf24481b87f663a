// Command runtime-judge is the wrapper's second half. The wrapper hands it the
// command lines that may start a container; it judges the bundle and then
// either becomes the runtime or refuses.
//
// It is called with the wrapper's own argv, so that argv[0] tells which runtime
// is wrapped. Nothing is read from the environment.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nodeadmit/nodeadmit/internal/breakglass"
	"github.com/nodeadmit/nodeadmit/internal/config"
	"github.com/nodeadmit/nodeadmit/internal/host"
	"github.com/nodeadmit/nodeadmit/internal/judge"
	"github.com/nodeadmit/nodeadmit/internal/latecheck"
	"github.com/nodeadmit/nodeadmit/internal/ociargs"
	"github.com/nodeadmit/nodeadmit/internal/report"
	"github.com/nodeadmit/nodeadmit/internal/wrapped"
)

func main() {
	s := &start{began: time.Now(), logFormat: "text"}
	defer func() {
		if p := recover(); p != nil {
			f := &judge.Fault{Reason: judge.Internal, Err: fmt.Errorf("internal error: %v", p)}
			if s.decided {
				s.end(&judge.Answer{}, f)
			}
			s.refuse(&judge.Answer{}, f)
		}
	}()
	s.run(os.Args)
}

// start is one command line that may start a container.
type start struct {
	began   time.Time
	once    sync.Mutex // held for good by whoever ends the process
	decided bool       // the main goroutine holds it

	name      string
	command   *ociargs.Command
	config    *config.Config
	log       string
	logFormat string
}

func (s *start) run(argv []string) {
	s.log, s.logFormat = ociargs.LogFile(argv[1:]), logFormat(argv[1:])
	late := time.AfterFunc(config.DefaultDeadline, s.timedOut)
	real, configFile, err := wrapped.Find(argv[0])
	if err != nil {
		s.refuse(&judge.Answer{}, &judge.Fault{Reason: judge.BadConfig, Err: err})
	}
	s.name = filepath.Base(argv[0])
	s.config, err = config.Load(configFile)
	if err != nil {
		s.badConfig(real, argv[1:], err)
	}
	rt, ok := s.config.Runtimes[s.name]
	if !ok {
		s.badConfig(real, argv[1:], fmt.Errorf(
			"%s: runtimes has no %q: add {engine: containerd, grammar: runc}, or what fits (nodeadmit install)", configFile, s.name))
	}
	late.Reset(s.config.Deadline - time.Since(s.began))

	s.command, err = ociargs.Parse(rt.Grammar, argv[1:])
	if err != nil {
		s.refuse(&judge.Answer{}, &judge.Fault{Reason: judge.BadInput, Err: err})
	}
	if !s.command.Judged() {
		s.exec(real, argv[1:])
	}
	s.log, s.logFormat = s.command.Log, s.command.LogFormat

	file := ""
	if s.command.OwnConfig() {
		file = s.command.ConfigPath()
	}
	a := judge.Judge(judge.Request{
		Config: s.config, Engine: rt.Engine, Runtime: s.name, Bundle: s.command.Bundle, File: file, ID: s.command.ID, Host: host.New(),
	})
	if a.Refusal != "" {
		s.refuse(&a, nil)
	}
	notes := s.notes()
	if s.config.LateCheck && a.Document != nil {
		note, err := latecheck.Add(s.config, s.name, s.command, &a)
		if err != nil {
			s.refuse(&a, &judge.Fault{Reason: judge.Internal, Err: fmt.Errorf("late check: %w", err)})
		}
		if note != "" {
			notes = append(notes, note)
		}
	}
	s.once.Lock() // the deadline is met
	s.decided = true
	e := s.entry(&a)
	e.Notes = append(e.Notes, notes...)
	_ = report.Decision(s.config.DecisionLog, e)
	s.exec(real, s.command.Canonical())
}

// badConfig refuses, unless the node's owner wants nothing refused.
func (s *start) badConfig(real string, args []string, err error) {
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w (nodeadmit install)", err)
	}
	fault := &judge.Fault{Reason: judge.BadConfig, Err: err}
	until, berr := breakglass.Active(time.Now())
	if berr != nil || until.IsZero() {
		s.refuse(&judge.Answer{}, fault)
	}
	s.once.Lock()
	s.decided = true
	_ = report.Decision(config.Defaults().DecisionLog, s.entry(&judge.Answer{Err: fault, Overridden: judge.FaultLine(nil, fault), Until: until}))
	s.exec(real, args)
}

// logFormat is what a command line says before it is parsed, for faults until
// then: engines that read the log ask for JSON.
func logFormat(args []string) string {
	for _, a := range args {
		if a == "json" || strings.HasSuffix(a, "log-format=json") {
			return "json"
		}
	}
	return "text"
}

// notes says what of the command line was handed on unread.
func (s *start) notes() []string {
	if len(s.command.Unknown) == 0 {
		return nil
	}
	return []string{"unknown flags handed on: " + strings.Join(s.command.Unknown, " ")}
}

func (s *start) entry(a *judge.Answer) report.Entry {
	e := report.NewEntry(a, s.began)
	e.Runtime, e.Moment = s.name, "create"
	if s.command != nil {
		e.Moment, e.ID, e.Bundle = s.command.Name, s.command.ID, s.command.Bundle
	}
	return e
}

// refuse tells all who ask and ends the process with exit code 1, as runc ends
// for a container that it can't start.
func (s *start) refuse(a *judge.Answer, fault *judge.Fault) {
	s.once.Lock() // for ever, if the deadline's refusal is on its way
	s.decided = true
	s.end(a, fault)
}

func (s *start) timedOut() {
	if !s.once.TryLock() {
		return
	}
	limit := config.DefaultDeadline
	if c := s.config; c != nil {
		limit = c.Deadline
	}
	s.end(&judge.Answer{}, &judge.Fault{Reason: judge.TimedOut, Err: fmt.Errorf("the decision took longer than %s", limit)})
}

func (s *start) end(a *judge.Answer, fault *judge.Fault) {
	if fault != nil {
		a.Err, a.Reason, a.Refusal = fault, fault.Reason, judge.FaultLine(a.Intent, fault)
	}
	_ = report.RuntimeLog(s.log, s.logFormat, a.Refusal)
	logPath := config.Defaults().DecisionLog
	if s.config != nil {
		logPath = s.config.DecisionLog
	}
	_ = report.Decision(logPath, s.entry(a))
	report.Stderr(os.Stderr, a.Refusal)
	os.Exit(1)
}

// exec becomes the runtime. Our descriptors are all close-on-exec.
func (s *start) exec(real string, args []string) {
	argv := append([]string{filepath.Base(real)}, args...)
	err := syscall.Exec(real, argv, os.Environ())
	s.end(&judge.Answer{}, &judge.Fault{Reason: judge.BadConfig, Err: fmt.Errorf("start the runtime %s: %w", real, err)})
}
