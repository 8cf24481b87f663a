package policy

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// APIVersion and Kind are those of a NodePolicy document.
const (
	APIVersion = "nodeadmit.dev/v1alpha1"
	Kind       = "NodePolicy"
)

// Mode says what a violation does.
type Mode string

const (
	// Enforce refuses the start.
	Enforce Mode = "Enforce"
	// Audit only reports.
	Audit Mode = "Audit"
)

// Level is a Pod Security level.
type Level string

// The levels of the Pod Security Standards.
const (
	Privileged Level = "privileged"
	Baseline   Level = "baseline"
	Restricted Level = "restricted"
)

// Version is a minor version of the Pod Security Standards, or latest.
type Version struct {
	latest bool
	minor  int
}

// newestVersion is the newest minor version that the presets know.
const newestVersion = 37

// ParseVersion reads "latest" or "v1.0" to "v1.37".
func ParseVersion(s string) (Version, error) {
	if s == "latest" {
		return Version{latest: true}, nil
	}
	digits, ok := strings.CutPrefix(s, "v1.")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 || n > newestVersion || strconv.Itoa(n) != digits {
		return Version{}, fmt.Errorf("unknown version %q: want latest or v1.0 to v1.%d", s, newestVersion)
	}
	return Version{minor: n}, nil
}

func (v Version) atLeast(minor int) bool { return v.latest || v.minor >= minor }

func (v Version) String() string {
	if v.latest {
		return "latest"
	}
	return "v1." + strconv.Itoa(v.minor)
}

// Policy is one NodePolicy document, ready to be evaluated.
type Policy struct {
	Name       string
	File       string
	Mode       Mode
	Preset     Level
	Version    Version
	active     []activeControl
	exemptions []exemption
	// judgesPrivileged is true if the control privileged is active.
	judgesPrivileged bool
}

type activeControl struct {
	control Control
	// order is the control's place in Controls.
	order int
	rule  rule
	mode  Mode
	// undeterminedAllowed is onUndetermined: Allow.
	undeterminedAllowed bool
}

// exemption takes controls off containers that match it.
type exemption struct {
	name     string
	match    match
	controls []string
}

type match struct{ namespace, pod, container, image string }

// Set is all policies of a node, in the order of their files and names.
type Set struct {
	Policies []*Policy
	// Digest is "sha256:" and a hexadecimal digest over all files.
	Digest string
}

// tri is a truth value of an exemption's match.
type tri int

const (
	no tri = iota
	maybe
	yes
)

// applies reports whether the exemption matches. What is not known yet at the
// sandbox may still match; at the last moment it doesn't.
func (e *exemption) applies(in *spec.Intent) tri {
	if in.Kind == spec.KindUnmanaged {
		return no
	}
	out := yes
	for _, c := range []struct {
		pattern string
		fact    spec.Fact[string]
	}{
		{e.match.namespace, in.Pod.Namespace},
		{e.match.pod, in.Pod.Name},
		{e.match.container, in.Pod.Container},
		{e.match.image, imageName(in)},
	} {
		switch {
		case c.pattern == "":
		case in.Kind == spec.KindSandbox && c.fact.Certainty != spec.Known:
			out = maybe
		case c.fact.Certainty != spec.Known:
			return no
		case !glob(c.pattern, c.fact.Value):
			return no
		}
	}
	return out
}

// imageName is the image's name where it is a container's. A sandbox runs the
// pause image, which is nobody's choice.
func imageName(in *spec.Intent) spec.Fact[string] {
	f := spec.Fact[string]{Value: in.Pod.Image.Value.Name, Certainty: in.Pod.Image.Certainty, Source: in.Pod.Image.Source}
	if in.Kind == spec.KindSandbox {
		f.Certainty = spec.Unknown
	}
	return f
}

// glob matches as path.Match does, but "*" crosses slashes.
func glob(pattern, s string) bool {
	if !strings.ContainsAny(pattern, "*?[") {
		return pattern == s
	}
	swap := strings.NewReplacer("/", "\x01")
	ok, err := path.Match(swap.Replace(pattern), swap.Replace(s))
	return ok && err == nil
}
