package ociargs

import "strings"

// crun reads as crun's main and its commands do: argp_parse with ARGP_IN_ORDER
// over the global options up to the first other word, then over the command's.
func (r *reader) crun(args []string) outcome {
	o := r.crunGlobal(args)
	if o.result != starts {
		return o
	}
	global, name := o.flags, o.name
	o = r.argp(name, o.args)
	o.name = name
	if o.result == starts {
		o.flags = append(global, o.flags...)
	}
	return o
}

func (r *reader) crunGlobal(args []string) outcome {
	o := r.argp("", args)
	if o.result != starts {
		return o
	}
	if len(o.args) == 0 {
		return fail("no command", "")
	}
	o.name, o.args = o.args[0], o.args[1:]
	if !parsed(o.name) {
		o.result = other
	}
	return o
}

// argp is glibc's argp_parse with ARGP_IN_ORDER as crun uses it: getopt_long with
// a leading "-", stopped by the first word that is no option, which no parser of
// crun takes (argp/argp-parse.c: parser_parse_next, parser_finalize).
func (r *reader) argp(command string, args []string) outcome {
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
		if word[1] != '-' {
			used, done := r.shortOptions(&o, command, word, args)
			if done {
				return o
			}
			args = args[used:]
			continue
		}
		name, value, joined := strings.Cut(word[2:], "=")
		def, n := r.abbreviated(command, name)
		switch {
		case n > 1:
			return fail("ambiguous abbreviation", word)
		case n == 0:
			// A name that begins "config" or "bundle" may be its abbreviation for
			// another version of crun.
			if command != "" && (strings.HasPrefix("config", name) || strings.HasPrefix("bundle", name)) {
				return fail("may abbreviate --config or --bundle", word)
			}
			if r.unknownOption(&o, command, word, false) {
				return o
			}
			f := Flag{Name: name, Value: value, HasValue: joined, Global: command == "", Unknown: true, spelled: word}
			if !joined && r.takesValue(word) {
				if len(args) == 0 {
					return fail("option without its value", word)
				}
				f.Value, f.separate, args = args[0], true, args[1:]
			}
			o.flags = append(o.flags, f)
			continue
		case def.kind == stopFlag && !joined:
			o.result = ends
			return o
		case joined && def.kind != valueFlag && def.kind != optionalFlag:
			return fail("option that allows no value", word)
		}
		f := Flag{Name: def.name, Value: value, HasValue: joined, Global: command == ""}
		if def.kind == nextFlag || def.kind == valueFlag && !joined {
			if len(args) == 0 {
				return fail("option without its value", word)
			}
			f.Value, f.HasValue, args = args[0], true, args[1:]
			f.separate = def.kind == nextFlag
		}
		o.flags = append(o.flags, f)
	}
	o.args = args
	return o
}

// shortOptions reads one word of short options, which may be a cluster, and tells
// how many of the following words it used, and whether reading is over.
func (r *reader) shortOptions(o *outcome, command, word string, next []string) (used int, done bool) {
	for i := 1; i < len(word); i++ {
		c := word[i]
		def, ok := r.short(command, c)
		if !ok {
			if r.unknownOption(o, command, word, len(word) > 2) {
				return 0, true
			}
			f := Flag{Name: word[1:], Global: command == "", Unknown: true, spelled: word}
			if r.takesValue(word) {
				if len(next) == 0 {
					*o = fail("option without its value", word)
					return 0, true
				}
				f.Value, f.separate, used = next[0], true, 1
			}
			o.flags = append(o.flags, f)
			return used, false
		}
		f := Flag{Name: def.name, Global: command == ""}
		switch def.kind {
		case stopFlag:
			o.result = ends
			return 0, true
		case switchFlag:
			o.flags = append(o.flags, f)
			continue
		case optionalFlag:
			f.Value, f.HasValue = word[i+1:], i+1 < len(word)
		case valueFlag:
			f.Value, f.HasValue = word[i+1:], true
			if f.Value == "" {
				if len(next) == 0 {
					*o = fail("option without its value", word)
					return 0, true
				}
				f.Value, used = next[0], 1
			}
		}
		o.flags = append(o.flags, f)
		return used, false
	}
	return 0, false
}

// unknownOption notes an option that no table has, and tells whether reading is
// over. One inside a cluster can't be handed on as it is.
func (r *reader) unknownOption(o *outcome, command, word string, cluster bool) bool {
	if command == "" {
		o.unknownGlobal = word
	}
	switch {
	case r.strict:
		r.sawUnknown = true
		o.result, o.reason, o.word = foreign, "unknown option", word
	case cluster:
		o.result, o.reason, o.word = fails, "unknown option in a cluster", word
	default:
		return false
	}
	return true
}

func (r *reader) short(command string, c byte) (flagDef, bool) {
	for _, d := range r.g.table(command) {
		if d.short == c {
			return d, true
		}
	}
	for _, d := range argpBuiltin {
		if d.short == c {
			return d, true
		}
	}
	return r.findExtra(command, string(rune(c)))
}

// abbreviated looks a long option up as getopt_long does: the exact name, else the
// one option that begins so. n is the number of candidates.
func (r *reader) abbreviated(command, name string) (def flagDef, n int) {
	exact := false
	match := func(d flagDef) {
		if exact || d.name == "" || !strings.HasPrefix(d.name, name) {
			return
		}
		if d.name == name {
			exact = true
			def, n = d, 1
			return
		}
		def = d
		n++
	}
	for _, d := range r.g.table(command) {
		match(d)
	}
	for _, d := range argpBuiltin {
		match(d)
	}
	for _, e := range r.extra {
		if e.Command == command && len(e.Name) > 1 {
			d, _ := r.findExtra(command, e.Name)
			match(d)
		}
	}
	return def, n
}
