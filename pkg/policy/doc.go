// Package policy decides whether a pod intent breaks a node's policy.
//
// A policy is a list of controls, each named after the pod's field that it
// restricts, with its settings. One file holds one control, and opens with a
// comment that says what the control reads and allows. [Controls] is the one
// list of them, in the order in which violations are reported.
//
// A control has three results: Satisfied, Violated, and Undetermined where the
// intent can't tell. An undetermined control lets a sandbox start, since its
// containers are judged later, and refuses anything else.
package policy
