// Package translate makes of a pod what a runtime would be given for it: first
// the kubelet's requests to a container engine ([Kubelet]), then the
// config.json that the engine writes for them ([Containerd], [CRIO]).
//
// It is for tests alone, and is held to real bundles: those in test/testdata,
// and those that a real containerd writes in an end-to-end test.
//
// What it leaves out: environment from the API (service variables), probes and
// resources of the node, resource limits, device plugins, hugepages, NRI.
package translate
