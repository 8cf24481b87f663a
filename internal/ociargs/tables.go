package ociargs

// kind tells what a flag does with the words after it.
type kind uint8

const (
	switchFlag   kind = iota // takes no value; runc allows =BOOL
	valueFlag                // takes a value, joined or in the next word
	optionalFlag             // takes a value only when it is joined (argp OPTION_ARG_OPTIONAL)
	nextFlag                 // allows no joined value, but takes the next word (crun's --network-lock)
	stopFlag                 // prints help or the version and ends; runc: if it is true at last
)

// flagDef is one flag of a runtime.
type flagDef struct {
	name  string
	short byte // 0 if it has none
	kind  kind
}

// runc, all versions from 1.0.3 to 1.6.0-rc.1 taken together: main.go, create.go,
// run.go, restore.go and exec.go of each. A version that lacks a flag refuses it
// and starts nothing, so the union is safe.
var (
	runcGlobal = [...]flagDef{
		{"debug", 0, switchFlag},
		{"log", 0, valueFlag},
		{"log-format", 0, valueFlag},
		{"root", 0, valueFlag},
		{"criu", 0, valueFlag}, // until 1.3
		{"systemd-cgroup", 0, switchFlag},
		{"rootless", 0, valueFlag},
		{"help", 'h', stopFlag},
		{"version", 'v', stopFlag},
	}
	runcCreate = [...]flagDef{
		{"bundle", 'b', valueFlag},
		{"config", 0, valueFlag}, // in no release up to 1.6.0-rc.1; seen in commit 023c562d
		{"console-socket", 0, valueFlag},
		{"pidfd-socket", 0, valueFlag}, // 1.2
		{"pid-file", 0, valueFlag},
		{"no-pivot", 0, switchFlag},
		{"no-new-keyring", 0, switchFlag},
		{"preserve-fds", 0, valueFlag},
		{"help", 'h', stopFlag},
	}
	runcRun = [...]flagDef{
		{"bundle", 'b', valueFlag},
		{"config", 0, valueFlag}, // as in create
		{"console-socket", 0, valueFlag},
		{"pidfd-socket", 0, valueFlag}, // 1.2
		{"detach", 'd', switchFlag},
		{"keep", 0, switchFlag}, // 1.1
		{"pid-file", 0, valueFlag},
		{"no-subreaper", 0, switchFlag},
		{"no-pivot", 0, switchFlag},
		{"no-new-keyring", 0, switchFlag},
		{"preserve-fds", 0, valueFlag},
		{"help", 'h', stopFlag},
	}
	runcRestore = [...]flagDef{
		{"console-socket", 0, valueFlag},
		{"image-path", 0, valueFlag},
		{"work-path", 0, valueFlag},
		{"tcp-established", 0, switchFlag},
		{"ext-unix-sk", 0, switchFlag},
		{"shell-job", 0, switchFlag},
		{"file-locks", 0, switchFlag},
		{"manage-cgroups-mode", 0, valueFlag},
		{"bundle", 'b', valueFlag},
		{"config", 0, valueFlag}, // as in create
		{"detach", 'd', switchFlag},
		{"pid-file", 0, valueFlag},
		{"no-subreaper", 0, switchFlag},
		{"no-pivot", 0, switchFlag},
		{"empty-ns", 0, valueFlag},
		{"auto-dedup", 0, switchFlag},
		{"lazy-pages", 0, switchFlag},
		{"lsm-profile", 0, valueFlag},
		{"lsm-mount-context", 0, valueFlag}, // 1.1
		{"help", 'h', stopFlag},
	}
	runcExec = [...]flagDef{
		{"console-socket", 0, valueFlag},
		{"pidfd-socket", 0, valueFlag}, // 1.2
		{"cwd", 0, valueFlag},
		{"env", 'e', valueFlag},
		{"tty", 't', switchFlag},
		{"user", 'u', valueFlag},
		{"additional-gids", 'g', valueFlag},
		{"process", 'p', valueFlag},
		{"detach", 'd', switchFlag},
		{"pid-file", 0, valueFlag},
		{"process-label", 0, valueFlag},
		{"apparmor", 0, valueFlag},
		{"no-new-privs", 0, switchFlag},
		{"cap", 'c', valueFlag},
		{"no-subreaper", 0, switchFlag}, // until 1.0
		{"preserve-fds", 0, valueFlag},
		{"cgroup", 0, valueFlag},         // 1.1
		{"ignore-paused", 0, switchFlag}, // 1.1
		{"help", 'h', stopFlag},
	}
	// urfave/cli v3 stops at the first word that is a command; these are all of
	// runc's, init included although it is not in the list of main.go.
	runcCommands = [...]string{
		"checkpoint", "create", "delete", "events", "exec", "features", "help", "h", "init", "kill", "list",
		"pause", "ps", "restore", "resume", "run", "spec", "start", "state", "update",
	}
)

