// Package ociargs reads the command line of an OCI runtime as that runtime
// itself would read it, so that what nodeadmit judges is what the runtime runs.
//
// Each runtime has its own grammar: runc uses urfave/cli (v1 on Go's flag
// package, v3 from runc 1.6 on), crun uses argp. A parser that only looks for
// the words "create" and "--bundle" can be led to judge another bundle than the
// one that is started; see the traps in the tests.
//
// One runtime is many versions, and the wrapper doesn't know which one stands
// behind it. Parse therefore reads a command line as every version does and
// refuses what they read differently, instead of choosing. What it accepts is
// handed on rebuilt (Command.Canonical) in the one form that all versions read
// alike.
//
// The package is linked into the wrapper's front, which starts for every call of
// the runtime: it imports nothing but strings, has no maps and does no work at
// initialisation.
package ociargs
