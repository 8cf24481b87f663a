package policy

import (
	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// cgroupWritable
//
// The cgroup filesystem must be mounted read-only.
//
// Reads: mounts of type cgroup and cgroup2.
// Known: at the container. Of a privileged container it is judged by the control
// privileged alone.
// Settings: allow (true or false; default false).
// Can't see: a bind of the host's cgroup filesystem, which hostPaths judges.
// Upstream: none; no preset has it. Engines mount it writable on request
// (containerd cgroup_writable, CRI-O's annotation cgroup2-mount-hierarchy-rw).
var cgroupWritableControl = writableControl("cgroupWritable", false)

// sysWritable
//
// /sys must be mounted read-only.
//
// Reads: mounts of type sysfs.
// Known: at the container. Engines mount it writable in privileged containers
// alone: beside the control privileged this one has nothing to say, and it is
// for policies that don't have that.
// Settings: allow (true or false; default false).
// Can't see: a bind of the host's /sys, which hostPaths judges.
// Upstream: none; no preset has it.
var sysWritableControl = writableControl("sysWritable", true)

func writableControl(name string, sys bool) Control {
	return Control{
		Name:              name,
		reads:             []string{"mounts"},
		followsPrivileged: true,
		preset:            never,
		parse: func(d *decoder, settings *strictyaml.Object, _ rule) rule {
			return writable{sys: sys, allow: d.allowSetting(settings)}
		},
	}
}

// writable is about /sys, or else the cgroup filesystem.
type writable struct{ sys, allow bool }

func (r writable) evaluate(in *spec.Intent) []finding {
	f, word := in.CgroupWritable, "the cgroup filesystem"
	if r.sys {
		f, word = in.SysWritable, "/sys"
	}
	switch {
	case r.allow:
		return nil
	case in.Kind == spec.KindSandbox:
		// Writable there is the sandbox of a pod with privileged containers.
		return waits(f.Source)
	case f.Certainty == spec.Unknown:
		return []finding{undetermined(f.Source, "whether "+word+" can be written can't be told")}
	case f.Value:
		return []finding{violated(f.Source, word+" can be written")}
	}
	return nil
}
