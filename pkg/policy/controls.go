package policy

import (
	"slices"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// Result is what a control says of an intent.
type Result int

// The three results of a control.
const (
	Satisfied Result = iota
	Violated
	Undetermined
)

// finding is one thing that a control has to say. What reads as a statement of
// fact ("/host-etc is mounted from /etc").
type finding struct {
	result Result
	// assumed marks a Satisfied that rests on the form of the document alone.
	assumed bool
	field   string
	what    string
}

func violated(field, what string) finding { return finding{result: Violated, field: field, what: what} }

func undetermined(field, what string) finding {
	return finding{result: Undetermined, field: field, what: what}
}

func assumption(field, what string) finding {
	return finding{result: Satisfied, assumed: true, field: field, what: what}
}

// rule is a control with its settings. It returns nothing if it is satisfied.
type rule interface {
	evaluate(in *spec.Intent) []finding
}

// Control is one restriction that a policy may set.
type Control struct {
	// Name is the word for it in policies and messages.
	Name string
	// reads are the parts of the document that the control looks at. A key in
	// one of them that nobody knows makes the control Undetermined.
	reads []string
	// followsPrivileged marks what securityContext.privileged turns off by
	// itself. In a policy that has the control privileged, that one alone judges
	// a privileged container.
	followsPrivileged bool
	// undeterminedAllowed is what the presets have as onUndetermined: Allow.
	undeterminedAllowed bool
	// preset returns the rule of a Pod Security level, or nil if the level
	// doesn't restrict this.
	preset func(Level, Version) rule
	// parse returns the rule that a policy's settings make of the preset's,
	// which is nil if the level doesn't restrict this.
	parse func(d *decoder, settings *strictyaml.Object, preset rule) rule
}

//go:generate go run ../../internal/controlsdoc -C ../..

// Controls returns all controls, most serious first.
func Controls() []Control {
	return []Control{
		privilegedControl,
		hostPIDControl,
		hostNetworkControl,
		hostIPCControl,
		hostPathsControl,
		capabilitiesControl,
		devicesControl,
		workingDirectoryControl,
		runtimeAnnotationsControl,
		sysWritableControl,
		cgroupWritableControl,
		procMountControl,
		sysctlsControl,
		seccompProfileControl,
		appArmorProfileControl,
		seLinuxOptionsControl,
		hostUsersControl,
		runAsNonRootControl,
		runAsUserControl,
		allowPrivilegeEscalationControl,
		volumesControl,
		hostPortsControl,
		imagesControl,
		readOnlyRootFilesystemControl,
		environmentControl,
	}
}

// Restricts reports whether a Pod Security level restricts what the control is
// about.
func (c *Control) Restricts(l Level, v Version) bool { return c.preset(l, v) != nil }

// ControlNames returns the names of all controls, in order.
func ControlNames() []string {
	var names []string
	for _, c := range Controls() {
		names = append(names, c.Name)
	}
	return names
}

// waits is the finding of a control about something that a sandbox doesn't
// show.
func waits(field string) []finding {
	return []finding{undetermined(field, "is known when the pod's containers are made")}
}

func baselineUp(l Level) bool { return l == Baseline || l == Restricted }

// never is the preset of the controls that no level has.
func never(Level, Version) rule { return nil }

func contains[T comparable](list []T, v T) bool { return slices.Contains(list, v) }
