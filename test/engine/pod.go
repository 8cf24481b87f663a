package engine

// Pod is what the tests need of a Kubernetes pod.
type Pod struct {
	Name      string
	Namespace string // "default" if empty
	// Handler is the runtime handler of its RuntimeClass, "" for the default.
	Handler string

	HostNetwork, HostPID, HostIPC bool
	Sysctls                       map[string]string
	Labels, Annotations           map[string]string

	Containers []Container
}

// Container is a container of a Pod.
type Container struct {
	Name    string // "app" if empty
	Image   string // AppImage if empty
	Command []string

	Privileged               bool
	CapsAdd, CapsDrop        []string
	HostPaths                []HostPath
	ProcMountUnmasked        bool
	Seccomp                  Seccomp
	RunAsUser                *int64
	ReadOnlyRootFilesystem   bool
	AllowPrivilegeEscalation *bool
}

// HostPath is a hostPath volume and its mount.
type HostPath struct {
	Path, MountPath string
	ReadOnly        bool
}

// Seccomp is a seccompProfile's type. Empty is unset, which the kubelet sends as
// Unconfined unless it runs with seccompDefault.
type Seccomp string

// The profile types that need no file.
const (
	RuntimeDefault Seccomp = "RuntimeDefault"
	Unconfined     Seccomp = "Unconfined"
)

// withDefaults fills in what may be left out.
func (p Pod) withDefaults() Pod {
	if p.Namespace == "" {
		p.Namespace = "default"
	}
	containers := make([]Container, len(p.Containers))
	for i, c := range p.Containers {
		if c.Name == "" {
			c.Name = "app"
		}
		if c.Image == "" {
			c.Image = AppImage
		}
		containers[i] = c
	}
	p.Containers = containers
	return p
}

// privileged says whether any container is.
func (p Pod) privileged() bool {
	for _, c := range p.Containers {
		if c.Privileged {
			return true
		}
	}
	return false
}
