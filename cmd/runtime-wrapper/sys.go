package main

import (
	"syscall"
	_ "unsafe" // go:linkname
)

const selfExe = "/proc/self/exe"

// What package os calls for os.Args, and package syscall for Environ: without the
// work that these do at start, and without dropping repeated variables.
//
//go:linkname runtimeArgs os.runtime_args
func runtimeArgs() []string

//go:linkname runtimeEnvs syscall.runtime_envs
func runtimeEnvs() []string

// What syscall.ForkExec calls in the child: it sets the signal mask to the one that
// the process was started with, and all signal handlers to the default.
//
//go:linkname runtimeRestoreSignals syscall.runtime_AfterForkInChild
func runtimeRestoreSignals()

// execve returns only if it fails, and then the process has no signal handlers any
// more.
//
// The next program finds working directory, environment, descriptors, umask, limits
// and signal mask as we found them: we open nothing, and syscall.Exec puts back the
// limit of open files that Go raises at start. One thing can't be put back, because
// Go's runtime overwrites it before any of our code runs: a signal that the caller
// ignored is at its default afterwards, except SIGHUP and SIGINT. A runtime written
// in Go, as runc is, does the same to itself. TestSignals holds the exact lists.
func execve(path string, argv []string) syscall.Errno {
	runtimeRestoreSignals()
	return errno(syscall.Exec(path, argv, runtimeEnvs()))
}

func readlink(path string) (string, syscall.Errno) {
	var buf [4096]byte // PATH_MAX
	n, err := syscall.Readlink(path, buf[:])
	if err != nil {
		return "", errno(err)
	}
	if n == 0 {
		return "", syscall.ENOENT
	}
	return string(buf[:n]), 0
}

func stat(path string, st *syscall.Stat_t) syscall.Errno { return errno(syscall.Stat(path, st)) }

func errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	if e, ok := err.(syscall.Errno); ok {
		return e
	}
	return syscall.EINVAL
}
