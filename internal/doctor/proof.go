package doctor

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/internal/install"
	"github.com/nodeadmit/nodeadmit/internal/rootfile"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// prove calls the wrapper as the engine would, twice. The first bundle has a key
// twice, which no policy and no setting can allow and which runc and crun would
// run. The second is a pod's sandbox that asks for nothing: it is made and
// deleted, and never started.
func (x *examination) prove(h install.Handler) {
	subject := string(h.Engine) + " " + h.Handler
	dir, err := os.MkdirTemp("/run", "nodeadmit-doctor-")
	if err != nil {
		x.add("proof", subject, Problem, "%v", err)
		return
	}
	defer os.RemoveAll(dir)
	p := proof{wrapper: x.plan.Wrapper(h), root: dir + "/root", bundle: dir + "/bundle", id: "nodeadmit-doctor-" + random(), engine: h.Engine}
	if err := p.refused(); err != nil {
		x.add("proof", subject, Problem, "a bundle that must be refused: %v", err)
	} else {
		x.add("proof", subject, OK, "a bundle that must be refused is refused")
	}
	err = p.allowed()
	var policy *refusal
	switch {
	case errors.As(err, &policy) && (h.Engine == spec.Podman || h.Engine == spec.Docker):
		// There is no sandbox here: a strict policy may be right.
		x.add("proof", subject, Warning, "a bundle that asks for nothing is refused: %v", err)
	case err != nil:
		x.add("proof", subject, Problem, "a bundle that may run: %v", err)
	default:
		x.add("proof", subject, OK, "a bundle that may run is made and deleted")
	}
}

func random() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

type proof struct {
	wrapper, root, bundle, id string
	engine                    spec.Dialect
}

// refusal is nodeadmit's own no.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// call runs the wrapper. A runtime's container must not hold our pipes open, so
// its output goes to a file.
func (p *proof) call(args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	out, err := os.Create(filepath.Dir(p.bundle) + "/output")
	if err != nil {
		return err
	}
	defer out.Close()
	c := exec.CommandContext(ctx, p.wrapper, append([]string{"--root", p.root}, args...)...)
	c.Dir, c.Stdout, c.Stderr = p.bundle, out, out
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err = c.Run(); err == nil {
		return nil
	}
	text, _ := os.ReadFile(out.Name())
	line := string(bytes.TrimSpace(text))
	if strings.HasPrefix(line, "nodeadmit: ") {
		return &refusal{line}
	}
	return fmt.Errorf("%w: %s", err, line)
}

func (p *proof) create() error {
	defer func() { _ = p.call("delete", "--force", p.id) }()
	return p.call("create", "--bundle", p.bundle, p.id)
}

func (p *proof) write(text []byte) error {
	if err := os.MkdirAll(p.bundle+"/rootfs", 0o755); err != nil {
		return err
	}
	return os.WriteFile(p.bundle+"/config.json", text, 0o644)
}

func (p *proof) refused() error {
	text, err := json.Marshal(p.spec())
	if err != nil {
		return err
	}
	if err := p.write(append([]byte(`{"hostname":"first",`), text[1:]...)); err != nil {
		return err
	}
	err = p.create()
	var r *refusal
	switch {
	case err == nil:
		return errors.New("it was started: the wrapper doesn't judge")
	case !errors.As(err, &r):
		return fmt.Errorf("it was not nodeadmit that refused it: %w", err)
	case !strings.Contains(r.text, "hostname"):
		return fmt.Errorf("it was refused for another reason, so everything may be: %s", r.text)
	}
	return nil
}

func (p *proof) allowed() error {
	s := p.spec()
	text, err := json.Marshal(s)
	if err == nil {
		err = p.write(text)
	}
	if err != nil {
		return err
	}
	// The runtime wants the program to be there, though it is never run.
	program, _, err := rootfile.Read(filepath.Dir(filepath.Dir(p.wrapper))+"/runtime-wrapper", 64<<20, nil)
	if err == nil {
		err = os.WriteFile(p.bundle+"/rootfs"+s.Process.Args[0], program, 0o755)
	}
	if err != nil {
		return err
	}
	return p.create()
}

// spec is a sandbox's, as the engine would write it, of a pod that asks for
// nothing.
func (p *proof) spec() *specs.Spec { return sandboxSpec(p.engine, p.id) }
