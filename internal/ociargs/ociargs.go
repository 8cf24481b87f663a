package ociargs

import "strings"

// Grammar names the command-line grammar of a runtime, as a node's configuration
// does (runtimes.*.grammar).
type Grammar string

const (
	// Runc is runc 1.0 to 1.6.
	Runc Grammar = "runc"
	// Crun is crun 1.8 and newer.
	Crun Grammar = "crun"
)

// Known tells whether there is a table for the grammar.
func (g Grammar) Known() bool { return g == Runc || g == Crun }

// Flag is one flag as the runtime reads it.
type Flag struct {
	// Name is the long name without dashes ("bundle" for -b); of an unknown flag,
	// the name as it was written, without dashes.
	Name string
	// Value is the value, if HasValue. A switch has one only if it was written so
	// (--no-pivot=false).
	Value    string
	HasValue bool
	// Global flags belong before the command.
	Global bool
	// Unknown flags are in no table and are handed on as they were written.
	Unknown bool

	spelled  string // an unknown flag's word; of a known one only the name's form
	separate bool   // the value is the next word, whatever Canonical does elsewhere
}

// ExtraFlag is a flag that a node's configuration adds to the tables, for a
// runtime that is newer than they are.
type ExtraFlag struct {
	// Command is the command that has the flag; "" for a global one.
	Command string
	// Name is the flag's name without dashes.
	Name string
	// TakesValue tells a flag with a value from a switch.
	TakesValue bool
}

// Command is a runtime's command line as that runtime reads it.
type Command struct {
	// Grammar is the one it was read by.
	Grammar Grammar
	// Name is the command ("create", "kill", ...); "" if the line only asks for
	// help or the version, or has no command.
	Name string
	// Help tells that the runtime prints help or its version and does nothing else.
	Help bool

	// ID is the container's id (create, run, restore, exec).
	ID string
	// Args are the words after ID (exec), or all words after another command.
	Args []string

	// Bundle is the bundle as given, relative to the working directory; "" is the
	// working directory itself.
	Bundle string
	// Config is crun's --config; see ConfigPath.
	Config string
	// Root, Log, LogFormat and Rootless are the global flags of those names, "" if
	// not given. crun's log may begin with "file:", "journald:" or "syslog:".
	Root, Log, LogFormat, Rootless string
	// Debug and SystemdCgroup are the global switches. crun's --cgroup-manager is
	// part of SystemdCgroup.
	Debug, SystemdCgroup bool
	// PidFile and ConsoleSocket are the flags of those names.
	PidFile, ConsoleSocket string
	// Detach is run's, restore's and exec's.
	Detach bool
	// Process is exec's --process file.
	Process string

	// Flags are all flags in order, global ones first. A help or version switch
	// that is false is left out.
	Flags []Flag
	// Unknown are the flags of Flags that no table has, as written, for the log
	// (DESIGN.md, ruling 8).
	Unknown []string

	raw []string // for what is handed on untouched
}

// Judged tells whether the command starts a container from a bundle and so has to
// be judged: create, run and restore, unless they only print help.
func (c *Command) Judged() bool { return judgedName(c.Name) && !c.Help }

// ConfigPath is the configuration file that the runtime reads, relative to the
// working directory of the runtime. crun takes --config relative to the directory
// it was called in, except for the very word "config.json", which is the bundle's
// (crun src/run.c, crun_command_run).
func (c *Command) ConfigPath() string {
	if c.OwnConfig() {
		return c.Config
	}
	if c.Bundle == "" {
		return ConfigName
	}
	return c.Bundle + "/" + ConfigName
}

// OwnConfig tells whether the runtime reads a configuration other than the
// bundle's config.json.
func (c *Command) OwnConfig() bool { return c.Config != "" && c.Config != ConfigName }

// ConfigName is the bundle's configuration.
const ConfigName = "config.json"

