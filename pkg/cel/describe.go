package cel

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/nodeadmit/nodeadmit/pkg/pod"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// Description says of a policy what a node can make of it.
type Description struct {
	Name string `json:"name"`
	File string `json:"file"`
	// Bindings are the names of those that put it in force, with their actions.
	Bindings []string `json:"bindings"`
	// Applies is false if its matchConstraints are never about a pod that is made.
	Applies bool   `json:"applies"`
	Rules   []Rule `json:"rules"`
}

// Rule is one validation.
type Rule struct {
	Field      string `json:"field"`
	Expression string `json:"expression"`
	// Decides is when it can be decided: "sandbox", "container", or "never", which
	// is to say not always: some pods may still decide it.
	Decides string `json:"decides"`
	// Unseen are the fields that it reads and that no bundle shows.
	Unseen []string `json:"unseen,omitempty"`
	// NeedsPod is true if it compares or counts the pod's containers, of which a
	// bundle shows one.
	NeedsPod bool `json:"needsPod,omitempty"`
}

// Describe lists all policies in the order of their files.
func (ps *Policies) Describe() []Description {
	var out []Description
	for _, p := range ps.policies {
		d := Description{Name: p.name, File: p.file}
		for _, b := range ps.bindings {
			if b.policy == p {
				var actions []string
				for _, a := range b.object.Spec.ValidationActions {
					actions = append(actions, string(a))
				}
				d.Bindings = append(d.Bindings, b.object.Name+" ("+strings.Join(actions, ", ")+")")
			}
		}
		in := &Input{Intent: allKnown(spec.KindContainer)}
		m, _ := ps.matches(p.object.Spec.MatchConstraints, in)
		d.Applies = m != matchNo
		for _, v := range p.validations {
			r := Rule{Field: v.field, Expression: oneLine(v.expression.text), NeedsPod: v.trait.form > universal, Decides: "sandbox"}
			for _, path := range v.reads {
				unseen, sandbox := visible(path)
				if unseen {
					r.Unseen = append(r.Unseen, path)
				} else if !sandbox && r.Decides == "sandbox" {
					r.Decides = "container"
				}
			}
			if len(r.Unseen) > 0 || r.NeedsPod {
				r.Decides = "never"
			}
			slices.Sort(r.Unseen)
			d.Rules = append(d.Rules, r)
		}
		out = append(out, d)
	}
	return out
}

// visible tells whether no bundle shows a path, and whether a sandbox's does.
func visible(path string) (unseen, sandbox bool) {
	variable, rest, _ := strings.Cut(path, ".")
	switch variable {
	case "object":
		return !seenAtContainer(rest) && !seenAtSandbox(rest), seenAtSandbox(rest)
	case "request":
		return requestUnseen.hides(rest), true
	case "namespaceObject":
		return rest != "metadata.name", true
	case "authorizer":
		return true, false
	}
	return false, variable != ociVariable
}

// hides reports whether a path is unknown.
func (u *unseen) hides(path string) bool {
	for _, step := range steps(path) {
		if u = u.child(step); u == nil {
			return false
		}
		if u.all {
			return true
		}
	}
	return false
}

func seenAtContainer(path string) bool { return !hidden(spec.KindContainer)().hides(path) }

func seenAtSandbox(path string) bool { return !hidden(spec.KindSandbox)().hides(path) }

var (
	hiddenInContainer = sync.OnceValue(func() *unseen { return hiddenOf(spec.KindContainer) })
	hiddenInSandbox   = sync.OnceValue(func() *unseen { return hiddenOf(spec.KindSandbox) })
)

func hidden(k spec.Kind) func() *unseen {
	if k == spec.KindSandbox {
		return hiddenInSandbox
	}
	return hiddenInContainer
}

// hiddenOf is what a pod that is rebuilt from everything a bundle can show leaves
// open.
func hiddenOf(k spec.Kind) *unseen {
	_, paths := pod.Rebuild(allKnown(k))
	// The lists of containers are there, whatever else is in them.
	paths = slices.DeleteFunc(paths, func(p string) bool {
		return k == spec.KindContainer && (p == "spec.initContainers" || p == "spec.ephemeralContainers")
	})
	return newUnseen(append(paths, "status"))
}

// allKnown is an intent of which every fact is known.
func allKnown(k spec.Kind) *spec.Intent {
	in := &spec.Intent{Kind: k, Engine: spec.NewEngine(spec.Containerd)}
	know(reflect.ValueOf(in).Elem())
	in.HostPorts.Certainty = spec.Unknown // containerd's bundles have none
	return in
}

func know(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Kind() != reflect.Struct {
			continue
		}
		if c := f.FieldByName("Certainty"); c.IsValid() && c.Type() == reflect.TypeFor[spec.Certainty]() {
			c.Set(reflect.ValueOf(spec.Known))
		} else {
			know(f)
		}
	}
}
