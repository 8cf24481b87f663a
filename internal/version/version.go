// Package version holds the version that the build stamps in.
package version

// Version is set by the linker: -X .../internal/version.Version=v1.2.3.
var Version = "devel"
