package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// An exemption takes controls off the containers that match it. It names its
// controls: there is none for everything. All that match says must be so.
//
// It is three-valued. At a sandbox the container's name, image, arguments and
// mounts are not known: an exemption that may still match leaves a violation
// undetermined. At the last moment what isn't known to match doesn't apply.
type exemption struct {
	name     string
	match    match
	controls []string
	// inactive is why the exemption is not in force on this node, or "".
	inactive string
}

type match struct {
	namespace, pod, container, image, runtimeHandler string
	staticPod, userNamespace                         *bool
	// args are all of process.args. mounts are all that is mounted beside the
	// engine's and the kubelet's own and the service account's token.
	args       []string
	mounts     []pinnedMount
	pinsMounts bool
}

type pinnedMount struct{ hostPath, volume, destination string }

// serviceAccountMount is where the kubelet mounts the token that every pod has
// by default.
const serviceAccountMount = "/var/run/secrets/kubernetes.io/serviceaccount"

// tri is a truth value of an exemption's match.
type tri int

const (
	no tri = iota
	maybe
	yes
)

func truth(ok bool) tri {
	if ok {
		return yes
	}
	return no
}

// applies reports whether the exemption matches.
func (e *exemption) applies(in *spec.Intent) tri {
	if in.Kind == spec.KindUnmanaged {
		return no
	}
	m := &e.match
	out := yes
	for _, t := range []tri{
		pattern(in, m.namespace, in.Pod.Namespace),
		pattern(in, m.pod, in.Pod.Name),
		pattern(in, m.container, in.Pod.Container),
		imagePattern(in, m.image),
		pattern(in, m.runtimeHandler, in.RuntimeHandler),
		flag(in, m.staticPod, in.StaticPod),
		flag(in, m.userNamespace, userNamespaceFact(in)),
		m.matchArgs(in),
		m.matchMounts(in),
	} {
		out = min(out, t)
	}
	return out
}

func pattern(in *spec.Intent, pattern string, f spec.Fact[string]) tri {
	switch {
	case pattern == "":
		return yes
	case f.Certainty != spec.Known:
		return unsure(in)
	}
	return truth(glob(pattern, f.Value))
}

func flag(in *spec.Intent, want *bool, f spec.Fact[bool]) tri {
	switch {
	case want == nil:
		return yes
	case f.Certainty != spec.Known || f.Forgeable:
		return unsure(in)
	}
	return truth(f.Value == *want)
}

// unsure is the match of what is not known: at the sandbox it may be so.
func unsure(in *spec.Intent) tri {
	if in.Kind == spec.KindSandbox {
		return maybe
	}
	return no
}

// imagePattern matches the name by which the pod asked for its image, and
// where the engine tells them all references by digest. A sandbox runs the
// pause image, which is nobody's choice.
func imagePattern(in *spec.Intent, want string) tri {
	f := in.Pod.Image
	switch {
	case want == "":
		return yes
	case in.Kind == spec.KindSandbox:
		return maybe
	case f.Certainty != spec.Known:
		return no
	}
	return truth(glob(want, f.Value.Name) || slices.ContainsFunc(f.Value.RepoDigests, func(d string) bool { return glob(want, d) }))
}

func userNamespaceFact(in *spec.Intent) spec.Fact[bool] {
	return spec.Fact[bool]{Value: spec.InUserNamespace(in), Certainty: in.UserNamespace.Certainty, Source: in.UserNamespace.Source}
}

func (m *match) matchArgs(in *spec.Intent) tri {
	switch {
	case m.args == nil:
		return yes
	case in.Kind == spec.KindSandbox:
		return maybe
	}
	return truth(in.Args.Certainty == spec.Known && slices.Equal(m.args, in.Args.Value))
}

