package plugin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/nodeadmit/nodeadmit/internal/rootfile"
)

// Commands of an exec plugin, in NODEADMIT_COMMAND.
const (
	commandVariable = "NODEADMIT_COMMAND"
	commandReview   = "REVIEW"
	commandVersion  = "VERSION"
	commandCheck    = "CHECK"
)

// maxOutput bounds what a plugin may say, in bytes.
const maxOutput = 1 << 20

// Error is what an exec plugin writes when it exits with a code other than 0.
//
// Codes below 100 are the protocol's: 1 a version that it doesn't speak, 4 a wrong
// environment, 6 a request that it can't read, 7 its own configuration, 11 try
// again later. Others are its own.
type Error struct {
	APIVersion string `json:"apiVersion"`
	Code       int    `json:"code"`
	Msg        string `json:"msg"`
	Details    string `json:"details,omitempty"`
}

func (e *Error) Error() string {
	out := fmt.Sprintf("error %d: %s", e.Code, text(e.Msg))
	if e.Details != "" {
		out += ": " + text(e.Details)
	}
	return out
}

// Version is the answer to VERSION.
type Version struct {
	APIVersion        string   `json:"apiVersion"`
	SupportedVersions []string `json:"supportedVersions"`
}

// execAsker starts a program for each question.
type execAsker struct{ *Config }

func (a *execAsker) close() {}

func (a *execAsker) review(ctx context.Context, r *Request) (*Response, error) {
	data, err := json.Marshal(r.withUID())
	if err != nil {
		return nil, err
	}
	out, err := a.run(ctx, commandReview, data)
	if err != nil {
		return nil, err
	}
	return readResponse(out)
}

func readResponse(data []byte) (*Response, error) {
	var a Response
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, fmt.Errorf("its answer is no JSON: %w", err)
	}
	if a.APIVersion != APIVersion {
		return nil, fmt.Errorf("its answer is of apiVersion %q: want %s", a.APIVersion, APIVersion)
	}
	return &a, nil
}

func (a *execAsker) check(ctx context.Context) error {
	out, err := a.run(ctx, commandVersion, nil)
	if err != nil {
		return err
	}
	var v Version
	if err := json.Unmarshal(out, &v); err != nil {
		return fmt.Errorf("VERSION: %w", err)
	}
	if !slices.Contains(v.SupportedVersions, APIVersion) {
		return fmt.Errorf("speaks %q: want %s", v.SupportedVersions, APIVersion)
	}
	_, err = a.run(ctx, commandCheck, nil)
	return err
}

// run starts the program. It gets nothing of our environment, and is killed with
// all that it started when its time is over, or when it has answered.
func (a *execAsker) run(ctx context.Context, command string, in []byte) ([]byte, error) {
	if err := checkProgram(a.Command); err != nil {
		return nil, err
	}
	var (
		out, complaint *bounded
		err            error
	)
	for range 5 {
		if out, complaint, err = a.start(ctx, command, in); !errors.Is(err, syscall.ETXTBSY) {
			break
		}
		time.Sleep(10 * time.Millisecond) // it is being installed
	}
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case out.full:
		return nil, fmt.Errorf("said more than %d bytes", maxOutput)
	case err == nil:
		return out.data, nil
	}
	var e Error
	var exit *exec.ExitError
	if errors.As(err, &exit) && json.Unmarshal(out.data, &e) == nil && e.Code != 0 {
		return nil, &e
	}
	if len(complaint.data) > 0 {
		return nil, fmt.Errorf("%w: %s", err, text(string(complaint.data)))
	}
	return nil, err
}

// start starts the program once. What it leaves behind is killed when it ends, so
// that nobody holds its output.
func (a *execAsker) start(ctx context.Context, command string, in []byte) (stdout, stderr *bounded, err error) {
	cmd := exec.CommandContext(ctx, a.Command, a.Args...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", commandVariable + "=" + command}
	cmd.Dir = "/"
	cmd.Stdin = bytes.NewReader(in)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 100 * time.Millisecond // for who doesn't read the question
	stdout, stderr = &bounded{limit: maxOutput}, &bounded{limit: 4 << 10}
	var reading sync.WaitGroup
	var ends []*os.File
	for _, p := range []struct {
		to *io.Writer
		b  *bounded
	}{{&cmd.Stdout, stdout}, {&cmd.Stderr, stderr}} {
		r, w, err := os.Pipe()
		if err != nil {
			return stdout, stderr, err
		}
		defer r.Close()
		defer w.Close()
		*p.to = w
		ends = append(ends, r, w)
		reading.Go(func() { _, _ = io.Copy(p.b, r) })
	}
	if err = cmd.Start(); err == nil {
		err = cmd.Wait()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	for i := range ends {
		if i%2 == 1 {
			_ = ends[i].Close()
		} else { // for a child that is in no group of ours any more
			_ = ends[i].SetReadDeadline(time.Now().Add(100 * time.Millisecond))
		}
	}
	reading.Wait()
	return stdout, stderr, err
}

// checkProgram refuses a program that others than root could have written.
func checkProgram(name string) error {
	real, err := filepath.EvalSymlinks(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(real)
	if err != nil {
		return err
	}
	if err := rootfile.Check(real, info); err != nil {
		return err
	}
	return rootfile.CheckDir(filepath.Dir(real))
}

// bounded keeps the first bytes that are written, and takes the others.
type bounded struct {
	data  []byte
	limit int
	full  bool
}

func (b *bounded) Write(p []byte) (int, error) {
	room := b.limit - len(b.data)
	b.full = b.full || len(p) > room
	b.data = append(b.data, p[:min(len(p), room)]...)
	return len(p), nil
}
