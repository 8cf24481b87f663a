// Package serve answers the questions of internal/evaluator's client: it links what
// the light programs don't.
package serve

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"

	"github.com/nodeadmit/nodeadmit/internal/evaluator"
	"github.com/nodeadmit/nodeadmit/internal/policystore"
	"github.com/nodeadmit/nodeadmit/internal/rootfile"
	"github.com/nodeadmit/nodeadmit/internal/version"
	"github.com/nodeadmit/nodeadmit/pkg/cel"
	"github.com/nodeadmit/nodeadmit/pkg/plugin"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// Server answers questions. What it compiled it keeps, by the digest of what it was
// compiled from.
type Server struct {
	// Sandboxed is true in a service that is shut in: what it couldn't do as an
	// evaluator that is started for a question can, it declines.
	Sandboxed bool

	mu       sync.Mutex
	policies map[string]*compiled
	plugins  map[string]*plugin.Set
	node     cel.Node
}

type compiled struct {
	once sync.Once
	cel  *cel.Policies
	err  error
}

// New returns a server.
func New() *Server {
	return &Server{policies: map[string]*compiled{}, plugins: map[string]*plugin.Set{}, node: ThisNode()}
}

// ThisNode is what policies know of the node.
func ThisNode() cel.Node {
	var u unix.Utsname
	_ = unix.Uname(&u)
	return cel.Node{Name: unix.ByteSliceToString(u.Nodename[:]), Kernel: unix.ByteSliceToString(u.Release[:])}
}

// most bounds what is kept: a node has one policy, and for a while the one before.
const most = 4

// Answer answers a question. A panic becomes an answer that decides nothing.
func (s *Server) Answer(ctx context.Context, q *evaluator.Request) (a *evaluator.Response) {
	a = q.Answer()
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(os.Stderr, "nodeadmit: evaluator: %v\n%s", p, debug.Stack())
			a = q.Answer()
			a.Error = fmt.Sprintf("internal error: %v", p)
		}
	}()
	if err := q.Check(); err != nil {
		a.Error = err.Error()
		return a
	}
	ctx, cancel := context.WithTimeout(ctx, q.Budget)
	defer cancel()
	if err := s.answer(ctx, q, a); err != nil {
		a = q.Answer()
		a.Error = err.Error()
		if errors.Is(err, context.DeadlineExceeded) {
			a.Error = fmt.Sprintf("it took longer than %s: %v", q.Budget, err)
		}
	}
	return a
}

func (s *Server) answer(ctx context.Context, q *evaluator.Request, a *evaluator.Response) error {
	in, err := q.Intent.Unwrap()
	if err != nil {
		return err
	}
	policies, err := s.load(q)
	if err != nil {
		return err
	}
	if in.Kind != spec.KindUnmanaged {
		found, err := policies.Evaluate(ctx, &cel.Input{Intent: in, Spec: q.Spec, Node: s.node})
		if err != nil {
			return err
		}
		a.Violations, a.Undetermined, a.Notes = found.Violations, found.Undetermined, found.Notes
	}
	if q.PluginDir != "" && !denied(a.Violations) {
		set, err := s.loadPlugins(q)
		if err != nil {
			return err
		}
		found := set.Review(ctx, &plugin.Question{Moment: string(q.Moment), Intent: in, Spec: q.Spec, Digest: q.BundleDigest, Node: s.node.Name})
		a.Violations = append(a.Violations, found.Violations...)
		a.Notes = append(a.Notes, found.Notes...)
	}
	a.Decided = true
	return nil
}

func denied(list []policy.Violation) bool {
	for _, v := range list {
		if v.Mode == policy.Enforce {
			return true
		}
	}
	return false
}

// load returns the policies of a question's directory, which must be those that
// the questioner has.
func (s *Server) load(q *evaluator.Request) (*cel.Policies, error) {
	key := q.PolicyDir + "\x00" + q.StateDir + "\x00" + q.PolicyDigest
	s.mu.Lock()
	c := s.policies[key]
	if c == nil {
		if len(s.policies) >= most {
			clear(s.policies)
		}
		c = &compiled{}
		s.policies[key] = c
	}
	s.mu.Unlock()
	c.once.Do(func() {
		var l *policystore.Loaded
		if l, c.err = policystore.Load(q.PolicyDir, filepath.Join(q.StateDir, "policy")); c.err != nil {
			return
		}
		if l.Set.Digest != q.PolicyDigest {
			c.err = fmt.Errorf("%s changed while it was read", q.PolicyDir)
			return
		}
		c.cel, c.err = cel.Load(l.Set.External)
	})
	if c.err != nil { // may be mended, with the same files
		s.mu.Lock()
		if s.policies[key] == c {
			delete(s.policies, key)
		}
		s.mu.Unlock()
	}
	return c.cel, c.err
}

func (s *Server) loadPlugins(q *evaluator.Request) (*plugin.Set, error) {
	key := q.PluginDir + "\x00" + q.PluginDigest
	s.mu.Lock()
	defer s.mu.Unlock()
	if set := s.plugins[key]; set != nil {
		return set, nil
	}
	sources, err := policy.ReadSources(q.PluginDir, policy.LoadOptions{RequireRoot: true})
	if err != nil {
		return nil, err
	}
	if sources.Digest != q.PluginDigest {
		return nil, fmt.Errorf("%s changed while it was read", q.PluginDir)
	}
	set, err := plugin.Load(sources)
	if err != nil {
		return nil, err
	}
	for _, old := range s.plugins {
		time.AfterFunc(10*time.Second, old.Close) // questions may be on their way
	}
	clear(s.plugins)
	s.plugins[key] = set
	return set, nil
}

