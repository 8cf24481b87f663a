// Command minimal is the least that a Go program in front of a runtime can be:
// it execs the program that the link beside its name gives, and nothing else.
package main

import (
	"os"
	"syscall"
)

func main() {
	real, err := os.Readlink(os.Args[0] + ".real")
	if err == nil {
		err = syscall.Exec(real, os.Args, os.Environ())
	}
	os.Stderr.WriteString(err.Error() + "\n")
	os.Exit(1)
}
