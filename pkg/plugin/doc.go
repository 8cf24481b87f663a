// Package plugin asks the node owner's own programs whether a pod may start.
//
// A plugin is described by a file of /etc/nodeadmit/plugins.d. It is a program that is
// started for each question (exec), an admission webhook (webhook), or a gRPC server
// (grpc). All are asked the same: the pod as far as a bundle shows it, what is unknown of
// it, and the bundle's config.json. Plugins are asked in the order of their files,
// until one denies. A plugin can deny; what others deny it can't allow.
//
// A plugin that can't be asked, takes too long, or answers anything but an answer
// refuses the start, unless its failureMode is Open.
//
// docs/plugins.md has the protocol.
package plugin