// Canonical returns the argv, without argv[0], to hand to the runtime. Of a judged
// command it is rebuilt from the parse, in the form that every version of the
// runtime reads alike: global flags, the command, its flags by their long names
// with the value joined, "--" and the id. Any other command line comes back as it
// was given.
func (c *Command) Canonical() []string {
	if !c.Judged() {
		return append([]string(nil), c.raw...)
	}
	argv := make([]string, 0, len(c.Flags)+4)
	for _, f := range c.Flags {
		if f.Global {
			argv = f.appendTo(argv)
		}
	}
	argv = append(argv, c.Name)
	for _, f := range c.Flags {
		if !f.Global {
			argv = f.appendTo(argv)
		}
	}
	return append(argv, "--", c.ID)
}

func (f Flag) appendTo(argv []string) []string {
	word := "--" + f.Name
	if f.Unknown {
		word = f.spelled
	}
	switch {
	case f.separate:
		return append(argv, word, f.Value)
	case f.HasValue && !f.Unknown:
		word += "=" + f.Value
	}
	return append(argv, word)
}

// Error says why a command line was refused.
type Error struct {
	// Grammar is the one that was tried.
	Grammar Grammar
	// Reason says what is wrong.
	Reason string
	// Word is the word of the command line that Reason is about, or "".
	Word string
}

// Error returns one line without control characters.
func (e *Error) Error() string {
	s := string(e.Grammar) + " command line: " + e.Reason
	if e.Word != "" {
		s += ": " + quote(e.Word)
	}
	return s
}

