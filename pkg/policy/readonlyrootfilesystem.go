package policy

import (
	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// readOnlyRootFilesystem
//
// The root filesystem must be read-only.
//
// Reads: root.readonly.
// Known: at the container. A sandbox's own value is the engine's.
// Settings: required (true or false; default true).
// Can't see: nothing.
// Upstream: none; no preset has it.
var readOnlyRootFilesystemControl = Control{
	Name:   "readOnlyRootFilesystem",
	reads:  []string{"root"},
	preset: never,
	parse: func(d *decoder, settings *strictyaml.Object, _ rule) rule {
		return readOnlyRootFilesystem{required: d.switchSetting(settings, "required", true)}
	},
}

type readOnlyRootFilesystem struct{ required bool }

func (r readOnlyRootFilesystem) evaluate(in *spec.Intent) []finding {
	f := in.ReadOnlyRoot
	switch {
	case !r.required:
		return nil
	case in.Kind == spec.KindSandbox:
		return waits(f.Source)
	case f.Certainty == spec.Unknown:
		return []finding{undetermined(f.Source, "whether its root filesystem is read-only can't be told")}
	case f.Value:
		return nil
	}
	return []finding{violated(f.Source, "the root filesystem can be written")}
}
