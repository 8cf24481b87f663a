package policy

import (
	"strings"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// Basis is what a policy judges.
type Basis string

const (
	// Effective judges what would really run.
	Effective Basis = "Effective"
	// Declared judges the pod object, as upstream's Pod Security admission does.
	// It needs the pod: where only a bundle is at hand, the policy says what
	// happens (onSourceUnavailable).
	Declared Basis = "Declared"
)

// Fallback is what a policy of basis Declared does where no pod is at hand.
type Fallback string

const (
	// FallBackToEffective judges what would really run.
	FallBackToEffective Fallback = "Effective"
	// FallBackToDeny refuses every pod.
	FallBackToDeny Fallback = "Deny"
)

// DeclaredPod is a pod object in the words of this package.
type DeclaredPod struct {
	// Containers are what each container declares, the pod's own fields
	// included.
	Containers []*spec.Intent
	// Upstream returns the checks of Pod Security admission that the pod fails at
	// a level and version: with all of its containers, or for a number of 0 and
	// up as if that container were its only one.
	Upstream func(level Level, version Version, only int) []FailedCheck
}

// AllContainers is the number for all of a pod's containers.
const AllContainers = -1

// FailedCheck is a check of upstream's that a pod fails.
type FailedCheck struct {
	// Check is upstream's id of it.
	Check string
	// Controls are the controls that judge the same, or the check's id where no
	// control does.
	Controls []string
	// Text is upstream's reason and detail.
	Text string
}

// EvaluateDeclared judges a pod object by every policy, whatever its basis.
//
// The preset is upstream's own verdict. A control that the policy names judges
// what the pod declares by the policy's settings: what it finds counts, and if
// it finds nothing where with the preset's settings it would, the policy allows
// what upstream forbids. So do exemptions, if they match every container that
// fails the check. Two checks of upstream's have no control, and stand under
// their own names: hostProbesAndHostLifecycle and windowsHostProcess.
//
// What a pod object doesn't say, its image's user say, is undetermined and
// refuses nothing: the bundle is judged when it is made.
func (s *Set) EvaluateDeclared(pod *DeclaredPod) Decision {
	d := Decision{Allowed: true}
	for _, p := range s.Policies {
		e := declaredEvaluation{d: &d, p: p, pod: pod, failed: pod.Upstream(p.Preset, p.Version, AllContainers)}
		for i, c := range Controls() {
			e.control(i, &c)
		}
		for _, f := range e.failed {
			if len(f.Controls) == 1 && !contains(ControlNames(), f.Controls[0]) {
				e.violate(f.Controls[0], &f, p.Mode)
			}
		}
	}
	for i := range d.Violations {
		if d.Violations[i].Mode == Enforce {
			d.Allowed = false
		}
	}
	return d
}

// declaredEvaluation is one policy's.
type declaredEvaluation struct {
	d      *Decision
	p      *Policy
	pod    *DeclaredPod
	failed []FailedCheck
}

// ChecksWithoutControl are upstream's checks that no control of ours is for: no
// node can tell what they read.
var ChecksWithoutControl = []string{"hostProbesAndHostLifecycle", "windowsHostProcess"}

// notUpstreams are the controls that are in a preset and not upstream's.
var notUpstreams = []string{workingDirectoryControl.Name, runtimeAnnotationsControl.Name}

func (e *declaredEvaluation) control(order int, c *Control) {
	a := e.p.activeAt(order)
	if a == nil {
		return
	}
	named := a.lines != nil
	var findings []finding
	if named || contains(notUpstreams, c.Name) {
		findings = e.findings(a, a.rule)
	}
	if c.Name == devicesControl.Name {
		findings = append(findings, undetermined("spec", "a pod doesn't say which devices a device plugin gives it"))
	}
	for _, f := range findings {
		if f.result == Undetermined {
			e.d.Undetermined = appendNote(e.d.Undetermined, Note{e.p.Name, c.Name, f.field, f.what})
		}
	}
	if violates(findings) {
		for _, in := range e.pod.Containers {
			e.own(a, in)
		}
		return
	}
	relaxed := named && violates(e.findings(a, c.preset(e.p.Preset, e.p.Version)))
	if relaxed {
		return
	}
	for _, f := range e.failed {
		if contains(f.Controls, c.Name) {
			e.upstream(a, &f)
		}
	}
}

// findings are what a rule says of all containers.
func (e *declaredEvaluation) findings(a *activeControl, r rule) []finding {
	if r == nil {
		return nil
	}
	var out []finding
	for _, in := range e.pod.Containers {
		if !(a.control.followsPrivileged && e.p.judgesPrivileged && isPrivileged(in)) {
			out = append(out, r.evaluate(in)...)
		}
	}
	return out
}

// own adds what the policy's settings say of one container.
func (e *declaredEvaluation) own(a *activeControl, in *spec.Intent) {
	exempt, match := e.p.exempts(e.d, a.control.Name, in)
	if a.control.followsPrivileged && e.p.judgesPrivileged && isPrivileged(in) {
		return
	}
	for _, f := range a.rule.evaluate(in) {
		if f.result != Violated {
			continue
		}
		if match == yes {
			e.d.Exempt = append(e.d.Exempt, Note{e.p.Name, a.control.Name, f.field, exempt.note(f.what)})
			continue
		}
		v := Violation{Policy: e.p.Name, Control: a.control.Name, Field: f.field, Message: f.what + e.p.refusal(), Mode: a.mode}
		if !e.d.has(&v) {
			e.d.Violations = append(e.d.Violations, v)
		}
	}
}

func violates(findings []finding) bool {
	for _, f := range findings {
		if f.result == Violated {
			return true
		}
	}
	return false
}

// upstream adds a failed check, unless all containers that fail it are exempt.
func (e *declaredEvaluation) upstream(a *activeControl, f *FailedCheck) {
	var exempt *exemption
	for i, in := range e.pod.Containers {
		fails := false
		for _, own := range e.pod.Upstream(e.p.Preset, e.p.Version, i) {
			fails = fails || own.Check == f.Check
		}
		if !fails {
			continue
		}
		x, match := e.p.exempts(e.d, a.control.Name, in)
		if match != yes {
			e.violate(a.control.Name, f, a.mode)
			return
		}
		exempt = x
	}
	if exempt == nil {
		e.violate(a.control.Name, f, a.mode)
		return
	}
	e.d.Exempt = append(e.d.Exempt, Note{e.p.Name, a.control.Name, "spec", exempt.note(oneLine(f.Text))})
}

func (e *declaredEvaluation) violate(control string, f *FailedCheck, mode Mode) {
	v := Violation{Policy: e.p.Name, Control: control, Field: "spec", Message: oneLine(f.Text) + e.p.refusal(), Mode: mode}
	if !e.d.has(&v) {
		e.d.Violations = append(e.d.Violations, v)
	}
}

// oneLine takes line breaks and other control characters out of a text that
// upstream made of a pod's.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

func appendNote(list []Note, n Note) []Note {
	if contains(list, n) {
		return list
	}
	return append(list, n)
}

// activeAt returns the active control with a place in Controls, or nil.
func (p *Policy) activeAt(order int) *activeControl {
	for i := range p.active {
		if p.active[i].order == order {
			return &p.active[i]
		}
	}
	return nil
}

// unavailable says of a policy that judges pod objects that there is none.
func (d *Decision) unavailable(p *Policy, in *spec.Intent) {
	if p.Basis == Declared && p.OnSourceUnavailable == FallBackToDeny && in.Kind != spec.KindUnmanaged {
		d.Violations = append(d.Violations, Violation{
			Policy: p.Name, Control: "basis", Mode: p.Mode, Message: "the pod as it was declared is not at hand" + p.refusal(),
		})
	}
}
