package doctor

import (
	"bytes"
	"encoding/json"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// plainSpec asks for nothing: every control of every preset is content.
func plainSpec(id string) *specs.Spec {
	ns := func(kinds ...specs.LinuxNamespaceType) (out []specs.LinuxNamespace) {
		for _, k := range kinds {
			out = append(out, specs.LinuxNamespace{Type: k})
		}
		return out
	}
	mount := func(target, kind string, options ...string) specs.Mount {
		return specs.Mount{Destination: target, Type: kind, Source: kind, Options: append([]string{"nosuid", "noexec"}, options...)}
	}
	return &specs.Spec{
		Version:  "1.0.2",
		Hostname: "nodeadmit-doctor",
		Root:     &specs.Root{Path: "rootfs", Readonly: true},
		Process: &specs.Process{
			Args: []string{"/pause"}, Cwd: "/", Env: []string{"PATH=/usr/bin:/bin"}, NoNewPrivileges: true,
			User:         specs.User{UID: 65535, GID: 65535},
			Capabilities: &specs.LinuxCapabilities{},
		},
		Mounts: []specs.Mount{
			mount("/proc", "proc", "nodev"),
			mount("/dev", "tmpfs", "strictatime", "mode=755", "size=65536k"),
			mount("/dev/pts", "devpts", "newinstance", "ptmxmode=0666", "mode=0620"),
			mount("/dev/mqueue", "mqueue", "nodev"),
			mount("/sys", "sysfs", "nodev", "ro"),
		},
		Linux: &specs.Linux{
			Namespaces:    ns(specs.PIDNamespace, specs.IPCNamespace, specs.UTSNamespace, specs.MountNamespace, specs.NetworkNamespace),
			CgroupsPath:   "/" + id,
			Resources:     &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}},
			MaskedPaths:   []string{"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware"},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
			Seccomp: &specs.LinuxSeccomp{
				DefaultAction: specs.ActAllow,
				Syscalls:      []specs.LinuxSyscall{{Names: []string{"kexec_load"}, Action: specs.ActErrno}},
			},
		},
	}
}

const (
	podName, podNamespace, podUID = "nodeadmit-doctor", "nodeadmit-doctor", "00000000-0000-4000-8000-000000000000"
)

// identity is what an engine writes of a pod. kind is "sandbox" or "container".
func identity(d spec.Dialect, kind, id string) map[string]string {
	switch d {
	case spec.Containerd:
		a := map[string]string{
			"io.kubernetes.cri.container-type": kind, "io.kubernetes.cri.sandbox-id": id, "io.kubernetes.cri.sandbox-name": podName,
			"io.kubernetes.cri.sandbox-namespace": podNamespace, "io.kubernetes.cri.sandbox-uid": podUID,
		}
		if kind == "container" {
			a["io.kubernetes.cri.container-name"] = "app"
			a["io.kubernetes.cri.image-name"] = "registry.invalid/nodeadmit-doctor:1"
		}
		return a
	case spec.CRIO:
		a := map[string]string{
			"io.kubernetes.pod.name": podName, "io.kubernetes.pod.namespace": podNamespace, "io.kubernetes.pod.uid": podUID,
			"io.kubernetes.cri-o.ContainerType": kind, "io.kubernetes.cri-o.SandboxID": id,
			"io.kubernetes.container.name": "POD", "io.container.manager": "cri-o",
		}
		if kind == "container" {
			a["io.kubernetes.container.name"] = "app"
			a["io.kubernetes.cri-o.ImageName"] = "registry.invalid/nodeadmit-doctor:1"
		}
		return a
	}
	return nil
}

func sandboxSpec(d spec.Dialect, id string) *specs.Spec {
	s := plainSpec(id)
	s.Annotations = identity(d, "sandbox", id)
	return s
}

// plainContainer is the intent of a container that asks for nothing.
func plainContainer(e spec.Engine) (*spec.Intent, error) {
	s := plainSpec("0")
	s.Annotations = identity(e.Dialect, "container", "0")
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	doc, err := spec.Read(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return spec.Map(doc, spec.Options{Engine: e, ID: "0"})
}
