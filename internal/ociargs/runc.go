package ociargs

import "strings"

// The ways in which runc's versions read a command line. runc 1.0.3 and 1.1.15 pin
// urfave/cli v1.22.1, runc 1.5.3 has 1.22.17; distributions build with what they
// have (Debian 12: 1.22.9), so the ones between count too. runc 1.6.0-rc.1 has
// urfave/cli v3.14.0.
type runcDialect uint8

const (
	cli1New runcDialect = iota // v1.22.9, .10, .12 and .17
	cli1Mid                    // v1.22.2, .4 and .5
	cli1Old                    // v1.22.1
	cli3
	runcDialects
)

func (r *reader) runc(d runcDialect, args []string) outcome {
	o := r.runcGlobal(d, args)
	if o.result != starts {
		return o
	}
	global, name := o.flags, o.name
	if d == cli3 {
		o = r.cli3(name, o.args)
	} else {
		rest := o.args
		if name != "exec" { // SkipArgReorder
			rest = r.reorder(d, name, rest)
		}
		o = r.goFlags(name, rest)
		if o.result == starts && twoForms(r.g.table(name), o.flags) {
			o = fail("two forms of the same flag", "")
		}
	}
	o.name = name
	if o.result != starts {
		return o
	}
	if isTrue(o.flags, "help") {
		o.result = ends
		return o
	}
	o.flags = append(global, o.flags...)
	return o
}

// runcGlobal reads up to the command. Its result is starts for a parsed command,
// whose words are then in args.
func (r *reader) runcGlobal(d runcDialect, args []string) outcome {
	var o outcome
	if d == cli3 {
		o = r.cli3("", args)
	} else {
		o = r.goFlags("", args)
		if o.result == starts && twoForms(runcGlobal[:], o.flags) {
			return fail("two forms of the same flag", "")
		}
	}
	if o.result != starts {
		return o
	}
	if len(o.args) == 0 || isTrue(o.flags, "help") || isTrue(o.flags, "version") {
		o.result = ends
		return o
	}
	o.name, o.args = o.args[0], o.args[1:]
	if !parsed(o.name) {
		o.result = other
	}
	return o
}

// goFlags is flag.FlagSet.Parse over one command's flags.
func (r *reader) goFlags(command string, args []string) outcome {
	o := outcome{result: starts}
	for len(args) > 0 {
		word := args[0]
		if len(word) < 2 || word[0] != '-' {
			break
		}
		args = args[1:]
		if word == "--" {
			break
		}
		name, value, joined, ok := splitFlag(word)
		if !ok {
			return fail("bad flag syntax", word)
		}
		def, known := r.find(command, name)
		if !known {
			if r.isPersistent(command, name) {
				return outcome{result: foreign, reason: "global flag after the command, which only runc 1.6 and later allow", word: word}
			}
			if command == "" {
				o.unknownGlobal = word
			}
			if r.strict {
				r.sawUnknown = true
				o.result, o.reason, o.word = foreign, "unknown flag", word
				return o
			}
			f := Flag{Name: name, Value: value, HasValue: joined, Global: command == "", Unknown: true, spelled: word}
			if !joined && r.takesValue(name) {
				if len(args) == 0 {
					return fail("flag without its value", word)
				}
				f.Value, args = args[0], args[1:]
				f.separate = true
			}
			o.flags = append(o.flags, f)
			continue
		}
		f := Flag{Name: def.name, Value: value, HasValue: joined, Global: command == "", spelled: name}
		switch {
		case def.kind == valueFlag && !joined:
			if len(args) == 0 {
				return fail("flag without its value", word)
			}
			f.Value, f.HasValue, args = args[0], true, args[1:]
		case def.kind != valueFlag && joined:
			if _, ok := parseBool(value); !ok {
				return fail("not a boolean", word)
			}
		}
		o.flags = append(o.flags, f)
	}
	o.args = args
	return o
}

