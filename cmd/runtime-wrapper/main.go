// Command runtime-wrapper is the OCI runtime that a container engine calls, in
// front of the real one. It decides nothing: a command that starts no container
// goes to the real runtime at once, and any other to runtime-judge, which lies
// beside it.
//
// It is called under one name per wrapped runtime. <name>.real beside that name is
// a symbolic link to the real runtime's absolute path; a name without a slash is
// looked for in /usr/lib/nodeadmit/runtimes, never in PATH. No configuration and no
// environment variable is read.
//
// An engine starts its runtime about six times per container, so this is the least
// that a Go program can be: the package os alone would cost it 6 % of its time.
package main

import (
	"syscall"

	"github.com/nodeadmit/nodeadmit/internal/ociargs"
)

// Where a wrapped runtime lies that is called by a name without a slash.
const runtimesDir = "/usr/lib/nodeadmit/runtimes/"

func main() {
	argv := runtimeArgs()
	if len(argv) == 0 {
		argv = []string{""}
	}
	p := call(argv)
	complain(argv, p)
	syscall.Exit(1)
}

// call hands argv on and returns only if that fails.
func call(argv []string) *problem {
	link := linkFor(argv[0])
	real, err := readlink(link)
	if err != 0 {
		return &problem{"can't find the real runtime: read " + link, err, "link it to the real runtime's absolute path, or run nodeadmit install"}
	}
	if real[0] != '/' {
		return &problem{link + " points to " + real + ", which is not an absolute path", 0, "link it to the real runtime's absolute path"}
	}
	if p := notOurselves(link, real); p != nil {
		return p
	}
	if ociargs.MaybeJudged(argv[1:]) {
		judge, p := judgePath()
		if p != nil {
			return p
		}
		err := execve(judge, argv)
		return &problem{"can't start the judge " + judge, err, "reinstall nodeadmit; until then no container starts here"}
	}
	args := append([]string{base(real)}, argv[1:]...)
	return &problem{"can't start the real runtime " + real + " that " + link + " names", execve(real, args), "install it, or correct the link"}
}

// linkFor is the link beside the name that we were called by.
func linkFor(argv0 string) string {
	if base(argv0) == argv0 {
		return runtimesDir + argv0 + ".real"
	}
	return argv0 + ".real"
}

// notOurselves refuses a link that leads back to this binary, which would run in
// circles, and a second name of it, which would judge twice and hide which runtime
// runs.
func notOurselves(link, real string) *problem {
	var self, target syscall.Stat_t
	if err := stat(selfExe, &self); err != 0 {
		return &problem{"can't look at " + selfExe, err, "mount /proc"}
	}
	if err := stat(real, &target); err != 0 {
		return &problem{"can't look at the real runtime " + real + " that " + link + " names", err, "install it, or correct the link"}
	}
	if self.Dev == target.Dev && self.Ino == target.Ino {
		return &problem{link + " names " + real + ", which is this wrapper again", 0, "link it to the real runtime instead"}
	}
	return nil
}

// judgePath is runtime-judge in the directory of this binary's file, which an
// upgrade may have replaced since we were started.
func judgePath() (string, *problem) {
	self, err := readlink(selfExe)
	if err != 0 {
		return "", &problem{"can't read " + selfExe, err, "mount /proc"}
	}
	const deleted = " (deleted)"
	if n := len(self) - len(deleted); n > 0 && self[n:] == deleted {
		self = self[:n]
	}
	return self[:len(self)-len(base(self))] + "runtime-judge", nil
}

func base(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '/' {
			return path[i+1:]
		}
	}
	return path
}
