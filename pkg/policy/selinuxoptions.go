package policy

import (
	"slices"
	"strings"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// seLinuxOptions
//
// The SELinux type must be one made for containers, and user and role what
// engines set.
//
// Reads: process.selinuxLabel (user:role:type:level).
// Known: at the sandbox for a label of the pod, else at the container. Of a
// privileged container it is judged by the control privileged alone.
// Settings: types, users, roles (names, added to the preset's), levels (patterns;
// default any), required (true or false: a container without a label is refused).
// Without a preset's and without types, those of baseline hold.
// Can't see: whether a container without a label is on a node without SELinux,
// or on one whose engine doesn't use it: it is satisfied unless required.
// Upstream: baseline, SELinux (check_seLinuxOptions.go): container_t,
// container_init_t, container_kvm_t, since v1.31 container_engine_t; user and role
// unset, which engines write as system_u and system_r.
var seLinuxOptionsControl = Control{
	Name:              "seLinuxOptions",
	reads:             []string{"process"},
	followsPrivileged: true,
	preset: func(l Level, v Version) rule {
		if !baselineUp(l) {
			return nil
		}
		r := seLinuxOptions{users: []string{"system_u"}, roles: []string{"system_r"}, types: seLinuxTypes[:3:3]}
		if v.atLeast(31) {
			r.types = seLinuxTypes
		}
		return r
	},
	parse: func(d *decoder, settings *strictyaml.Object, preset rule) rule {
		r := seLinuxOptions{users: []string{"system_u"}, roles: []string{"system_r"}}
		if p, ok := preset.(seLinuxOptions); ok {
			r.types = slices.Clone(p.types)
		}
		for _, f := range settings.Fields {
			switch f.Name {
			case "types":
				r.types = append(r.types, d.labels(f)...)
			case "users":
				r.users = append(r.users, d.labels(f)...)
			case "roles":
				r.roles = append(r.roles, d.labels(f)...)
			case "levels":
				r.levels = d.patterns(f)
			case "required":
				r.required = d.Bool(f)
			default:
				d.UnknownField(settings, f, "types", "users", "roles", "levels", "required")
			}
		}
		if r.types == nil {
			r.types = seLinuxTypes
		}
		return r
	},
}

// seLinuxTypes are those of v1.31. The last is not in earlier versions.
var seLinuxTypes = []string{"container_t", "container_init_t", "container_kvm_t", "container_engine_t"}

// labels reads parts of an SELinux label.
func (d *decoder) labels(f strictyaml.Field) []string {
	out := []string{}
	for _, item := range d.List(f) {
		s := d.Str(item)
		if item.Node.Tag == "!!str" && (s == "" || strings.ContainsAny(s, ": *?[")) {
			d.Errorf(item.Node, "%s is %q: want one word, as container_t", item.Name, s)
		}
		out = append(out, s)
	}
	return out
}

type seLinuxOptions struct {
	types, users, roles, levels []string
	required                    bool
}

func (r seLinuxOptions) evaluate(in *spec.Intent) []finding {
	f := in.SELinux
	sandbox := in.Kind == spec.KindSandbox
	switch {
	case f.Certainty == spec.Unknown:
		return []finding{undetermined(f.Source, "its SELinux label can't be told")}
	case f.Value == "" && sandbox:
		return waits(f.Source)
	case f.Value == "" && r.required:
		return []finding{violated(f.Source, "there is no SELinux label")}
	case f.Value == "":
		return nil
	}
	part := strings.SplitN(f.Value, ":", 4)
	if len(part) < 3 {
		return []finding{violated(f.Source, "SELinux label "+spec.Quote(f.Value)+" has no type")}
	}
	if len(part) == 3 {
		part = append(part, "")
	}
	if sandbox && part[2] == "spc_t" && (in.Privileged.Certainty == spec.Unknown || in.Privileged.Value) {
		// The engine's own for a pod with privileged containers.
		return waits(f.Source)
	}
	for _, c := range []struct {
		word, value string
		ok          bool
	}{
		{"type", part[2], contains(r.types, part[2])},
		{"user", part[0], contains(r.users, part[0])},
		{"role", part[1], contains(r.roles, part[1])},
		{"level", part[3], r.levels == nil || anyGlob(r.levels, part[3])},
	} {
		if !c.ok {
			return []finding{violated(f.Source, "SELinux "+c.word+" "+spec.Quote(c.value)+" is used")}
		}
	}
	if sandbox {
		return waits(f.Source)
	}
	return nil
}