// cli3 is urfave/cli v3's Command.parseFlags (command_parse.go, v3.14.0). It
// takes flags anywhere, trims words before it looks whether they are flags, and
// knows the global flags after the command too.
func (r *reader) cli3(command string, args []string) outcome {
	o := outcome{result: starts}
	for ; len(args) > 0; args = args[1:] {
		raw := args[0]
		word := strings.TrimSpace(raw)
		if word == "" {
			o.args = append(o.args, raw)
			continue
		}
		if word == "--" {
			o.args = append(o.args, args[1:]...)
			return o
		}
		if command == "exec" && len(o.args) == 1 { // StopOnNthArg
			o.args = append(o.args, args...)
			return o
		}
		if word[0] != '-' {
			if command == "" && isRuncCommand(word) {
				o.args = append(o.args, args...)
				return o
			}
			o.args = append(o.args, raw)
			continue
		}
		if word == "-" {
			o.args = append(o.args, raw)
			continue
		}
		if word[1] != '-' && !isLetter(word[1:]) {
			o.args = append(o.args, args...)
			return o
		}
		name := word[1:]
		if name[0] == '-' {
			name = name[1:]
		}
		value, joined := "", false
		if n, _, ok := strings.Cut(name, "="); ok {
			name = n
			_, value, _ = strings.Cut(raw, "=")
			joined = true
		}
		def, known := r.find(command, name)
		global := command == ""
		if !known && r.isPersistent(command, name) {
			def, known = r.find("", name)
			global = true
		}
		if !known {
			if name == "" || name[0] == '-' {
				return fail("bad flag syntax", word)
			}
			if global {
				o.unknownGlobal = word
			}
			if r.strict {
				r.sawUnknown = true
				o.result, o.reason, o.word = foreign, "unknown flag", word
				return o
			}
			f := Flag{Name: name, Value: value, HasValue: joined, Global: global, Unknown: true, spelled: raw}
			if !joined && r.takesValue(name) {
				if len(args) == 1 {
					return fail("flag without its value", word)
				}
				args = args[1:]
				f.Value, f.separate = args[0], true
			}
			o.flags = append(o.flags, f)
			continue
		}
		f := Flag{Name: def.name, Value: value, HasValue: joined, Global: global, spelled: name}
		switch {
		case def.kind == valueFlag && !joined:
			if len(args) == 1 {
				return fail("flag without its value", word)
			}
			args = args[1:]
			f.Value, f.HasValue = args[0], true
		case def.kind != valueFlag && joined:
			if value == "" { // --x= is true here
				f.Value = "true"
			} else if _, ok := parseBool(value); !ok {
				return fail("not a boolean", word)
			}
		}
		o.flags = append(o.flags, f)
	}
	return o
}

// isPersistent tells whether name is a global flag that urfave/cli v3 takes after
// the command as well: all but help and version.
func (r *reader) isPersistent(command, name string) bool {
	if command == "" || name == "help" || name == "h" || name == "version" || name == "v" {
		return false
	}
	_, ok := r.find("", name)
	return ok
}

func isRuncCommand(word string) bool {
	for _, c := range runcCommands {
		if c == word {
			return true
		}
	}
	return false
}

// isLetter is conservative about letters outside ASCII: no flag begins with one.
func isLetter(s string) bool {
	c := s[0]
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c >= 0x80
}

// reorder is urfave/cli v1's reorderArgs (command.go), which moves the flags
// before the arguments, in its three forms.
func (r *reader) reorder(d runcDialect, command string, args []string) []string {
	var flags, rest []string
	mayBeValue := false
	for i, arg := range args {
		dashed := len(arg) > 0 && arg[0] == '-'
		switch {
		case d == cli1New && mayBeValue && !r.argIsFlag(command, arg):
			mayBeValue = false
			flags = append(flags, arg)
			continue
		case arg == "--" && d == cli1New:
			rest = append([]string{"--"}, rest...)
			rest = append(rest, args[i+1:]...)
		case arg == "--":
			rest = append(rest, args[i:]...)
		case d != cli1New && mayBeValue && !dashed:
			mayBeValue = false
			flags = append(flags, arg)
			continue
		case d == cli1Old && dashed && arg != "-", d != cli1Old && r.argIsFlag(command, arg):
			flags = append(flags, arg)
			mayBeValue = !strings.Contains(arg, "=")
			continue
		default:
			if d == cli1Old {
				mayBeValue = false
			}
			rest = append(rest, arg)
			continue
		}
		break // after "--"
	}
	return append(flags, rest...)
}

// argIsFlag is urfave/cli v1's argIsFlag. A flag that no table has is one for the
// version that may know it.
func (r *reader) argIsFlag(command, arg string) bool {
	if len(arg) < 2 || arg[0] != '-' || arg == "--" {
		return false
	}
	if strings.HasPrefix(arg, "--") {
		arg = strings.Replace(arg, "-", "", 2)
	}
	if strings.HasPrefix(arg, "-") {
		arg = arg[1:]
	}
	name, _, _ := strings.Cut(arg, "=")
	if _, ok := r.find(command, name); ok {
		return true
	}
	if name == "" || name[0] == '-' || r.isPersistent(command, name) {
		return false
	}
	r.sawUnknown = true
	return !r.strict
}

// twoForms is the error of urfave/cli v1's normalizeFlags: -b and --bundle both
// given.
func twoForms(defs []flagDef, flags []Flag) bool {
	for _, d := range defs {
		if d.short == 0 {
			continue
		}
		long, short := false, false
		for _, f := range flags {
			if f.Name == d.name && !f.Unknown {
				long = long || len(f.spelled) > 1
				short = short || len(f.spelled) == 1
			}
		}
		if long && short {
			return true
		}
	}
	return false
}

// isTrue tells the last value of a switch.
func isTrue(flags []Flag, name string) bool {
	on := false
	for _, f := range flags {
		if f.Name == name && !f.Unknown {
			on = true
			if f.HasValue {
				on, _ = parseBool(f.Value)
			}
		}
	}
	return on
}
