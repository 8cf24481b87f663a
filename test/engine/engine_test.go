package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// deny stands in for a runtime that refuses to create what its second argument
// says: sandboxes or containers.
const deny = `#!/bin/sh
log= bundle= create=
previous=
for a; do
	case $previous in --log) log=$a ;; --bundle) bundle=$a ;; esac
	[ "$a" = create ] && create=yes
	previous=$a
done
if [ "$create" ] && grep -q 'container-type":"%s"' "$bundle/config.json"; then
	echo '{"level":"error","msg":"refused by a test","time":"2026-01-01T00:00:00Z"}' >>"$log"
	exit 1
fi
exec %s "$@"
`

func TestMain(m *testing.M) {
	if os.Getenv("NODEADMIT_E2E") == "" {
		fmt.Println("skipped: container engines are started only with NODEADMIT_E2E=1, as root")
		return
	}
	os.Exit(m.Run())
}

// The harness itself: a bare runc starts a pod, and what a runtime in front of
// it refuses is seen as the kubelet sees it.
func TestEngine(t *testing.T) {
	for _, f := range Flavours {
		t.Run(string(f), func(t *testing.T) {
			before, err := Look()
			if err != nil {
				t.Fatal(err)
			}
			base, err := NewBase()
			if err != nil {
				t.Fatal(err)
			}
			tools, err := f.Find()
			if err != nil {
				t.Fatal(err)
			}
			handlers := []Handler{{Name: "runc", BinaryName: tools.Runc}}
			for _, kind := range []string{"sandbox", "container"} {
				name := filepath.Join(base, "no-"+kind)
				if err := os.WriteFile(name, fmt.Appendf(nil, deny, kind, tools.Runc), 0o755); err != nil {
					t.Fatal(err)
				}
				handlers = append(handlers, Handler{Name: "no-" + kind, BinaryName: name})
			}
			e, err := Start(t.Context(), Options{Flavour: f, Base: base, Handlers: handlers})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := e.Close(); err != nil {
					t.Error(err)
				}
				left, err := before.LeftBehind()
				if err != nil {
					t.Error(err)
				}
				for _, trace := range left {
					t.Error(trace)
				}
			})

			for _, c := range []struct {
				handler string
				step    Step
				pulls   int
				event   string
			}{
				{"", "", 1, ""},
				{"no-sandbox", StepSandbox, 0, "Failed to create pod sandbox: rpc error: code = Unknown desc = "},
				{"no-container", StepStart, 1, "Error: failed to create containerd task: failed to create shim task: OCI runtime create failed: refused by a test"},
			} {
				pulls := e.Registry.Pulls("app:1")
				r, err := e.Kubelet().Run(t.Context(), Pod{Name: "pod", Handler: c.handler, Containers: []Container{{
					Command: []string{"/bin/sh", "-c", "echo hello from $(id -u); trap exit TERM; while :; do sleep 1 & wait $!; done"},
				}}})
				if err != nil {
					t.Fatal(err)
				}
				if got := e.Registry.Pulls("app:1") - pulls; got != c.pulls || r.Pulls != c.pulls {
					t.Errorf("%s: the registry counted %d pulls and the kubelet %d, want %d", c.handler, got, r.Pulls, c.pulls)
				}
				switch {
				case c.step == "":
					if r.Failure != nil {
						t.Fatalf("pod refused: %v\n%s", r.Failure, e.Log())
					}
					if _, err := r.WaitOutput(t.Context(), "app", "hello from 0"); err != nil {
						t.Error(err)
					}
					if out, _, code, err := r.Exec(t.Context(), "app", "cat", "/proc/1/comm"); out != "sh\n" || code != 0 || err != nil {
						t.Errorf("exec: got %q, exit %d, %v", out, code, err)
					}
				case r.Failure == nil:
					t.Errorf("%s: the pod was started", c.handler)
				case r.Failure.Step != c.step || !strings.HasPrefix(r.Failure.Event, c.event) || !strings.Contains(r.Failure.Event, "refused by a test"):
					t.Errorf("%s: %s: %q", c.handler, r.Failure.Step, r.Failure.Event)
				}
				if err := r.Remove(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
