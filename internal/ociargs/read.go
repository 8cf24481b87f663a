package ociargs

import "strings"

// result tells what one version of a runtime does with a command line.
type result uint8

const (
	fails   result = iota // usage error: nothing is started
	foreign               // the same, for a flag that only other versions know
	ends                  // prints help or the version: nothing is started
	other                 // a command that is not parsed further
	starts                // a parsed command: create, run, restore or exec
)

// outcome is one version's reading of a command line.
type outcome struct {
	result result
	name   string   // the command
	flags  []Flag   // global ones first
	args   []string // what is left
	reason string   // of fails and foreign
	word   string   // the word that reason is about

	unknownGlobal string // a global flag that no table has
}

// reader reads for one table under one assumption about the unknown flags.
type reader struct {
	g     Grammar
	extra []ExtraFlag

	// strict is how the known versions read: an unknown flag is an error.
	// Otherwise the n-th name of unknown takes a value if bit n of values is set.
	strict     bool
	sawUnknown bool
	values     uint
	unknown    []string
}

func fail(reason, word string) outcome { return outcome{result: fails, reason: reason, word: word} }

// takesValue is the assumption for an unknown flag that stands without "=".
func (r *reader) takesValue(name string) bool {
	for i, n := range r.unknown {
		if n == name {
			return r.values>>i&1 == 1
		}
	}
	r.unknown = append(r.unknown, name)
	return r.values>>(len(r.unknown)-1)&1 == 1
}

// find looks a flag up by its exact name, as urfave/cli does.
func (r *reader) find(command, name string) (flagDef, bool) {
	for _, d := range r.g.table(command) {
		if d.name == name || len(name) == 1 && d.short == name[0] {
			return d, true
		}
	}
	return r.findExtra(command, name)
}

func (r *reader) findExtra(command, name string) (flagDef, bool) {
	for _, e := range r.extra {
		if e.Command == command && e.Name == name {
			if e.TakesValue {
				return flagDef{name, 0, valueFlag}, true
			}
			return flagDef{name, 0, switchFlag}, true
		}
	}
	return flagDef{}, false
}

// splitFlag splits -x, --x, -x=v and --x=v as Go's flag package does
// (flag.FlagSet.parseOne); ok is false for bad syntax.
func splitFlag(word string) (name, value string, joined, ok bool) {
	name = word[1:]
	if name[0] == '-' {
		name = name[1:]
	}
	if name == "" || name[0] == '-' || name[0] == '=' {
		return "", "", false, false
	}
	name, value, joined = strings.Cut(name, "=")
	return name, value, joined, true
}

// parseBool is strconv.ParseBool.
func parseBool(s string) (value, ok bool) {
	switch s {
	case "1", "t", "T", "true", "TRUE", "True":
		return true, true
	case "0", "f", "F", "false", "FALSE", "False":
		return false, true
	}
	return false, false
}

// parsed tells whether the command's own flags are read.
func parsed(name string) bool { return judgedName(name) || name == "exec" }

func judgedName(name string) bool { return name == "create" || name == "run" || name == "restore" }
