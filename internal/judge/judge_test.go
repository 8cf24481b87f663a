package judge

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/internal/config"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// quiet is a machine on which nothing is to be found.
type quiet struct{}

func (quiet) Namespace(string) (spec.NamespaceID, error) { return spec.NamespaceID{Ino: 2}, nil }
func (quiet) HostNamespaces(specs.LinuxNamespaceType) ([]spec.NamespaceID, error) {
	return []spec.NamespaceID{{Ino: 1}}, nil
}
func (quiet) Resolve(path string) (string, error)          { return path, nil }
func (quiet) ReadFile(string) ([]byte, error)              { return nil, os.ErrNotExist }
func (quiet) BoundFrom(string) []string                    { return nil }
func (quiet) Mounts(int, string) ([]spec.RealMount, error) { return nil, nil }
func (quiet) ProcessNamespace(int, specs.LinuxNamespaceType) (spec.NamespaceID, error) {
	return spec.NamespaceID{Ino: 2}, nil
}

// panics is a fault of ours.
type panics struct{ quiet }

func (panics) Resolve(string) (string, error) { panic("a fault\nof two lines") }

const good = `{"ociVersion":"1.0.2","process":{"args":["/x"],"cwd":"/","user":{},"capabilities":{},"noNewPrivileges":true},"root":{"path":"rootfs","readonly":true},
"mounts":[{"destination":"/d","type":"bind","source":"/srv/d","options":["rbind"]}],
"linux":{"namespaces":[{"type":"pid"},{"type":"network"},{"type":"ipc"},{"type":"uts"},{"type":"mount"},{"type":"cgroup"}],
"maskedPaths":["/proc/acpi","/proc/asound","/proc/interrupts","/proc/kcore","/proc/keys","/proc/latency_stats","/proc/timer_list","/proc/timer_stats","/proc/sched_debug","/proc/scsi","/sys/firmware","/sys/devices/virtual/powercap"],"readonlyPaths":["/proc/bus","/proc/fs","/proc/irq","/proc/sys","/proc/sysrq-trigger"]}}`

// request is one that is allowed.
func request(t *testing.T, policy string) Request {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("policy is root's alone")
	}
	dir := t.TempDir()
	c := config.Defaults()
	c.PolicyDir, c.StateDir, c.PluginDir = filepath.Join(dir, "policies.d"), filepath.Join(dir, "state"), filepath.Join(dir, "none")
	bundle := filepath.Join(dir, "bundle")
	for _, d := range []string{c.PolicyDir, bundle} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		filepath.Join(c.PolicyDir, "p.yaml"):   "apiVersion: nodeadmit.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: p}\nspec: " + policy + "\n",
		filepath.Join(bundle, spec.ConfigName): good,
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return Request{Config: c, Engine: spec.NewEngine(spec.None), Bundle: bundle, ID: "x", Host: quiet{}}
}

const (
	open   = "{preset: baseline, controls: {hostPaths: {allow: [{pathPrefix: /srv}]}}}"
	closed = "{preset: baseline}"
)

func TestADecision(t *testing.T) {
	if a := Judge(request(t, open)); a.Refusal != "" || a.Reason != Allowed || a.Document == nil || a.PolicyDigest() == "" {
		t.Errorf("%q, %d, %v", a.Refusal, a.Reason, a.Err)
	}
	if a := Judge(request(t, closed)); a.Reason != ReasonOf("hostPaths") || !strings.Contains(a.Refusal, "hostPaths: /d is mounted from /srv/d") || a.Err != nil {
		t.Errorf("%q, %d, %v", a.Refusal, a.Reason, a.Err)
	}
}

func TestAPanicIsARefusal(t *testing.T) {
	for _, failOpen := range []bool{false, true} {
		r := request(t, open)
		r.Host, r.Config.FailOpen = panics{}, failOpen
		a := Judge(r)
		if a.Reason != Internal || !strings.Contains(a.Refusal, "internal error: a fault") || strings.Contains(a.Refusal, "\n") {
			t.Errorf("failureMode Open %v: %q, %d", failOpen, a.Refusal, a.Reason)
		}
	}
}

