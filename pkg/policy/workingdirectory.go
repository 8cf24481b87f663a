package policy

import (
	"path"
	"strings"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// workingDirectory
//
// The working directory must not be an open file of a process: a runtime that
// leaks a directory of the host lets the container start in it (CVE-2024-21626).
//
// Reads: process.cwd in all its spellings: /proc/self/fd/7, thread-self, a
// process's number, task, cwd and root, /dev/fd, another mount of proc, doubled
// slashes and "..".
// Known: at the sandbox for its own, else at the container.
// Settings: allow (true or false; default false).
// Can't see: a symbolic link in the image that leads there. Runtimes with the fix
// (runc 1.1.12, crun 1.15) refuse that.
// Upstream: none. In baseline and restricted at every version: no honest pod
// starts there.
var workingDirectoryControl = Control{
	Name:  "workingDirectory",
	reads: []string{"process"},
	preset: func(l Level, _ Version) rule {
		if !baselineUp(l) {
			return nil
		}
		return workingDirectory{}
	},
	parse: func(d *decoder, settings *strictyaml.Object, _ rule) rule {
		return workingDirectory{allow: d.allowSetting(settings)}
	},
}

type workingDirectory struct{ allow bool }

func (r workingDirectory) evaluate(in *spec.Intent) []finding {
	f := in.Cwd
	switch {
	case r.allow:
		return nil
	case f.Certainty == spec.Unknown && in.Kind == spec.KindSandbox:
		return waits(f.Source)
	case f.Certainty == spec.Unknown:
		return []finding{undetermined(f.Source, "its working directory can't be told")}
	case leaks(in, f.Value):
		return []finding{violated(f.Source, "the working directory is "+spec.Quote(f.Value)+", an open file of a process")}
	case in.Kind == spec.KindSandbox:
		return waits(f.Source)
	}
	return nil
}

// leaks reports whether a path leads through a process's open files.
func leaks(in *spec.Intent, cwd string) bool {
	clean := rooted(cwd)
	switch {
	case clean == cwd && clean == "/":
		return false
	case openFile(clean):
		return true
	}
	if strings.Contains(cwd, "..") && strings.Contains(cwd+"/", "/fd/") {
		return true // what ".." leaves may be a link that changes where it leads
	}
	for i := range in.Mounts {
		m := &in.Mounts[i]
		dest := rooted(m.Destination)
		if !prefix(clean, dest) {
			continue
		}
		rest := strings.TrimPrefix(strings.TrimPrefix(clean, dest), "/")
		switch {
		case m.Type == "proc" && !m.Bind && openFile("/proc/"+rest):
			return true
		case m.Bind && openFile(path.Join(m.Path(), rest)):
			return true
		}
	}
	return false
}

// rooted is a path that is taken from the container's root, cleaned.
func rooted(p string) string {
	if !strings.HasPrefix(p, "/") {
		p = "/" + p
	}
	return path.Clean(p)
}

// openFile reports whether a clean path is one of a process's own links: an
// open file, its working directory or its root.
func openFile(p string) bool {
	if prefix(p, "/dev/fd") {
		return true
	}
	p, ok := strings.CutPrefix(p, "/proc/")
	if !ok {
		return false
	}
	process, rest, _ := strings.Cut(p, "/")
	if process != "self" && process != "thread-self" && !digits(process) {
		return false
	}
	if task, ok := strings.CutPrefix(rest, "task/"); ok {
		_, rest, _ = strings.Cut(task, "/")
	}
	for _, link := range []string{"fd", "cwd", "root", "map_files"} {
		if prefix(rest, link) {
			return true
		}
	}
	return false
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
