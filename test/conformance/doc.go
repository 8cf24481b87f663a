// Package conformance holds nodeadmit's verdicts to those of upstream's Pod
// Security evaluator (k8s.io/pod-security-admission): on all of upstream's
// fixtures, which are read from the module, and on random pods.
//
// Effective: a pod is translated to the config.json files that engines write for
// it, and these are judged. Where upstream refuses a pod and its bundles are
// allowed, there must be a second pod that upstream allows and that comes to the
// same bundles byte for byte: then no one who sees bundles alone can tell. The
// rules that make the second pod of the first are the classes of what is not
// seen (rules_test.go, and docs/conformance.md, which is generated).
//
// Declared: the pod itself is judged, and the verdict is upstream's.
package conformance
