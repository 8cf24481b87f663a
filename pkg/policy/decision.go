package policy

import (
	"fmt"
	"strings"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// Violation is one control that an intent breaks.
type Violation struct {
	Policy  string `json:"policy"`
	Control string `json:"control"`
	// Field is the JSON path into config.json that decided.
	Field   string `json:"field"`
	Message string `json:"message"`
	Mode    Mode   `json:"mode"`
}

// Note is something that didn't decide but should be known.
type Note struct {
	Policy  string `json:"policy"`
	Control string `json:"control"`
	Field   string `json:"field"`
	Message string `json:"message"`
}

// Decision is what all policies together say of one intent.
type Decision struct {
	Allowed bool
	// Violations are all that were found, most serious first, those in mode
	// Audit included.
	Violations []Violation
	// Undetermined are controls that can't be decided yet, or that the policy
	// allows to stay so.
	Undetermined []Note
	// Assumed are satisfied controls that rest on the document's form alone.
	Assumed []Note
	// Exempt are violations that an exemption takes away.
	Exempt []Note
	// Inactive are exemptions that match and are not in force on this node.
	Inactive []Note
}

// Evaluate judges an intent by every policy. Deny wins. The result depends on
// its arguments alone.
func (s *Set) Evaluate(in *spec.Intent) Decision {
	d := Decision{Allowed: true}
	if in.Kind == spec.KindSandbox {
		n := 0
		for _, p := range s.Policies {
			n += len(p.active)
		}
		d.Undetermined = make([]Note, 0, n)
	}
	for _, p := range s.Policies {
		d.unavailable(p, in)
	}
	// Each policy has its controls in order. What all say of one control comes
	// before what any says of the next.
	var few [8]int
	next := few[:]
	if len(s.Policies) > len(few) {
		next = make([]int, len(s.Policies))
	}
	for {
		order := -1
		for i, p := range s.Policies {
			if next[i] < len(p.active) && (order < 0 || p.active[next[i]].order < order) {
				order = p.active[next[i]].order
			}
		}
		if order < 0 {
			break
		}
		for i, p := range s.Policies {
			if next[i] < len(p.active) && p.active[next[i]].order == order {
				d.add(p, &p.active[next[i]], in)
				next[i]++
			}
		}
	}
	for i := range d.Violations {
		if d.Violations[i].Mode == Enforce {
			d.Allowed = false
		}
	}
	if len(d.Undetermined) == 0 {
		d.Undetermined = nil
	}
	return d
}

func (d *Decision) add(p *Policy, a *activeControl, in *spec.Intent) {
	var findings []finding
	if !(a.control.followsPrivileged && p.judgesPrivileged && isPrivileged(in)) {
		findings = a.rule.evaluate(in)
	}
	for _, key := range in.UnknownKeys {
		if readsKey(a.control.reads, key) {
			findings = append(findings, undetermined(key, "config.json has a key that is not known: "+spec.Quote(key)))
		}
	}
	var (
		exempt *exemption
		match  tri
	)
	if len(findings) > 0 {
		exempt, match = p.exempts(d, a.control.Name, in)
	}
	for _, f := range findings {
		note := Note{p.Name, a.control.Name, f.field, f.what}
		if f.result != Satisfied {
			switch match {
			case yes:
				note.Message = exempt.note(note.Message)
				d.Exempt = append(d.Exempt, note)
				continue
			case maybe:
				note.Message += fmt.Sprintf(", which exemption %q may allow", exempt.name)
				d.Undetermined = append(d.Undetermined, note)
				continue
			}
		}
		switch {
		case f.result == Satisfied && f.assumed:
			d.Assumed = append(grow(d.Assumed), note)
		case f.result == Undetermined && (in.Kind == spec.KindSandbox || a.undeterminedAllowed):
			d.Undetermined = append(grow(d.Undetermined), note)
		case f.result == Violated || f.result == Undetermined:
			v := Violation{
				Policy: p.Name, Control: a.control.Name, Field: f.field,
				Message: f.what + p.refusal(), Mode: a.mode,
			}
			if !d.has(&v) {
				d.Violations = append(grow(d.Violations), v)
			}
		}
	}
}

// Add adds what others than this package's controls found.
func (d *Decision) Add(violations []Violation, undetermined []Note) {
	for _, v := range violations {
		d.Violations = append(d.Violations, v)
		d.Allowed = d.Allowed && v.Mode != Enforce
	}
	d.Undetermined = append(d.Undetermined, undetermined...)
}

// has reports whether a policy already said the same of a control.
func (d *Decision) has(v *Violation) bool {
	for i := range d.Violations {
		o := &d.Violations[i]
		if o.Control == v.Control && o.Policy == v.Policy && o.Message == v.Message {
			return true
		}
	}
	return false
}

// grow gives a list that is nil room for what one container usually has.
func grow[T any](list []T) []T {
	if list == nil {
		return make([]T, 0, 8)
	}
	return list
}

// isPrivileged reports whether the container itself is privileged. A sandbox's
// fact is about the pod's containers.
func isPrivileged(in *spec.Intent) bool {
	return in.Kind != spec.KindSandbox && spec.Is(in.Privileged, true)
}

// exempts returns the exemption that takes a control off this intent. One that
// matches and is not in force is noted.
func (p *Policy) exempts(d *Decision, control string, in *spec.Intent) (*exemption, tri) {
	var found *exemption
	out := no
	for i := range p.exemptions {
		e := &p.exemptions[i]
		if !contains(e.controls, control) {
			continue
		}
		t := e.applies(in)
		if t != no && e.inactive != "" {
			d.Inactive = append(d.Inactive, Note{p.Name, control, "", fmt.Sprintf("exemption %q is not in force under threatModel HostileAdmin: %s", e.name, e.inactive)})
			continue
		}
		if t > out {
			found, out = e, t
		}
	}
	return found, out
}

// readsKey reports whether an unknown key lies in a part of the document that
// a control reads.
func readsKey(reads []string, key string) bool {
	top := key
	if i := strings.IndexAny(key, ".["); i >= 0 {
		top = key[:i]
	}
	return contains(reads, top)
}

// maxRefusal bounds a refusal's line, in bytes.
const maxRefusal = 800

// Refusal is the one line that tells people why a start was refused. It is
// under 800 bytes and the same for the same cause every time.
func (d *Decision) Refusal(in *spec.Intent) string {
	line := "nodeadmit: " + in.Ref() + ": "
	more := 0
	for _, v := range d.Violations {
		if v.Mode != Enforce {
			continue
		}
		text := v.Control + ": " + v.Message
		if more > 0 || len(line)+len(text) > maxRefusal-40 && !strings.HasSuffix(line, in.Ref()+": ") {
			more++
			continue
		}
		if !strings.HasSuffix(line, in.Ref()+": ") {
			line += "; "
		}
		line += text
	}
	if more > 0 {
		line += fmt.Sprintf("; and %d more", more)
	}
	return line
}