// crun 1.8.1 (its own help) and newer (src/crun.c at 49e080a1, create.c and run.c at
// 044c89d2, restore.c at ce0987c5, exec.c at 4392ebc8), and the options that argp
// adds to each (glibc argp/argp-parse.c).
var (
	argpBuiltin = [...]flagDef{
		{"help", '?', stopFlag},
		{"usage", 0, stopFlag},
		{"program-name", 0, valueFlag},
		{"HANG", 0, optionalFlag},
	}
	crunGlobal = [...]flagDef{
		{"debug", 0, switchFlag},
		{"cgroup-manager", 0, valueFlag},
		{"systemd-cgroup", 0, switchFlag},
		{"log", 0, valueFlag},
		{"log-format", 0, valueFlag},
		{"log-level", 0, valueFlag}, // after 1.8
		{"root", 0, valueFlag},
		{"rootless", 0, valueFlag},
		{"version", 'v', stopFlag},
		{"", 'V', stopFlag},
	}
	crunCreate = [...]flagDef{
		{"bundle", 'b', valueFlag},
		{"config", 'f', valueFlag},
		{"console-socket", 0, valueFlag},
		{"preserve-fds", 0, valueFlag},
		{"no-pivot", 0, switchFlag},
		{"pid-file", 0, valueFlag},
		{"no-subreaper", 0, switchFlag},
		{"no-new-keyring", 0, switchFlag},
	}
	crunRun = [...]flagDef{
		{"bundle", 'b', valueFlag},
		{"config", 'f', valueFlag},
		{"detach", 'd', switchFlag},
		{"console-socket", 0, valueFlag},
		{"preserve-fds", 0, valueFlag},
		{"pid-file", 0, valueFlag},
		{"keep", 0, switchFlag}, // after 1.8
		{"no-subreaper", 0, switchFlag},
		{"no-new-keyring", 0, switchFlag},
		{"no-pivot", 0, switchFlag},
	}
	crunRestore = [...]flagDef{
		{"bundle", 'b', valueFlag},
		{"image-path", 0, valueFlag},
		{"work-path", 0, valueFlag},
		{"tcp-established", 0, switchFlag},
		{"tcp-close", 0, switchFlag},
		{"ext-unix-sk", 0, switchFlag},
		{"shell-job", 0, switchFlag},
		{"detach", 'd', switchFlag},
		{"pid-file", 0, valueFlag},
		{"console-socket", 0, valueFlag},
		{"file-locks", 0, switchFlag},
		{"manage-cgroups-mode", 0, valueFlag},
		{"network-lock", 0, nextFlag},
		{"lsm-profile", 0, valueFlag},
		{"lsm-mount-context", 0, valueFlag},
	}
	crunExec = [...]flagDef{
		{"console-socket", 0, valueFlag},
		{"tty", 't', optionalFlag},
		{"process", 'p', valueFlag},
		{"cwd", 0, valueFlag},
		{"cgroup", 0, valueFlag},
		{"detach", 'd', switchFlag},
		{"user", 'u', valueFlag},
		{"env", 'e', valueFlag},
		{"cap", 'c', valueFlag},
		{"pid-file", 0, valueFlag},
		{"preserve-fds", 0, valueFlag},
		{"no-new-privs", 0, switchFlag},
		{"process-label", 0, valueFlag},
		{"apparmor", 0, valueFlag},
	}
)

// table returns a grammar's flags of one command; "" asks for the global ones. A
// command that is never parsed further has none. A new runtime is a new case here
// and a reader in read.
func (g Grammar) table(command string) []flagDef {
	switch g {
	case Runc:
		switch command {
		case "":
			return runcGlobal[:]
		case "create":
			return runcCreate[:]
		case "run":
			return runcRun[:]
		case "restore":
			return runcRestore[:]
		case "exec":
			return runcExec[:]
		}
	case Crun:
		switch command {
		case "":
			return crunGlobal[:]
		case "create":
			return crunCreate[:]
		case "run":
			return crunRun[:]
		case "restore":
			return crunRestore[:]
		case "exec":
			return crunExec[:]
		}
	}
	return nil
}
