package install

import (
	"regexp"
	"slices"
	"strings"

	"github.com/nodeadmit/nodeadmit/internal/ociargs"
)

// compareHelp names flags that an installed runtime has and the tables don't: a
// start with such a flag may be refused.
func (p *Plan) compareHelp() {
	if p.Options.Root != "" {
		return
	}
	done := map[string]bool{}
	for _, h := range p.Handlers {
		if done[h.Real] {
			continue
		}
		done[h.Real] = true
		for _, u := range UnknownFlags(h.Real, h.Grammar) {
			p.warn("%s has a flag that is in no table: %s: a start with it is refused if it may change what is started", h.Real, u)
		}
	}
}

// UnknownFlags compares a runtime's own help with the tables and returns what
// they lack, as "create --flag". A runtime that has no such help has none.
func UnknownFlags(runtime string, g ociargs.Grammar) []string {
	var out []string
	for _, command := range []string{"", "create", "run", "restore", "exec"} {
		args := []string{"--help"}
		if command != "" {
			args = []string{command, "--help"}
		}
		text, err := output(runtime, args...)
		if err != nil {
			continue
		}
		for _, name := range helpFlags(string(text)) {
			if !g.HasFlag(command, name) {
				out = append(out, strings.TrimSpace(command+" --"+name))
			}
		}
	}
	return out
}

var (
	// A line that describes flags: their names come before two spaces.
	flagLine = regexp.MustCompile(`^\s+(-\S.*)$`)
	longFlag = regexp.MustCompile(`(?:^|[\s,])--([A-Za-z][-\w]*)`)
)

// helpFlags reads the long flags of a help text, of urfave/cli and of argp.
func helpFlags(text string) []string {
	var out []string
	for line := range strings.Lines(text) {
		m := flagLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m == nil {
			continue
		}
		names, _, _ := strings.Cut(m[1], "  ")
		for _, f := range longFlag.FindAllStringSubmatch(names, -1) {
			if !slices.Contains(out, f[1]) {
				out = append(out, f[1])
			}
		}
	}
	return out
}
