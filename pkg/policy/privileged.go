package policy

import (
	"strings"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// privileged
//
// No container may run with securityContext.privileged.
//
// Reads: the signs that engines give to privileged containers alone, a
// writable /sys and a device rule that allows all; other signs (linux, mounts,
// process) are named in the message.
// Known: at the container; at the sandbox where its /sys is writable (containerd
// 2). No seccomp profile leaves it undetermined there.
// Settings: allow (true or false; default false).
// Can't see: which of the pod's containers it is, at the sandbox.
// Upstream: baseline, Privileged Containers (check_privileged.go).
var privilegedControl = Control{
	Name:  "privileged",
	reads: []string{"linux", "mounts", "process"},
	preset: func(l Level, _ Version) rule {
		if !baselineUp(l) {
			return nil
		}
		return privileged{}
	},
	parse: func(d *decoder, settings *strictyaml.Object, _ rule) rule {
		return privileged{allow: d.allowSetting(settings)}
	},
}

type privileged struct{ allow bool }

func (r privileged) evaluate(in *spec.Intent) []finding {
	f := in.Privileged
	switch {
	case r.allow:
		return nil
	case f.Certainty == spec.Unknown && in.Kind == spec.KindSandbox:
		return []finding{undetermined(f.Source, "the sandbox has no seccomp profile: some container of the pod may be privileged")}
	case f.Certainty == spec.Unknown:
		return []finding{undetermined(f.Source, "whether it is privileged can't be told")}
	case !f.Value:
		return nil
	}
	var signs []string
	for _, s := range in.PrivilegedSigns {
		signs = append(signs, s.Name)
	}
	subject := "the container is privileged"
	if in.Kind == spec.KindSandbox {
		subject = "some container of the pod is privileged"
	}
	return []finding{violated(f.Source, subject+" ("+strings.Join(signs, ", ")+")")}
}