func (m *match) matchMounts(in *spec.Intent) tri {
	if !m.pinsMounts {
		return yes
	}
	if in.Kind == spec.KindSandbox {
		return maybe
	}
	// A loader's variable would run another program than the pinned one.
	if len(in.LoaderVariables) > 0 {
		return no
	}
	for i := range in.Mounts {
		mount := &in.Mounts[i]
		switch mount.Class {
		case spec.MountHostPath, spec.MountVolume, spec.MountForeign:
			if !m.pins(mount) {
				return no
			}
		}
	}
	return yes
}

func (m *match) pins(mount *spec.Mount) bool {
	if mount.Class == spec.MountVolume && mount.Volume == "projected" && path.Clean(mount.Destination) == serviceAccountMount {
		return true
	}
	for _, p := range m.mounts {
		if p.destination != path.Clean(mount.Destination) {
			continue
		}
		switch mount.Class {
		case spec.MountVolume:
			if p.volume == mount.Volume {
				return true
			}
		case spec.MountHostPath:
			names := mount.Names
			if len(names) == 0 {
				names = []string{mount.Path()}
			}
			if p.hostPath != "" && slices.ContainsFunc(names, func(n string) bool { return canonical(n) == p.hostPath }) {
				return true
			}
		}
	}
	return false
}

// note adds to a violation's text that the exemption takes it away.
func (e *exemption) note(text string) string {
	text += fmt.Sprintf(", which exemption %q allows", e.name)
	if why := e.weakness(); why != "" {
		text += " (not against a cluster's admin: " + why + ")"
	}
	return text
}

// weakness says why the exemption does not hold against a cluster's admin, or
// "". Against one counts only what neither a pod's author nor the API server
// writes: the kubelet's mark of a static pod, an image's digest, the user
// namespace. A digest alone doesn't tell what the image is made to do, so that
// what gives the node away must pin arguments and mounts as well.
func (e *exemption) weakness() string {
	m := &e.match
	if m.staticPod != nil && *m.staticPod {
		return ""
	}
	_, digest, pinned := strings.Cut(m.image, "@sha256:")
	pinned = pinned && !strings.ContainsAny(digest, "*?[")
	if !pinned && (m.userNamespace == nil || !*m.userNamespace) {
		return "it rests on names, which a cluster's admin can write: match an image by digest, or staticPod"
	}
	for _, c := range []string{privilegedControl.Name, hostPIDControl.Name, hostPathsControl.Name} {
		if contains(e.controls, c) && !(pinned && m.args != nil && m.pinsMounts) {
			return "for " + c + " it must pin args and mounts beside the image's digest"
		}
	}
	return ""
}

func (d *decoder) exemption(f strictyaml.Field) exemption {
	var e exemption
	o := d.Object(f)
	empty := true
	for _, f := range o.Fields {
		switch f.Name {
		case "name":
			e.name = d.Str(f)
		case "match":
			m := d.Object(f)
			empty = len(m.Fields) == 0
			d.match(m, &e.match)
		case "controls":
			for _, item := range d.List(f) {
				name := d.Str(item)
				if !contains(ControlNames(), name) {
					d.Errorf(item.Node, "unknown control %q%s", name, strictyaml.Nearest(name, ControlNames()))
				}
				e.controls = append(e.controls, name)
			}
		default:
			d.UnknownField(o, f, "name", "match", "controls")
		}
	}
	switch {
	case e.name == "":
		d.Errorf(f.Node, "an exemption has no name")
	case empty:
		d.Errorf(f.Node, "exemption %q matches everything: want match with %s", e.name, strictyaml.OrList(matchFields))
	case len(e.controls) == 0:
		d.Errorf(f.Node, "exemption %q names no controls", e.name)
	}
	return e
}

var matchFields = []string{
	"namespace", "pod", "container", "image", "runtimeHandler", "staticPod", "userNamespace", "args", "mounts",
}

