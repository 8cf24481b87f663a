package evaluator

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeadmit/nodeadmit/internal/rootfile"
	"github.com/nodeadmit/nodeadmit/internal/version"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// DefaultSocket is where a resident evaluator listens.
const DefaultSocket = "/run/nodeadmit/evaluator.sock"

// Client asks an evaluator.
type Client struct {
	// Socket is the resident evaluator's.
	Socket string
	// Program is nodeadmit's path. "" looks for it beside this program, and where
	// it is installed.
	Program string
	// Deadline is that of the whole decision.
	Deadline time.Duration
}

// Budget is how long an answer may take, of a decision's deadline: it leaves time
// to ask a second evaluator where the first one hangs.
func Budget(deadline time.Duration) time.Duration { return deadline * 2 / 5 }

const (
	// acceptTime is how long a resident evaluator may take to read a question.
	acceptTime = 200 * time.Millisecond
	// maxComplaint bounds what of a failed evaluator's stderr is told, in bytes.
	maxComplaint = 300
)

// Ask returns the answer. The error says why there is none; nothing may be started
// then. passed is why a resident evaluator was passed over, if there is one.
func (c *Client) Ask(r *Request) (a *Response, passed error, err error) {
	r.APIVersion, r.Version, r.Budget = APIVersion, version.Version, Budget(c.Deadline)
	if r.ID, err = newID(); err != nil {
		return nil, nil, err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return nil, nil, err
	}
	if len(data) > MaxRequest {
		return nil, nil, fmt.Errorf("the question has %d bytes, which is more than %d", len(data), MaxRequest)
	}
	a, passed = c.askResident(r, data)
	if a != nil {
		return a, nil, nil
	}
	if errors.Is(passed, fs.ErrNotExist) || errors.Is(passed, errDeclined) {
		passed = nil // there is none, or not for this
	}
	a, err = c.askOnce(r, data)
	return a, passed, err
}

// askResident asks over the socket. Socket and peer must be root's.
func (c *Client) askResident(r *Request, data []byte) (*Response, error) {
	if err := checkSocket(c.Socket); err != nil {
		return nil, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	s := &conn{fd: fd}
	defer unix.Close(fd)
	s.deadline = time.Now().Add(acceptTime)
	if err := s.connect(c.Socket); err != nil {
		return nil, err
	}
	if err := s.send(data); err != nil {
		return nil, fmt.Errorf("ask %s: %w", c.Socket, err)
	}
	var accepted [1]byte
	if err := s.fill(accepted[:]); err == nil && accepted[0] == Declined {
		return nil, errDeclined
	} else if err != nil || accepted[0] != Accepted {
		return nil, fmt.Errorf("%s doesn't take the question: %w", c.Socket, errors.Join(err, errNotAccepted))
	}
	s.deadline = time.Now().Add(r.Budget + c.Deadline/20)
	answer, err := s.receive()
	if err != nil {
		return nil, fmt.Errorf("%s gives no answer: %w", c.Socket, err)
	}
	a, err := readResponse(r, answer)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Socket, err)
	}
	return a, nil
}

var (
	errNotAccepted = errors.New("not accepted")
	errDeclined    = errors.New("declined")
)

// checkSocket refuses a socket that others than root could have made or may use.
func checkSocket(name string) error {
	info, err := os.Lstat(name)
	if err != nil {
		return err
	}
	if info.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("%s: is no socket", name)
	}
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("%s: mode %04o lets others use it: want 0600", name, perm)
	}
	if err := rootfile.Check(name, info); err != nil {
		return err
	}
	return rootfile.CheckDir(filepath.Dir(name))
}

// conn is a stream socket with a deadline.
type conn struct {
	fd       int
	deadline time.Time
}

// arm sets how long one call may take. The kernel counts anew for each.
func (s *conn) arm(option int) error {
	left := time.Until(s.deadline)
	if left <= 0 {
		return os.ErrDeadlineExceeded
	}
	tv := unix.NsecToTimeval(int64(max(left, time.Millisecond)))
	return unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, option, &tv)
}

