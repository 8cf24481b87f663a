package policy

import (
	"fmt"
	"strconv"
	"strings"
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
	Name    string
	File    string
	Mode    Mode
	Preset  Level
	Version Version
	// Basis is what the policy judges, OnSourceUnavailable what it does without.
	Basis               Basis
	OnSourceUnavailable Fallback
	active              []activeControl
	exemptions          []exemption
	// nodeLabels are nodes.matchLabels: the nodes that the policy is for.
	nodeLabels map[string]string
	// judgesPrivileged is true if the control privileged is active.
	judgesPrivileged bool
	// refusalText is what a violation's message ends with.
	refusalText string
}

func (p *Policy) refusal() string {
	if p.refusalText != "" {
		return p.refusalText
	}
	return ", which policy " + strconv.Quote(p.Name) + " does not allow"
}

type activeControl struct {
	control Control
	// order is the control's place in Controls.
	order int
	rule  rule
	mode  Mode
	// undeterminedAllowed is onUndetermined: Allow.
	undeterminedAllowed bool
	// lines are where the policy's own settings stand, by name; nil if the
	// policy doesn't name the control.
	lines map[string]int
}

// Set is all policies of a node, in the order of their files and names.
type Set struct {
	Policies []*Policy
	// External are documents that only `nodeadmit evaluate` reads.
	External []External
	// Digest is "sha256:" and a hexadecimal digest over all files.
	Digest string
}
