// Package report tells a decision to those who read it: the engine, through
// the runtime's log file and stderr, and the node's owner, through the
// decision log. Nothing here changes a decision: what can't be written is not
// written.
package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/nodeadmit/nodeadmit/internal/judge"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// RuntimeLog appends a line at level error to the runtime's log file, as runc
// does: containerd shows the last such line of --log, and nothing else.
// format is "json" or "text". crun's prefix "file:" is understood; its other
// destinations are not files.
func RuntimeLog(path, format, message string) error {
	path = strings.TrimPrefix(path, "file:")
	if path == "" || strings.HasPrefix(path, "journald:") || strings.HasPrefix(path, "syslog:") {
		return nil
	}
	var line bytes.Buffer
	l := logrus.New()
	l.SetOutput(&line)
	if format == "json" {
		l.SetFormatter(&logrus.JSONFormatter{})
	} else {
		l.SetFormatter(&logrus.TextFormatter{DisableColors: true})
	}
	l.Error(message)
	return appendTo(path, 0, 0o644, line.Bytes())
}

// appendTo adds to a file, which is made if needed. It never waits: an [os.File]
// would, for a pipe that nobody reads.
func appendTo(path string, flags int, perm uint32, data []byte) error {
	fd, err := retry(func() (int, error) {
		return syscall.Open(path, flags|syscall.O_WRONLY|syscall.O_CREAT|syscall.O_APPEND|syscall.O_NONBLOCK|syscall.O_CLOEXEC, perm)
	})
	if err != nil {
		return &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer syscall.Close(fd)
	for len(data) > 0 {
		n, err := retry(func() (int, error) { return syscall.Write(fd, data) })
		if err != nil {
			return &fs.PathError{Op: "write", Path: path, Err: err}
		}
		data = data[n:]
	}
	return nil
}

func retry(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != syscall.EINTR {
			return n, err
		}
	}
}

// Stderr writes the line where conmon and people read it. A closed pipe must
// not kill us before we exit by our own code.
func Stderr(w io.Writer, message string) {
	_, _ = io.WriteString(w, message+"\n")
}

// Entry is one line of the decision log.
type Entry struct {
	Time         string             `json:"time"`
	Decision     string             `json:"decision"`
	Moment       string             `json:"moment"`
	Runtime      string             `json:"runtime,omitempty"`
	ID           string             `json:"id,omitempty"`
	Bundle       string             `json:"bundle,omitempty"`
	Kind         string             `json:"kind,omitempty"`
	Pod          *Pod               `json:"pod,omitempty"`
	Message      string             `json:"message,omitempty"`
	Error        string             `json:"error,omitempty"`
	Violations   []policy.Violation `json:"violations,omitempty"`
	Undetermined []policy.Note      `json:"undetermined,omitempty"`
	Exempt       []policy.Note      `json:"exempt,omitempty"`
	Inactive     []policy.Note      `json:"inactiveExemptions,omitempty"`
	Unmanaged    string             `json:"unmanaged,omitempty"`
	PolicyDigest string             `json:"policyDigest,omitempty"`
	// StalePolicy is set while the policy directory doesn't load and the last
	// good policy is in force.
	StalePolicy  *StalePolicy `json:"stalePolicy,omitempty"`
	ConfigDigest string       `json:"configDigest,omitempty"`
	// Notes are things to know that decided nothing.
	Notes        []string `json:"notes,omitempty"`
	Milliseconds float64  `json:"milliseconds"`
}

// StalePolicy says since when a policy is kept, and why it is.
type StalePolicy struct {
	Since string `json:"since"`
	Error string `json:"error"`
}

// Pod is whose container it was, as far as known.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	SandboxID string `json:"sandboxID,omitempty"`
	Container string `json:"container,omitempty"`
	Image     string `json:"image,omitempty"`
}

// NewPod returns the identity for output, or nil for no pod.
func NewPod(in *spec.Intent) *Pod {
	if in == nil || in.Kind == spec.KindUnmanaged {
		return nil
	}
	return &Pod{
		Namespace: in.Pod.Namespace.Value, Name: in.Pod.Name.Value, UID: in.Pod.UID.Value,
		SandboxID: in.Pod.SandboxID.Value, Container: in.Pod.Container.Value, Image: in.Pod.Image.Value.Name,
	}
}

// NewEntry returns the entry for an answer.
func NewEntry(a *judge.Answer, start time.Time) Entry {
	e := Entry{
		Time: start.UTC().Format(time.RFC3339Nano), Decision: Word(a.Refusal == ""), Message: a.Refusal,
		Pod: NewPod(a.Intent), Violations: a.Decision.Violations, Undetermined: a.Decision.Undetermined,
		Exempt: a.Decision.Exempt, Inactive: a.Decision.Inactive, Unmanaged: string(a.Unmanaged), PolicyDigest: a.PolicyDigest(),
		Milliseconds: float64(time.Since(start).Microseconds()) / 1000,
	}
	e.Notes = append(e.Notes, a.Notes...)
	if n := len(e.Violations); n > maxViolations {
		e.Violations = e.Violations[:maxViolations]
		e.Notes = append(e.Notes, fmt.Sprintf("%d more violations are left out", n-maxViolations))
	}
	if p := a.Policy; p != nil && p.Stale != nil {
		e.StalePolicy = &StalePolicy{Since: p.Since.UTC().Format(time.RFC3339), Error: p.Stale.Error()}
	}
	if p := a.Policy; p != nil && p.Uncompiled != nil {
		e.Notes = append(e.Notes, "the policy can't be kept as the last good one: "+p.Uncompiled.Error())
	}
	if a.Overridden != "" {
		e.Message = a.Overridden
		e.Notes = append(e.Notes, "BREAK-GLASS: allowed all the same, since nothing is refused until "+a.Until.UTC().Format(time.RFC3339)+" (nodeadmit enable)")
	}
	if a.Err != nil {
		e.Error = a.Err.Error()
	}
	if a.Intent != nil {
		e.Kind = string(a.Intent.Kind)
	}
	if a.Document != nil {
		e.ConfigDigest = a.Document.Digest
	}
	return e
}

// maxViolations bounds an entry: each of a pod's mounts can be a violation.
const maxViolations = 50

// Word is how a decision is written.
func Word(allowed bool) string {
	if allowed {
		return "Allow"
	}
	return "Deny"
}

// Decision appends one line to the decision log. The directory is made if its
// parent exists.
func Decision(path string, e Entry) error {
	if path == "" {
		return nil
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	err = appendTo(path, syscall.O_NOFOLLOW, 0o640, line)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.Mkdir(filepath.Dir(path), 0o750); err != nil {
			return err
		}
		err = appendTo(path, syscall.O_NOFOLLOW, 0o640, line)
	}
	return err
}
