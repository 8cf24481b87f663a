package ociargs

// HasFlag tells whether a grammar's table of a command ("" for global flags) has
// a flag of that long name: for comparing a runtime's own help with the tables.
func (g Grammar) HasFlag(command, name string) bool {
	for _, d := range g.table(command) {
		if d.name == name {
			return true
		}
	}
	if g == Crun {
		for _, d := range argpBuiltin {
			if d.name == name {
				return true
			}
		}
	}
	return name == "generate-bash-completion" // urfave/cli's own
}
