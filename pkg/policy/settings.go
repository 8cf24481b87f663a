package policy

import (
	"path"
	"strconv"
	"strings"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
)

// What the settings of several controls have in common.

// allowSetting reads the settings of a control that only permits or refuses.
func (d *decoder) allowSetting(settings *strictyaml.Object) bool {
	return d.switchSetting(settings, "allow", false)
}

// switchSetting reads settings of which the only one is true or false.
func (d *decoder) switchSetting(settings *strictyaml.Object, name string, value bool) bool {
	for _, f := range settings.Fields {
		if f.Name == name {
			value = d.Bool(f)
			continue
		}
		d.UnknownField(settings, f, name)
	}
	return value
}

// patterns reads a list of strings, in which *, ? and [a-z] are wildcards.
func (d *decoder) patterns(f strictyaml.Field) []string {
	var out []string
	for _, item := range d.List(f) {
		out = append(out, d.pattern(item))
	}
	return out
}

func (d *decoder) pattern(f strictyaml.Field) string {
	s := d.Str(f)
	if _, err := path.Match(s, ""); err != nil || s == "" && f.Node != nil && f.Node.Tag == "!!str" {
		d.Errorf(f.Node, "pattern %q can't match: want text with *, ? or [a-z]", s)
	}
	return s
}

// words reads a list of words, each of which must be known.
func (d *decoder) words(f strictyaml.Field, what string, known ...string) []string {
	var out []string
	for _, item := range d.List(f) {
		w := d.Str(item)
		if item.Node.Tag == "!!str" && !contains(known, w) {
			d.Errorf(item.Node, "unknown %s %q%s", what, w, strictyaml.Nearest(w, known))
		}
		out = append(out, w)
	}
	return out
}

// integer reads a decimal number within bounds.
func (d *decoder) integer(f strictyaml.Field, low, high int64) int64 {
	if f.Node != nil && f.Node.Tag == "!!int" {
		n, err := strconv.ParseInt(f.Node.Value, 10, 64)
		if err == nil && n >= low && n <= high {
			return n
		}
		d.Errorf(f.Node, "%s is %s: want a number from %d to %d", f.Name, f.Node.Value, low, high)
		return low
	}
	d.Errorf(f.Node, "%s: want a number from %d to %d", f.Name, low, high)
	return low
}

// interval is a range of numbers, both ends included.
type interval struct{ min, max int64 }

func within(list []interval, n int64) bool {
	for _, r := range list {
		if r.min <= n && n <= r.max {
			return true
		}
	}
	return false
}

// intervals reads a list of {min, max} and of single numbers.
func (d *decoder) intervals(f strictyaml.Field, high int64) []interval {
	out := []interval{}
	for _, item := range d.List(f) {
		if item.Node != nil && item.Node.Tag == "!!int" {
			n := d.integer(item, 0, high)
			out = append(out, interval{n, n})
			continue
		}
		r := interval{-1, -1}
		o := d.Object(item)
		for _, f := range o.Fields {
			switch f.Name {
			case "min":
				r.min = d.integer(f, 0, high)
			case "max":
				r.max = d.integer(f, 0, high)
			default:
				d.UnknownField(o, f, "min", "max")
			}
		}
		switch {
		case r.min < 0 || r.max < 0:
			d.Errorf(item.Node, "%s: want a number, or both min and max", item.Name)
		case r.max < r.min:
			d.Errorf(item.Node, "%s: max %d is below min %d", item.Name, r.max, r.min)
		}
		out = append(out, r)
	}
	return out
}

// anyGlob reports whether one of the patterns matches.
func anyGlob(patterns []string, s string) bool {
	for _, p := range patterns {
		if glob(p, s) {
			return true
		}
	}
	return false
}

// list joins words for a message. Of more than a few it names the first.
func list(words []string) string {
	const few = 5
	if len(words) <= few {
		return strings.Join(words, ", ")
	}
	return strings.Join(words[:few-1], ", ") + " and " + strconv.Itoa(len(words)-few+1) + " more"
}