// quote cuts a word and makes it printable; strconv.Quote would do more than the
// front should link.
func quote(s string) string {
	const most = 200
	cut := len(s) > most
	if cut {
		s = s[:most]
	}
	b := make([]byte, 0, len(s)+8)
	b = append(b, '"')
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' {
			const hex = "0123456789abcdef"
			b = append(b, '\\', 'x', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	if cut {
		b = append(b, "..."...)
	}
	return string(append(b, '"'))
}

// Parse reads args, an argv without argv[0], as the runtime does.
//
// It returns an *Error for a line that the runtime's versions read differently,
// that they refuse, or that names no bundle for certain; for a judged command that
// means: refuse. A usage error of the runtime's own (no id, two ids) is refused
// here as well, because a version newer than the tables may read it as something
// else. Only for exec, which is not judged yet, the Command comes back beside the
// error.
//
// An unknown flag of a judged command is read both as a switch and as one that
// takes a value; unless command, bundle, configuration, id, root and log come out
// the same, the line is refused. An unknown global flag refuses only if a judged
// command's name stands anywhere in args (DESIGN.md, ruling 8).
func Parse(g Grammar, args []string) (*Command, error) { return ParseWith(g, nil, args) }

// ParseWith is Parse with flags added to the tables.
func ParseWith(g Grammar, extra []ExtraFlag, args []string) (*Command, error) {
	c, err := parse(g, extra, args)
	if err != nil || !c.Judged() {
		return c, err
	}
	// What is handed on must be read back as what is judged, by every version.
	again, err := parse(g, extra, c.Canonical())
	if err != nil || !again.Judged() || !sameStart(c, again) || len(c.Flags) != len(again.Flags) {
		return nil, &Error{g, "can't be handed on safely", c.Name}
	}
	return c, nil
}

const mostUnknown = 3 // space-separated unknown flags of different names; each doubles the readings

func parse(g Grammar, extra []ExtraFlag, args []string) (*Command, error) {
	if !g.Known() {
		return nil, &Error{g, "there is no such grammar", ""}
	}
	r := &reader{g: g, extra: extra, strict: true}
	all := r.read(nil, args)
	if r.sawUnknown {
		for i := range all {
			if all[i].result == fails { // it doesn't know the flag
				all[i].result = foreign
			}
		}
		r.strict = false
		for r.values = 0; r.values < 1<<len(r.unknown) || r.values == 0; r.values++ {
			all = r.read(all, args)
			if len(r.unknown) > mostUnknown {
				if names(args) {
					return nil, &Error{g, "too many unknown flags", r.unknown[0]}
				}
				break
			}
		}
	}

	if len(args) == 0 {
		args = nil
	}
	var failed, end, chosen *outcome
	for i := range all {
		o := &all[i]
		if o.unknownGlobal != "" && names(args) {
			return nil, &Error{g, "unknown global flag before a command that must be judged", o.unknownGlobal}
		}
		switch o.result {
		case fails:
			if failed == nil || failed.name == "" && o.name != "" {
				failed = o
			}
		case foreign:
		case ends:
			if end == nil {
				end = o
			}
		case other, starts:
			if chosen == nil || judgedName(o.name) && !judgedName(chosen.name) {
				chosen = o
			}
		}
	}
	if chosen == nil {
		switch {
		case end != nil:
			return &Command{Grammar: g, Name: end.name, Help: true, raw: args}, nil
		case failed != nil && failed.name == "exec":
			return &Command{Grammar: g, Name: "exec", raw: args}, &Error{g, failed.reason, failed.word}
		case failed != nil:
			return nil, &Error{g, failed.reason, failed.word}
		}
		return nil, &Error{g, all[0].reason, all[0].word}
	}

	c := newCommand(g, chosen)
	if !c.Judged() {
		if t := strings.TrimSpace(c.Name); judgedName(t) && t != c.Name {
			// urfave/cli v3 trims words before it looks for a command.
			return nil, &Error{g, "command with white space around it", c.Name}
		}
		c.raw = args
		return c, nil
	}
	for i := range all {
		switch o := &all[i]; {
		case o == chosen || o.result == foreign:
		case o.result == starts && sameStart(c, newCommand(g, o)):
		case len(r.unknown) > 0:
			return nil, &Error{g, "unknown flag that may or may not take the next word as its value", r.unknown[0]}
		case o.result == fails:
			return nil, &Error{g, "read differently by versions of the runtime: " + o.reason, o.word}
		default:
			return nil, &Error{g, "read differently by versions of the runtime", ""}
		}
	}
	if err := c.check(args); err != nil {
		return nil, err
	}
	return c, nil
}

// read appends what each version makes of args.
func (r *reader) read(all []outcome, args []string) []outcome {
	n := len(all)
	if r.g == Crun {
		all = append(all, r.crun(args))
	} else {
		for d := runcDialect(0); d < runcDialects; d++ {
			all = append(all, r.runc(d, args))
		}
	}
	for i := range all[n:] {
		o := &all[n+i]
		if o.result != starts {
			continue
		}
		reason := ""
		switch {
		case len(o.args) == 0:
			reason = "the container's id is missing"
		case o.name == "exec":
			continue
		case len(o.args) > 1:
			reason = "more than one container id"
		default:
			continue
		}
		o.result, o.reason, o.word = fails, reason, o.name
	}
	return all
}

// check refuses what no version is certain to read as written.
func (c *Command) check(args []string) error {
	if c.ID == "" { // a runtime notices only after it has read the bundle
		return &Error{c.Grammar, "the container's id is empty", c.Name}
	}
	if c.Grammar == Runc {
		// urfave/cli v3 trims words, and its releases differ in which.
		for _, a := range args {
			if strings.TrimSpace(a) != a {
				return &Error{c.Grammar, "word that begins or ends with white space", a}
			}
		}
		if c.given("config") {
			// Known to no release yet, and an error to all others.
			return &Error{c.Grammar, "--config is not supported: name the bundle with --bundle", c.Config}
		}
		return nil
	}
	if c.rootlessIsRoot() {
		return &Error{c.Grammar, "--rootless without a --root after it is the root directory in some versions", c.Rootless}
	}
	if c.Bundle == "" && c.given("bundle") {
		return &Error{c.Grammar, "--bundle is empty", ""}
	}
	if c.Config == "" && c.given("config") {
		return &Error{c.Grammar, "--config is empty", ""}
	}
	return nil
}

// rootlessIsRoot tells whether crun 1.8, which takes --rootless=DIR for --root=DIR,
// would use another root than later versions, which ignore it.
func (c *Command) rootlessIsRoot() bool {
	last := ""
	for _, f := range c.Flags {
		if f.Global && (f.Name == "root" || f.Name == "rootless") {
			last = f.Name
		}
	}
	return last == "rootless"
}

func (c *Command) given(name string) bool {
	for _, f := range c.Flags {
		if f.Name == name && !f.Global && !f.Unknown {
			return true
		}
	}
	return false
}

// sameStart tells whether two readings start the same from the same.
func sameStart(a, b *Command) bool {
	return a.Name == b.Name && a.Bundle == b.Bundle && a.Config == b.Config && a.ID == b.ID &&
		a.Root == b.Root && a.Log == b.Log && a.LogFormat == b.LogFormat
}

func newCommand(g Grammar, o *outcome) *Command {
	c := &Command{Grammar: g, Name: o.name, Args: o.args}
	if o.result == starts && len(o.args) > 0 {
		c.ID, c.Args = o.args[0], o.args[1:]
	}
	if len(c.Args) == 0 {
		c.Args = nil
	}
	for _, f := range o.flags {
		if !f.Unknown {
			if f.Name == "help" || f.Name == "version" {
				continue
			}
			f.spelled = ""
			c.set(f)
		} else {
			c.Unknown = append(c.Unknown, f.spelled)
		}
		c.Flags = append(c.Flags, f)
	}
	return c
}

// set takes one flag's value; the last one of a name wins, in every runtime.
func (c *Command) set(f Flag) {
	on := true
	if f.HasValue {
		on, _ = parseBool(f.Value)
	}
	if f.Global {
		switch f.Name {
		case "root":
			c.Root = f.Value
		case "log":
			c.Log = f.Value
		case "log-format":
			c.LogFormat = f.Value
		case "rootless":
			c.Rootless = f.Value
		case "debug":
			c.Debug = on
		case "systemd-cgroup":
			c.SystemdCgroup = on
		case "cgroup-manager":
			c.SystemdCgroup = f.Value == "systemd"
		case "log-level":
			c.Debug = f.Value == "debug"
		}
		return
	}
	switch f.Name {
	case "bundle":
		c.Bundle = f.Value
	case "config":
		c.Config = f.Value
	case "pid-file":
		c.PidFile = f.Value
	case "console-socket":
		c.ConsoleSocket = f.Value
	case "process":
		c.Process = f.Value
	case "detach":
		c.Detach = on
	}
}

// names tells whether a judged command's name stands in args.
func names(args []string) bool {
	for _, a := range args {
		if judgedName(a) || judgedName(strings.TrimSpace(a)) {
			return true
		}
	}
	return false
}

// MaybeJudged tells whether args may be a judged command under any grammar. It is
// for the wrapper's front, which reads no configuration and so doesn't know the
// runtime's grammar: false means that the runtime can be started at once, under
// every grammar, every version and every meaning of a flag that no table has.
func MaybeJudged(args []string) bool {
	if !names(args) {
		return false
	}
	r := &reader{g: Runc}
	for d := runcDialect(0); d < runcDialects; d++ {
		if d == cli1Mid || d == cli1Old { // differ from cli1New after the command only
			continue
		}
		if o := r.runcGlobal(d, args); o.maybe() {
			return true
		}
	}
	r = &reader{g: Crun}
	o := r.crunGlobal(args)
	return o.maybe()
}

// maybe is about a reading of the words up to the command.
func (o *outcome) maybe() bool {
	return o.result == fails || o.unknownGlobal != "" || judgedName(strings.TrimSpace(o.name))
}

// LogFile is the file that the global --log names, whatever the grammar, "" if it
// names none: for the front's own errors, which an engine shows only from there.
// crun's "file:" is taken off; its other schemes name no file.
func LogFile(args []string) string {
	r := &reader{g: Runc}
	for _, o := range []outcome{r.runcGlobal(cli1New, args), (&reader{g: Crun}).crunGlobal(args)} {
		log := ""
		for _, f := range o.flags {
			if f.Global && !f.Unknown && f.Name == "log" {
				log = f.Value
			}
		}
		if log == "" {
			continue
		}
		if strings.HasPrefix(log, "journald:") || strings.HasPrefix(log, "syslog:") {
			return ""
		}
		return strings.TrimPrefix(log, "file:")
	}
	return ""
}
