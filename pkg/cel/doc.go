// Package cel judges pods by Kubernetes' own policies: ValidatingAdmissionPolicy
// objects and their bindings, unchanged from a cluster, in upstream's CEL environment
// and with upstream's cost limits.
//
// A cluster judges a pod that somebody asks for; a node sees one container of it
// after the other, and not all of its fields. So an expression has three results.
// What a bundle doesn't show is a CEL unknown, for has() as well: an expression that
// depends on one is Undetermined, which at the sandbox waits for the containers and at
// a container refuses it, unless the policy or its binding has the annotation
// nodeadmit.dev/on-undetermined: Allow.
//
//   - A container is judged as if it were its pod's only one. That is enough for what
//     holds of a pod if it holds of each of its containers (see analysis.go). All else
//     that needs the pod's other containers is Undetermined.
//   - Nothing tells an init or ephemeral container from another. A container is judged
//     as one of spec.containers, and as one of spec.initContainers and
//     spec.ephemeralContainers where the policy has words for those. Where the results
//     differ it is Undetermined.
//
// It links CEL and the Kubernetes API: the binaries on the container path must not
// import it.
package cel
