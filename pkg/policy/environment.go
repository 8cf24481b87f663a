package policy

import (
	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// environment
//
// The variables LD_PRELOAD, LD_LIBRARY_PATH and LD_AUDIT must not be set but as
// allowed: what runs in the container with more privileges than its image, a
// hook of a GPU toolkit say, would load code of the pod's (CVE-2025-23266).
//
// Reads: process.env, in which the image's variables are as well.
// Known: at the sandbox for its own, else at the container.
// Settings: allow, a list of {name, value}, both patterns; value is any if it is
// left out.
// Can't see: whether the pod or its image set a variable.
// Upstream: none; no preset has it.
var environmentControl = Control{
	Name:   "environment",
	reads:  []string{"process"},
	preset: never,
	parse: func(d *decoder, settings *strictyaml.Object, _ rule) rule {
		var r environment
		for _, f := range settings.Fields {
			switch f.Name {
			case "allow":
				r.allow = d.pairs(f)
			default:
				d.UnknownField(settings, f, "allow")
			}
		}
		return r
	},
}

// pair is a pattern of a name and one of a value, "*" if it was left out.
type pair struct{ name, value string }

// pairs reads a list of {name, value}, or of names alone.
func (d *decoder) pairs(f strictyaml.Field) []pair {
	var out []pair
	for _, item := range d.List(f) {
		if item.Node != nil && item.Node.Tag == "!!str" {
			out = append(out, pair{d.pattern(item), "*"})
			continue
		}
		p := pair{value: "*"}
		o := d.Object(item)
		for _, f := range o.Fields {
			switch f.Name {
			case "name":
				p.name = d.pattern(f)
			case "value":
				p.value = d.pattern(f)
			default:
				d.UnknownField(o, f, "name", "value")
			}
		}
		if p.name == "" {
			d.Errorf(item.Node, "%s: name is missing", item.Name)
		}
		out = append(out, p)
	}
	return out
}

func anyPair(list []pair, name, value string) bool {
	for i := range list {
		if glob(list[i].name, name) && glob(list[i].value, value) {
			return true
		}
	}
	return false
}

type environment struct{ allow []pair }

func (r environment) evaluate(in *spec.Intent) []finding {
	if in.Cwd.Certainty == spec.Unknown { // there is no process
		return []finding{undetermined("process", "its environment can't be told")}
	}
	var out []finding
	for i := range in.LoaderVariables {
		v := &in.LoaderVariables[i]
		switch v.Name {
		case "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT":
			if !anyPair(r.allow, v.Name, v.Value) {
				out = append(out, violated(v.Field, v.Name+" is set to "+spec.Quote(v.Value)))
			}
		}
	}
	if len(out) == 0 && in.Kind == spec.KindSandbox {
		return waits("process.env")
	}
	return out
}