func (d *decoder) match(o *strictyaml.Object, m *match) {
	for _, f := range o.Fields {
		switch f.Name {
		case "namespace":
			m.namespace = d.pattern(f)
		case "pod":
			m.pod = d.pattern(f)
		case "container":
			m.container = d.pattern(f)
		case "image":
			m.image = d.pattern(f)
		case "runtimeHandler":
			m.runtimeHandler = d.pattern(f)
		case "staticPod":
			v := d.Bool(f)
			m.staticPod = &v
		case "userNamespace":
			v := d.Bool(f)
			m.userNamespace = &v
		case "args":
			m.args = []string{}
			for _, item := range d.List(f) {
				m.args = append(m.args, d.Str(item))
			}
		case "mounts":
			m.pinsMounts = true
			for _, item := range d.List(f) {
				m.mounts = append(m.mounts, d.pinnedMount(item))
			}
		default:
			d.UnknownField(o, f, matchFields...)
		}
	}
}

func (d *decoder) pinnedMount(f strictyaml.Field) pinnedMount {
	var p pinnedMount
	o := d.Object(f)
	for _, f := range o.Fields {
		switch f.Name {
		case "hostPath":
			p.hostPath = canonical(d.Str(f))
		case "volume":
			p.volume = d.Str(f)
		case "destination":
			p.destination = d.Str(f)
		default:
			d.UnknownField(o, f, "hostPath", "volume", "destination")
		}
	}
	if (p.hostPath == "") == (p.volume == "") || !path.IsAbs(p.destination) {
		d.Errorf(f.Node, "%s: want {hostPath: PATH, destination: PATH} or {volume: TYPE, destination: PATH}", f.Name)
	}
	return p
}

// glob matches as path.Match does, but "*" crosses slashes.
func glob(pattern, s string) bool {
	if !strings.ContainsAny(pattern, `*?[\`) {
		return pattern == s
	}
	swap := strings.NewReplacer("/", "\x01")
	ok, err := path.Match(swap.Replace(pattern), swap.Replace(s))
	return ok && err == nil
}

// Node is what the node's configuration says of itself.
type Node struct {
	// Labels are matched by a policy's nodes.matchLabels.
	Labels map[string]string
	// HostileAdmin is threatModel: HostileAdmin: exemptions that rest on what a
	// cluster's admin can write are not in force.
	HostileAdmin bool
}

// ForNode returns the policies that apply to a node. It fails if none does:
// nothing would be enforced.
func (s *Set) ForNode(n Node) (*Set, error) {
	out := &Set{Digest: s.Digest, External: s.External}
	for _, p := range s.Policies {
		if !p.appliesTo(n.Labels) {
			continue
		}
		q := *p
		q.exemptions = slices.Clone(p.exemptions)
		for i := range q.exemptions {
			e := &q.exemptions[i]
			if n.HostileAdmin {
				e.inactive = e.weakness()
			}
		}
		out.Policies = append(out.Policies, &q)
	}
	if len(out.Policies) == 0 && !out.NeedsEvaluator() {
		return nil, fmt.Errorf("none of %d policies applies to this node: no nodes.matchLabels matches its labels", len(s.Policies))
	}
	return out, nil
}

func (p *Policy) appliesTo(labels map[string]string) bool {
	for k, v := range p.nodeLabels {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// Exemption is one exemption for people.
type Exemption struct {
	Policy string `json:"policy"`
	Name   string `json:"name"`
	// HoldsAgainstHostileAdmin is true if a cluster's admin can't write what it
	// matches.
	HoldsAgainstHostileAdmin bool   `json:"holdsAgainstHostileAdmin"`
	Weakness                 string `json:"weakness,omitempty"`
	// Active is false if the threat model takes it out of force.
	Active bool `json:"active"`
}

// Exemptions lists all exemptions of all policies.
func (s *Set) Exemptions() []Exemption {
	var out []Exemption
	for _, p := range s.Policies {
		for i := range p.exemptions {
			e := &p.exemptions[i]
			weakness := e.weakness()
			out = append(out, Exemption{p.Name, e.name, weakness == "", weakness, e.inactive == ""})
		}
	}
	return out
}
