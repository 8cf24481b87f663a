// The least Go program that hands a call on: what the wrapper's pass-through is
// measured against.
package main

import (
	"os"
	"syscall"
)

func main() {
	syscall.Exec("/bin/true", os.Args, os.Environ())
	os.Exit(1)
}
