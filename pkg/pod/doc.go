// Package pod speaks of pods as the Kubernetes API does, for those who judge
// with its types: upstream's Pod Security evaluator, CEL, plugins.
//
//	Rebuild   a pod from what a bundle shows
//	Read      pods from manifests, with the API's defaults
//	Evaluate  upstream's checks, under the names of our controls
//	Declare   what a pod's containers declare, for our own controls
//
// It links the Kubernetes API's types, which cost some milliseconds at every
// start of a program: the binaries on the container path must not import it.
package pod
