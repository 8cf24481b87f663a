package policy

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// devices
//
// No device of the node may be used but what is allowed, beside those that every
// container has (null, zero, full, random, urandom, tty, console, ptmx, pts). The
// right to make device nodes that can't be opened (access m) is none.
//
// Reads: linux.devices, linux.resources.devices.
// Known: at the container. Of a privileged container it is judged by the control
// privileged alone.
// Settings: allow, a list of {path, type, major, minor, access}, of which what is
// given must match: path a pattern, type c or b, major and minor numbers, access
// of r, w and m at most. A path also allows the rule for the numbers that the
// node of this name has.
// Can't see: what a path is on the node: the name is the container's and may be
// another device's. Give numbers too where that counts.
// Upstream: none; no preset has it.
var devicesControl = Control{
	Name:              "devices",
	reads:             []string{"linux"},
	followsPrivileged: true,
	preset:            never,
	parse: func(d *decoder, settings *strictyaml.Object, _ rule) rule {
		var r devices
		for _, f := range settings.Fields {
			switch f.Name {
			case "allow":
				for _, item := range d.List(f) {
					r.allow = append(r.allow, d.device(item))
				}
			default:
				d.UnknownField(settings, f, "allow")
			}
		}
		return r
	},
}

// allowedDevice has -1 and "" for what isn't given.
type allowedDevice struct {
	path, kind   string
	major, minor int64
	access       string
}

type devices struct{ allow []allowedDevice }

func (d *decoder) device(f strictyaml.Field) allowedDevice {
	out := allowedDevice{major: -1, minor: -1}
	o := d.Object(f)
	for _, f := range o.Fields {
		switch f.Name {
		case "path":
			out.path = d.pattern(f)
		case "type":
			out.kind = strictyaml.Choice(d.Decoder, f, "c", "b")
		case "major":
			out.major = d.integer(f, 0, maxID)
		case "minor":
			out.minor = d.integer(f, 0, maxID)
		case "access":
			out.access = d.Str(f)
			if out.access == "" || strings.Trim(out.access, "rwm") != "" {
				d.Errorf(f.Node, "access %q: want letters of r, w and m", out.access)
			}
		default:
			d.UnknownField(o, f, "path", "type", "major", "minor", "access")
		}
	}
	if out.path == "" && (out.kind == "" || out.major < 0) {
		d.Errorf(f.Node, "%s: want a path, or type and major", f.Name)
	}
	return out
}

func (r devices) evaluate(in *spec.Intent) []finding {
	var out []finding
	for i := range in.Devices {
		v := &in.Devices[i]
		if harmlessDevice(v) || r.allowed(v, in.Devices) {
			continue
		}
		what := "device " + deviceNumbers(v)
		if v.Path != "" {
			what = "device " + spec.Quote(v.Path) + " (" + deviceNumbers(v) + ")"
		}
		if v.Access != "" {
			what += ", access " + spec.Quote(v.Access) + ","
		}
		out = append(out, violated(v.Field, what+" can be used"))
	}
	if len(out) == 0 && in.Kind == spec.KindSandbox {
		return waits("linux.devices")
	}
	return out
}

// harmlessDevice knows what every container has (runc
// libcontainer/specconv AllowedDevices, moby oci/defaults.go): the default
// devices, and rules that let a node be made but not opened.
func harmlessDevice(v *spec.Device) bool {
	if v.Path == "" && v.Access != "" && strings.Trim(v.Access, "m") == "" {
		return true
	}
	if v.Type != "c" && v.Type != "u" {
		return false
	}
	switch v.Major {
	case 1:
		return v.Minor == 3 || v.Minor == 5 || v.Minor == 7 || v.Minor == 8 || v.Minor == 9
	case 5:
		return v.Minor >= 0 && v.Minor <= 2
	case 136:
		return true
	}
	return false
}

// allowed reports whether the policy lists a device node or rule. all are the
// container's, among which a rule finds the node of its numbers.
func (r devices) allowed(v *spec.Device, all []spec.Device) bool {
	for i := range r.allow {
		a := &r.allow[i]
		if !a.numbers(v) || a.access != "" && strings.Trim(v.Access, a.access) != "" {
			continue
		}
		if a.path == "" || v.Path != "" && glob(a.path, v.Path) {
			return true
		}
		if v.Path != "" || v.Minor < 0 {
			continue
		}
		for j := range all {
			if n := &all[j]; n.Path != "" && glob(a.path, n.Path) && n.Type == v.Type && n.Major == v.Major && n.Minor == v.Minor {
				return true
			}
		}
	}
	return false
}

// numbers reports whether type and numbers are within what is allowed. A
// wildcard in the container's rule is more than any number.
func (a *allowedDevice) numbers(v *spec.Device) bool {
	kind := v.Type
	if kind == "u" {
		kind = "c"
	}
	return (a.kind == "" || a.kind == kind) && (a.major < 0 || a.major == v.Major) && (a.minor < 0 || a.minor == v.Minor)
}

func deviceNumbers(v *spec.Device) string {
	number := func(n int64) string {
		if n < 0 {
			return "*"
		}
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s %s:%s", spec.Quote(v.Type), number(v.Major), number(v.Minor))
}