// failureMode: Open is for the node's own faults, never for what the author of
// a bundle can cause.
func TestWhatFailureModeOpenCovers(t *testing.T) {
	for name, c := range map[string]struct {
		spoil  func(t *testing.T, r *Request)
		reason Reason
		passed bool
	}{
		"no policy":       {func(t *testing.T, r *Request) { os.RemoveAll(r.Config.PolicyDir) }, BadPolicy, true},
		"a broken policy": {func(t *testing.T, r *Request) { os.WriteFile(r.Config.PolicyDir+"/x.yaml", []byte("kind: ["), 0o644) }, BadPolicy, true},
		"broken plugins": {func(t *testing.T, r *Request) {
			r.Config.PluginDir = t.TempDir()
			os.Chmod(r.Config.PluginDir, 0o777)
		}, BadPolicy, true},
		"a broken bundle":   {func(t *testing.T, r *Request) { os.WriteFile(r.Bundle+"/config.json", []byte("{"), 0o644) }, BadInput, false},
		"no bundle":         {func(t *testing.T, r *Request) { os.RemoveAll(r.Bundle) }, BadInput, false},
		"a fault of ours":   {func(t *testing.T, r *Request) { r.Host = panics{} }, Internal, false},
		"a bundle too long": {func(t *testing.T, r *Request) { r.Bundle = "/" + strings.Repeat("x", 5000) }, Unreadable, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := request(t, open)
			c.spoil(t, &r)
			a := Judge(r)
			if a.Reason != c.reason || a.Refusal == "" || a.Err == nil {
				t.Errorf("Closed: %q, reason %d, want %d", a.Refusal, a.Reason, c.reason)
			}
			r.Config.FailOpen = true
			a = Judge(r)
			if passed := a.Refusal == ""; passed != c.passed || a.Err == nil {
				t.Errorf("Open: %q, passed %v, want %v; the fault is %v", a.Refusal, passed, c.passed, a.Err)
			}
		})
	}
	r := request(t, closed)
	r.Config.FailOpen = true
	if a := Judge(r); a.Refusal == "" {
		t.Error("a violation was passed over")
	}
}

func TestContainersThatNoCRIMade(t *testing.T) {
	for how, allowed := range map[config.Unmanaged]bool{config.UnmanagedEnforce: false, config.UnmanagedAudit: true, config.UnmanagedAllow: true} {
		r := request(t, closed)
		r.Config.Unmanaged = how
		a := Judge(r)
		if (a.Refusal == "") != allowed || a.Unmanaged != how {
			t.Errorf("%s: %q", how, a.Refusal)
		}
		if how == config.UnmanagedAudit && len(a.Decision.Violations) == 0 {
			t.Error("Audit tells no violations")
		}
	}
	r := request(t, closed)
	os.RemoveAll(r.Config.PolicyDir)
	if r.Config.Unmanaged = config.UnmanagedAllow; Judge(r).Refusal != "" {
		t.Error("Allow needs a policy")
	}
}

func TestAFileOfItsOwnIsJudgedInsteadOfTheBundles(t *testing.T) {
	r := request(t, open)
	r.File = filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(r.File, []byte(strings.Replace(good, "/srv/d", "/etc", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	if a := Judge(r); !strings.Contains(a.Refusal, "/etc") || a.Document.Dir != r.Bundle {
		t.Errorf("%q, directory %s", a.Refusal, a.Document.Dir)
	}
}

func TestAFaultIsOneShortLine(t *testing.T) {
	for _, err := range []error{
		errors.New(strings.Repeat("x", 5000)), errors.Join(errors.New("a"), errors.New("b")), errors.New("a\nb"),
		fmt.Errorf("wrapped: %w", errors.Join(errors.New("a"), errors.New("b"))),
	} {
		line := FaultLine(nil, err)
		if strings.Contains(line, "\n") || len(line) > 800 || !strings.HasPrefix(line, "nodeadmit: refused: ") {
			t.Errorf("%q", line)
		}
	}
}

func TestCodesOfControlsNeverChange(t *testing.T) {
	for control, want := range map[string]Reason{"privileged": 21, "hostPaths": 25, "hostUsers": 28, "runtimeAnnotations": 44, "exec": 46, "plugin": 48, "new": 20} {
		if got := ReasonOf(control); got != want {
			t.Errorf("%s has %d, want %d (docs/exit-codes.md)", control, got, want)
		}
	}
	if ReasonFor(errors.New("x")) != Internal || ReasonFor(fmt.Errorf("y: %w", &Fault{BadPolicy, errors.New("x")})) != BadPolicy {
		t.Error("reasons of errors")
	}
}