// connect blocks while the listener's queue is full, at most the send time-out.
func (s *conn) connect(name string) error {
	if err := s.arm(unix.SO_SNDTIMEO); err != nil {
		return err
	}
	if err := retried(func() error { return unix.Connect(s.fd, &unix.SockaddrUnix{Name: name}) }); err != nil {
		return fmt.Errorf("connect to %s: %w", name, err)
	}
	peer, err := unix.GetsockoptUcred(s.fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return err
	}
	if peer.Uid != 0 {
		return fmt.Errorf("%s: uid %d listens there: want root", name, peer.Uid)
	}
	return nil
}

func retried(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return timedOut(err)
		}
	}
}

func timedOut(err error) error {
	if err == unix.EAGAIN || err == unix.EINPROGRESS {
		return os.ErrDeadlineExceeded
	}
	return err
}

func (s *conn) send(data []byte) error {
	data = append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
	for len(data) > 0 {
		if err := s.arm(unix.SO_SNDTIMEO); err != nil {
			return err
		}
		var n int
		err := retried(func() (err error) {
			n, err = unix.SendmsgN(s.fd, data, nil, nil, unix.MSG_NOSIGNAL)
			return err
		})
		if err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

func (s *conn) fill(p []byte) error {
	for len(p) > 0 {
		if err := s.arm(unix.SO_RCVTIMEO); err != nil {
			return err
		}
		var n int
		err := retried(func() (err error) {
			n, err = unix.Read(s.fd, p)
			return err
		})
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		p = p[n:]
	}
	return nil
}

func (s *conn) receive() ([]byte, error) {
	var size [4]byte
	if err := s.fill(size[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > MaxResponse {
		return nil, fmt.Errorf("it has %d bytes, which is more than %d", n, MaxResponse)
	}
	out := make([]byte, n)
	return out, s.fill(out)
}

// installed is where nodeadmit is found if it isn't beside our own program.
const installed = "/usr/bin/nodeadmit"

// program is the path of nodeadmit, which must be root's.
func (c *Client) program() (string, error) {
	name := c.Program
	if name == "" {
		self, err := os.Readlink("/proc/self/exe")
		if err != nil {
			return "", err
		}
		name = filepath.Join(filepath.Dir(self), "nodeadmit")
		if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
			name = installed
		}
	}
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(name)
	if err != nil {
		return "", err
	}
	return name, rootfile.Check(name, info)
}

// askOnce starts an evaluator for this question. It gets nothing of our
// environment or working directory, and is killed with all its children when its
// time is over.
func (c *Client) askOnce(r *Request, data []byte) (*Response, error) {
	name, err := c.program()
	if err != nil {
		return nil, err
	}
	limit := r.Budget + c.Deadline/10
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	stdout, stderr := &bounded{limit: MaxResponse}, &bounded{limit: 4 << 10}
	cmd := exec.CommandContext(ctx, name, "evaluate")
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.Dir = "/"
	cmd.Stdin = bytes.NewReader(data)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// A child that outlives it and holds its output is not waited for.
	cmd.WaitDelay = 50 * time.Millisecond
	err = cmd.Run()
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // what it left behind
	}
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%s evaluate gave no answer within %s", name, limit)
	case stdout.full:
		return nil, fmt.Errorf("%s evaluate said more than %d bytes", name, MaxResponse)
	case err != nil:
		return nil, fmt.Errorf("%s evaluate: %w%s", name, err, complaint(stderr))
	}
	a, err := readResponse(r, stdout.data)
	if err != nil {
		return nil, fmt.Errorf("%s evaluate: %w", name, err)
	}
	return a, nil
}

// complaint is the first line that a failed evaluator wrote.
func complaint(b *bounded) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(b.data)), "\n")
	if line == "" {
		return ""
	}
	if len(line) > maxComplaint {
		line = line[:maxComplaint] + "..."
	}
	return ": " + strings.TrimSuffix(strings.TrimPrefix(line, "nodeadmit: "), "\n")
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

// MomentOf returns when a question about an intent is asked.
func MomentOf(in *spec.Intent, late bool) Moment {
	switch {
	case in.Kind == spec.KindUnmanaged:
		return Unmanaged
	case late:
		return Late
	case in.Kind == spec.KindSandbox:
		return Sandbox
	}
	return Container
}
