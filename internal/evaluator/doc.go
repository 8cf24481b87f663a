// Package evaluator asks `nodeadmit evaluate` for what the light programs on the
// container path don't link: policies in CEL and plugins.
//
// A question goes to the resident evaluator's socket if there is one, and else, or
// if that doesn't answer in time, or answers anything that isn't an answer to this
// question, to one that is started for it. Both are the same program and read the
// same policy, so that the resident one changes no decision: it only saves the start.
//
// The package is linked into programs that start for every container: it knows no
// gRPC, no net/http and not even package net.
package evaluator
