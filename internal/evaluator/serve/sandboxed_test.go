package serve

import (
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/nodeadmit/nodeadmit/internal/evaluator"
	"github.com/nodeadmit/nodeadmit/internal/version"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

// plugins returns a question about a directory with one plugin.
func plugins(t *testing.T, spec string) *evaluator.Request {
	t.Helper()
	q := &evaluator.Request{PluginDir: t.TempDir()}
	text := "apiVersion: nodeadmit.dev/v1alpha1\nkind: Plugin\nmetadata: {name: p}\nspec: {" + spec + "}\n"
	if err := os.WriteFile(filepath.Join(q.PluginDir, "p.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := policy.ReadSources(q.PluginDir, policy.LoadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	q.PluginDigest = s.Digest
	return q
}

// firstByte asks a server and returns what it says before it works on the question.
func firstByte(t *testing.T, socket string, q *evaluator.Request) byte {
	t.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	q.Version = version.Version
	data, err := json.Marshal(q)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)); err != nil {
		t.Fatal(err)
	}
	var got [1]byte
	if _, err := io.ReadFull(c, got[:]); err != nil {
		t.Fatal(err)
	}
	return got[0]
}

func TestAServiceThatIsShutInDeclinesWhatNeedsProgramsOrTheNetwork(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root's files are used")
	}
	program := filepath.Join(t.TempDir(), "p")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		q         *evaluator.Request
		sandboxed byte
	}{
		"no plugins":                    {&evaluator.Request{}, evaluator.Accepted},
		"a webhook on a unix socket":    {plugins(t, "type: webhook, url: 'http://w/', socket: /run/w.sock"), evaluator.Accepted},
		"a gRPC server on one":          {plugins(t, "type: grpc, socket: /run/g.sock"), evaluator.Accepted},
		"a program":                     {plugins(t, "type: exec, command: "+program), evaluator.Declined},
		"a webhook on the network":      {plugins(t, "type: webhook, url: 'https://localhost:1/', caFile: /etc/ssl/ca.pem"), evaluator.Declined},
		"a plugin's file that is wrong": {plugins(t, "type: nonsense"), evaluator.Declined},
	} {
		t.Run(name, func(t *testing.T) {
			for sandboxed, want := range map[bool]byte{true: c.sandboxed, false: evaluator.Accepted} {
				dir := t.TempDir()
				if err := os.Chmod(dir, 0o755); err != nil {
					t.Fatal(err)
				}
				l, err := Listen(filepath.Join(dir, "s"))
				if err != nil {
					t.Fatal(err)
				}
				s := New()
				s.Sandboxed = sandboxed
				done := make(chan error)
				go func() { done <- s.Serve(t.Context(), l) }()
				if got := firstByte(t, l.Addr().String(), c.q); got != want {
					t.Errorf("sandboxed: %v: says %q, want %q", sandboxed, got, want)
				}
				l.Close()
				<-done
			}
		})
	}
}

// As systemd starts it: with a socket that is open already, and its name in the
// environment.
func TestTheSocketThatSystemdGivesIsUsed(t *testing.T) {
	if os.Getenv("LISTEN_FDS") != "" { // the child
		l, err := Listen("/nonexistent/socket")
		if err != nil {
			t.Fatal(err)
		}
		_ = New().Serve(t.Context(), l)
		return
	}
	if os.Geteuid() != 0 {
		t.Skip("only root may ask")
	}
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command("/bin/sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" -test.run='^TestTheSocketThatSystemdGivesIsUsed$'`, os.Args[0])
	c.ExtraFiles = []*os.File{f}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { c.Process.Kill(); c.Wait() }()
	if got := firstByte(t, socket, &evaluator.Request{}); got != evaluator.Accepted {
		t.Errorf("says %q", got)
	}
}

func TestAnEvaluatorOfTheVersionBeforeEndsWhenTheNewOneAsks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may ask")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := Listen(filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- New().Serve(t.Context(), l) }()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	data := []byte(`{"version": "v0.0.0-other"}`)
	if _, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)); err != nil {
		t.Fatal(err)
	}
	if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		t.Errorf("it says %d bytes, %v", n, err)
	}
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it goes on")
	}
}
