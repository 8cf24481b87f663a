// Package judge takes one decision: it reads a bundle and the node's policy,
// and says whether the start is allowed. Wrapper and hook both ask it.
package judge

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/nodeadmit/nodeadmit/internal/breakglass"
	"github.com/nodeadmit/nodeadmit/internal/config"
	"github.com/nodeadmit/nodeadmit/internal/policystore"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// Request is what is asked.
type Request struct {
	Config *config.Config
	// Engine wrote the bundle.
	Engine spec.Engine
	// Bundle is the bundle's directory.
	Bundle string
	// File is the configuration that the runtime reads, if it isn't the
	// bundle's config.json (crun --config).
	File string
	// Runtime is the name that the wrapper was called under, or "".
	Runtime string
	// ID is the container's id as the runtime was told.
	ID string
	// PID is the container's first process in a hook, else 0.
	PID int
	// Late is true where the wrapper has judged the bundle before.
	Late bool
	// Host is the machine.
	Host spec.Host
}

// Answer is what was found. Refusal is "" if the start is allowed.
type Answer struct {
	Document *spec.Document
	Intent   *spec.Intent
	Decision policy.Decision
	// Refusal is the one line for people.
	Refusal string
	// Reason sorts the refusal.
	Reason Reason
	// Err is the fault that refused the start, or, with failureMode Open, that
	// was passed over.
	Err error
	// Policy is what was in force, or nil.
	Policy *policystore.Loaded
	// Notes are things to know that decided nothing.
	Notes []string
	// Unmanaged is what was configured for a container that no CRI made, and
	// "" for a pod's.
	Unmanaged config.Unmanaged
	// Overridden is the refusal that break-glass passed over, and Until is how
	// long it does.
	Overridden string
	Until      time.Time
}

// Reason is a kind of refusal. Its number is the hook's exit code, which is all
// that crun shows of a hook (docs/exit-codes.md).
type Reason int

// The kinds of refusal. Codes from 20 on stand for the control that was
// violated, in an order that never changes.
const (
	Allowed Reason = 0
	// Internal is a fault of ours.
	Internal Reason = 10
	// BadInput is a bundle or a hook's state that can't be judged.
	BadInput Reason = 11
	// BadConfig is a configuration that can't be read.
	BadConfig Reason = 12
	// BadPolicy is a policy that can't be read.
	BadPolicy Reason = 13
	// TimedOut is a decision that took too long.
	TimedOut Reason = 14
	// Unreadable is a file of the node's that can't be read.
	Unreadable Reason = 15
	// NoEvaluator is a policy in CEL or a plugin that couldn't be asked.
	NoEvaluator Reason = 16
	// OtherControl is a violation of a control that has no code of its own.
	OtherControl Reason = 20
)

// controlReasons is append-only: the numbers are documented.
var controlReasons = []string{
	"privileged", "hostPID", "hostNetwork", "hostIPC", "hostPaths", "capabilities", "procMount",
	"hostUsers", "hostPorts", "volumes", "sysctls", "seccompProfile", "appArmorProfile", "seLinuxOptions",
	"runAsNonRoot", "runAsUser", "allowPrivilegeEscalation", "readOnlyRootFilesystem", "devices",
	"cgroupWritable", "sysWritable", "workingDirectory", "environment", "runtimeAnnotations", "images", "exec",
	"cel", "plugin",
}

// ReasonOf returns the code of a violated control.
func ReasonOf(control string) Reason {
	for i, name := range controlReasons {
		if name == control {
			return OtherControl + 1 + Reason(i)
		}
	}
	return OtherControl
}

// Fault is an error with the kind of refusal that it causes.
type Fault struct {
	Reason Reason
	Err    error
}

func (f *Fault) Error() string { return f.Err.Error() }

// Unwrap returns the error behind the fault.
func (f *Fault) Unwrap() error { return f.Err }

// ReasonFor returns the kind of refusal that an error causes.
func ReasonFor(err error) Reason {
	var f *Fault
	if errors.As(err, &f) {
		return f.Reason
	}
	return Internal
}

// Judge decides. It never panics on what a bundle holds: a fault of our own
// becomes a refusal.
func Judge(r Request) Answer {
	a := decide(r)
	a.breakGlass(time.Now())
	return a
}