// needsMore reports whether a question needs programs or the network. One that
// can't be told is not for a service that is shut in.
func (s *Server) needsMore(q *evaluator.Request) bool {
	if q.PluginDir == "" {
		return false
	}
	set, err := s.loadPlugins(q)
	return err != nil || !set.SocketsOnly()
}

// Once reads one question and writes its answer.
func (s *Server) Once(ctx context.Context, in io.Reader, out io.Writer) error {
	data, err := io.ReadAll(io.LimitReader(in, evaluator.MaxRequest+1))
	if err != nil {
		return err
	}
	q, err := read(data)
	if err != nil {
		return err
	}
	answer, err := write(s.Answer(ctx, q))
	if err == nil {
		_, err = out.Write(answer)
	}
	return err
}

func read(data []byte) (*evaluator.Request, error) {
	var q evaluator.Request
	if len(data) > evaluator.MaxRequest {
		return nil, fmt.Errorf("the question has more than %d bytes", evaluator.MaxRequest)
	}
	if err := json.Unmarshal(data, &q); err != nil {
		return nil, fmt.Errorf("the question is no JSON: %w", err)
	}
	return &q, nil
}

func write(a *evaluator.Response) ([]byte, error) {
	data, err := json.Marshal(a)
	if err == nil && len(data) > evaluator.MaxResponse {
		return nil, fmt.Errorf("the answer has %d bytes, which is more than %d", len(data), evaluator.MaxResponse)
	}
	return data, err
}

// Listen makes the socket, for root alone, or takes the one that systemd made. One
// that nobody listens on is replaced.
func Listen(name string) (*net.UnixListener, error) {
	given, err := activation.Listeners()
	if err != nil {
		return nil, err
	}
	if len(given) > 0 {
		l, ok := given[0].(*net.UnixListener)
		if !ok || len(given) > 1 {
			return nil, errors.New("systemd gives something else than one unix stream socket")
		}
		return l, nil
	}
	dir := filepath.Dir(name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if err := rootfile.CheckDir(dir); err != nil {
		return nil, err
	}
	if info, err := os.Lstat(name); err == nil {
		if info.Mode()&os.ModeSocket == 0 {
			return nil, fmt.Errorf("%s: is no socket", name)
		}
		if c, err := net.DialTimeout("unix", name, time.Second); err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("%s: an evaluator listens there already", name)
		}
		if err := os.Remove(name); err != nil {
			return nil, err
		}
	}
	old := unix.Umask(0o177)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	unix.Umask(old)
	return l, err
}

const (
	// readTime is how long a question may take to come in.
	readTime = 2 * time.Second
	// atOnce bounds the questions that are worked on; others wait, and are soon
	// asked of an evaluator of their own.
	atOnce = 32
)

// errReplaced: who asks is of another version, so that a package was installed since.
// systemd starts the new one at the next question.
var errReplaced = errors.New("another version asks: this one ends")

// Serve answers questions until the context ends, or until a question comes from
// another version of nodeadmit.
func (s *Server) Serve(ctx context.Context, l *net.UnixListener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	slots := make(chan struct{}, atOnce)
	var wait sync.WaitGroup
	defer wait.Wait()
	for {
		c, err := l.AcceptUnix()
		switch {
		case ctx.Err() != nil || errors.Is(err, net.ErrClosed):
			return nil
		case err != nil:
			return err
		}
		slots <- struct{}{}
		wait.Go(func() {
			defer func() { <-slots }()
			defer c.Close()
			err := s.serve(ctx, c)
			if errors.Is(err, errReplaced) {
				_ = l.Close()
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, "nodeadmit: evaluator:", err)
			}
		})
	}
}

func (s *Server) serve(ctx context.Context, c *net.UnixConn) error {
	if err := checkPeer(c); err != nil {
		return err
	}
	if err := c.SetDeadline(time.Now().Add(readTime)); err != nil {
		return err
	}
	var size [4]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return ignoreEOF(err)
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > evaluator.MaxRequest {
		return fmt.Errorf("a question of %d bytes", n)
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(c, data); err != nil {
		return err
	}
	q, err := read(data)
	if err != nil {
		return err
	}
	if q.Version != version.Version {
		return errReplaced
	}
	if s.Sandboxed && s.needsMore(q) {
		_, err := c.Write([]byte{evaluator.Declined})
		return err
	}
	if _, err := c.Write([]byte{evaluator.Accepted}); err != nil {
		return err
	}
	answer, err := write(s.Answer(ctx, q))
	if err != nil {
		return err
	}
	if err := c.SetDeadline(time.Now().Add(readTime)); err != nil {
		return err
	}
	_, err = c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...))
	return err
}

// ignoreEOF: Listen's probe says nothing.
func ignoreEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// checkPeer refuses all but root, whatever the socket's mode has become.
func checkPeer(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var (
		peer *unix.Ucred
		perr error
	)
	if err := raw.Control(func(fd uintptr) { peer, perr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if perr != nil {
		return perr
	}
	if peer.Uid != 0 {
		return fmt.Errorf("uid %d asks: only root may", peer.Uid)
	}
	return nil
}
