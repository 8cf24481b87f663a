package spec

import "fmt"

// Dialect is the engine that wrote a bundle's annotations.
type Dialect string

// The engines. None is a bundle that no engine's keys are looked for in: runc
// in CI, ctr, BuildKit.
const (
	Containerd Dialect = "containerd"
	CRIO       Dialect = "crio"
	Podman     Dialect = "podman"
	Docker     Dialect = "docker"
	None       Dialect = "none"
)

// Dialects are all engines, in the order in which help texts name them.
var Dialects = []Dialect{Containerd, CRIO, Podman, Docker, None}

// ParseDialect returns the engine of that name.
func ParseDialect(s string) (Dialect, error) {
	for _, d := range Dialects {
		if string(d) == s {
			return d, nil
		}
	}
	return "", fmt.Errorf("unknown engine %q: want containerd, crio, podman, docker or none", s)
}

// Engine is what must be known of an engine to read its bundles.
type Engine struct {
	Dialect Dialect
	// DefaultCapabilities are those that the engine gives a container that
	// asks for none, without "CAP_".
	DefaultCapabilities []string
	// Roots are the directories in which the engine keeps its own files.
	Roots []string
	// KubeletRoots are the kubelet's --root-dir, as configured and resolved.
	KubeletRoots []string
}

// NewEngine returns what an engine does when nothing is configured.
//
// Default capabilities: containerd pkg/oci/spec.go defaultUnixCaps; CRI-O
// pkg/config DefaultCapabilities; podman containers.conf default_capabilities;
// moby daemon/pkg/oci/caps/defaults.go.
func NewEngine(d Dialect) Engine {
	e := Engine{Dialect: d, KubeletRoots: []string{"/var/lib/kubelet"}}
	fourteen := []string{
		"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE",
		"NET_RAW", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
	}
	switch d {
	case Containerd:
		e.DefaultCapabilities = fourteen
		e.Roots = []string{"/var/lib/containerd", "/run/containerd"}
	case CRIO:
		e.DefaultCapabilities = []string{
			"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETPCAP", "SETUID",
		}
		e.Roots = []string{"/var/lib/containers/storage", "/run/containers/storage", "/var/run/containers/storage", "/run/crio", "/var/lib/crio"}
	case Podman:
		e.DefaultCapabilities = []string{
			"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
		}
		e.Roots = []string{"/var/lib/containers/storage", "/run/containers/storage", "/var/run/containers/storage"}
	case Docker:
		e.DefaultCapabilities = fourteen
		e.Roots = []string{"/var/lib/docker", "/run/docker", "/var/run/docker"}
	case None:
		e.DefaultCapabilities = fourteen
	}
	return e
}