// breakGlass passes over a refusal while the node's owner wants nothing refused,
// except of what can't be judged at all.
func (a *Answer) breakGlass(now time.Time) {
	if a.Refusal == "" || a.Reason == BadInput || a.Reason == Internal {
		return
	}
	until, err := breakglass.Active(now)
	if err != nil || until.IsZero() {
		return
	}
	a.Overridden, a.Until, a.Refusal, a.Reason = a.Refusal, until, "", Allowed
}

func decide(r Request) (a Answer) {
	defer func() {
		if p := recover(); p != nil {
			a.fail(&Fault{Internal, fmt.Errorf("internal error: %v", p)}, r.Config)
		}
	}()
	doc, err := read(r)
	if err != nil {
		// What a bundle's author can cause is told from a fault of the node.
		reason := Unreadable
		var input *spec.InputError
		if errors.As(err, &input) {
			reason = BadInput
		}
		a.fail(&Fault{reason, err}, r.Config)
		return a
	}
	a.Document = doc
	a.Intent, err = spec.Map(doc, spec.Options{Engine: r.Engine, ID: r.ID, RuntimeHandler: r.Runtime, Host: r.Host, PID: r.PID})
	if err != nil {
		a.fail(&Fault{BadInput, fmt.Errorf("bundle %q: config.json: %w", doc.Dir, err)}, r.Config)
		return a
	}
	if a.Intent.Kind == spec.KindUnmanaged {
		a.Unmanaged = r.Config.Unmanaged
		if a.Unmanaged == config.UnmanagedAllow {
			return a
		}
	}
	a.Policy, err = policystore.Load(r.Config.PolicyDir, filepath.Join(r.Config.StateDir, "policy"))
	if err != nil {
		a.fail(&Fault{BadPolicy, fmt.Errorf("no policy is in force: %w (nodeadmit check --policy %s)", firstLine(err), r.Config.PolicyDir)}, r.Config)
		return a
	}
	set, err := a.Policy.Set.ForNode(policy.Node{Labels: r.Config.NodeLabels, HostileAdmin: r.Config.HostileAdmin})
	if err != nil {
		a.fail(&Fault{BadPolicy, fmt.Errorf("no policy is in force: %s: %w", r.Config.PolicyDir, err)}, r.Config)
		return a
	}
	a.Decision = set.Evaluate(a.Intent)
	if a.Decision.Allowed || a.Unmanaged == config.UnmanagedAudit {
		if err := a.evaluate(r, set); err != nil {
			a.fail(err, r.Config)
			return a
		}
	}
	if a.Unmanaged == config.UnmanagedAudit {
		a.Decision.Allowed = true
	}
	if !a.Decision.Allowed {
		a.Refusal = a.Decision.Refusal(a.Intent)
		a.Reason = a.firstReason()
	}
	return a
}

func read(r Request) (*spec.Document, error) {
	bundle := r.Bundle
	if bundle == "" {
		bundle = "."
	}
	if r.File == "" {
		return spec.ReadBundle(bundle)
	}
	doc, err := spec.ReadFile(r.File)
	if err != nil {
		return nil, err
	}
	doc.Dir, err = filepath.Abs(bundle)
	return doc, err
}

// PolicyDigest is the digest of the policy that was in force, or "".
func (a *Answer) PolicyDigest() string {
	if a.Policy == nil {
		return ""
	}
	return a.Policy.Set.Digest
}

func (a *Answer) firstReason() Reason {
	for _, v := range a.Decision.Violations {
		if v.Mode == policy.Enforce {
			return ReasonOf(v.Control)
		}
	}
	return OtherControl
}

// fail refuses because of a fault. failureMode: Open passes over faults of the
// node, never over what a bundle's author can cause.
func (a *Answer) fail(err error, c *config.Config) {
	a.Err = err
	reason := ReasonFor(err)
	if c != nil && c.FailOpen && (reason == BadPolicy || reason == Unreadable || reason == NoEvaluator) {
		return
	}
	a.Reason = reason
	a.Refusal = FaultLine(a.Intent, err)
}

// FaultLine is the refusal's line for a fault.
func FaultLine(in *spec.Intent, err error) string {
	const limit = 700
	text := firstLine(err).Error()
	if len(text) > limit {
		text = text[:limit] + "..."
	}
	if in == nil {
		return "nodeadmit: refused: " + text
	}
	return "nodeadmit: " + in.Ref() + ": refused: " + text
}

// firstLine keeps an error to one line: joined errors have one each.
func firstLine(err error) error {
	text := err.Error()
	for i := 0; i < len(text); i++ {
		if text[i] == '\n' {
			return errors.New(text[:i] + " (and more)")
		}
	}
	return err
}
