// Package engine runs a real containerd, privately and as root, for tests and
// the demonstration: its own sockets, directories, mount namespace, cgroups and
// registry, gone without a trace after Close or when the test is killed.
//
//	Start    a containerd of a Flavour, with Handlers
//	Kubelet  runs Pods on it in the kubelet's order, and says what happened
//	Install  puts the project's binaries and a node's policy before a runtime
//	Look     what of the machine must be the same before and after
package engine
