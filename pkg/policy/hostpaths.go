package policy

import (
	"path"
	"strings"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// hostPaths
//
// Nothing of the host's filesystem may be mounted but what is allowed: no
// hostPath volume, no directory of another pod, no filesystem that an engine
// doesn't mount for a pod.
//
// Reads: mounts, root.path and linux.namespaces (a container without a mount
// namespace of its own sees everything). A bind is the pod's own if it lies in
// the kubelet's or the engine's directory for this very pod, sandbox or
// container.
// Known: at the container. Symbolic links are resolved on a live look; once the
// process exists, its mount table is read, and every path of the host that shows
// the mounted directory must be allowed.
// Settings: allow, a list of {pathPrefix, readOnly}: pathPrefix matches whole
// path elements, readOnly asks for a mount that is read-only throughout. A
// runtime's or the kubelet's socket is never allowed by a prefix above it.
// Can't see: volumes that are declared and not mounted. A claim on a hostPath
// volume shows as a host path.
// Upstream: baseline, HostPath Volumes (check_hostPathVolumes.go), which bans
// the volume type.
var hostPathsControl = Control{
	Name:  "hostPaths",
	reads: []string{"mounts", "linux", "root"},
	preset: func(l Level, _ Version) rule {
		if !baselineUp(l) {
			return nil
		}
		return hostPaths{}
	},
	parse: func(d *decoder, settings *strictyaml.Object, _ rule) rule {
		var r hostPaths
		for _, f := range settings.Fields {
			switch f.Name {
			case "allow":
				for _, item := range d.List(f) {
					r.allow = append(r.allow, d.hostPath(item))
				}
			default:
				d.UnknownField(settings, f, "allow")
			}
		}
		return r
	},
}

type allowedPath struct {
	prefix   string
	readOnly bool
}

type hostPaths struct{ allow []allowedPath }

func (d *decoder) hostPath(f strictyaml.Field) allowedPath {
	var out allowedPath
	o := d.Object(f)
	for _, f := range o.Fields {
		switch f.Name {
		case "pathPrefix":
			p := d.Str(f)
			if !path.IsAbs(p) || path.Clean(p) != p {
				d.Errorf(f.Node, "pathPrefix %q: want an absolute path without \".\", \"..\", double or trailing slashes", p)
			}
			out.prefix = canonical(p)
		case "readOnly":
			out.readOnly = d.Bool(f)
		default:
			d.UnknownField(o, f, "pathPrefix", "readOnly")
		}
	}
	if out.prefix == "" {
		d.Errorf(f.Node, "pathPrefix is missing")
	}
	return out
}

func (r hostPaths) evaluate(in *spec.Intent) []finding {
	var out []finding
	if ns := in.HostMount; ns.Certainty == spec.Known && ns.Value == spec.NamespaceHost {
		out = append(out, violated(ns.Source, "there is no mount namespace: every path of the host is seen"))
	} else if ns.Value != spec.NamespaceNew {
		out = append(out, violated(ns.Source, "a mount namespace is joined that is not its own"))
	}
	for i := range in.Mounts {
		if f, ok := r.mount(&in.Mounts[i]); ok {
			out = append(out, f)
		}
	}
	if len(out) == 0 && in.Kind == spec.KindSandbox {
		return waits("mounts")
	}
	return out
}

// mount judges one mount.
func (r hostPaths) mount(m *spec.Mount) (finding, bool) {
	if m.Class == spec.MountForeign {
		return violated(m.Field, spec.Quote(m.Destination)+" is "+m.Why), true
	}
	if m.Class != spec.MountHostPath && m.Certainty != spec.Unknown {
		return finding{}, false
	}
	names := m.Names
	if len(names) == 0 {
		names = []string{m.Path()}
	}
	blocked, readOnly := r.first(names, m)
	if blocked == "" && m.Certainty == spec.Unknown {
		blocked = names[0]
	}
	what := spec.Quote(m.Destination) + " is mounted from " + spec.Quote(blocked)
	if m.Real != "" && m.Source != "" && m.Real != m.Source {
		what += " (" + spec.Quote(m.Source) + ")"
	}
	switch {
	case m.Certainty == spec.Unknown:
		return undetermined(m.Field, what+": "+m.Why), true
	case blocked == "":
		return finding{}, false
	case readOnly:
		return violated(m.Field, what+" and can be written"), true
	}
	return violated(m.Field, what), true
}

// first returns the first name that is not allowed, and whether it would be if
// the mount were read-only.
func (r hostPaths) first(names []string, m *spec.Mount) (blocked string, readOnly bool) {
	for _, name := range names {
		if name == "" {
			return m.Destination, false
		}
		ok, wantsReadOnly := false, false
		for _, a := range r.allow {
			path := canonical(name)
			if !prefix(path, a.prefix) || exposesSocket(path, a.prefix) {
				continue
			}
			if a.readOnly && !(m.ReadOnly && m.RecursiveReadOnly) {
				wantsReadOnly = true
				continue
			}
			ok = true
		}
		if !ok {
			return name, wantsReadOnly
		}
	}
	return "", false
}

// prefix reports whether p is dir or lies below it, on path boundaries.
func prefix(p, dir string) bool {
	return dir == "/" || p == dir || strings.HasPrefix(p, dir+"/")
}

// canonical writes /var/run and /var/lock as /run and /run/lock, which they are
// links to on every distribution in use.
func canonical(p string) string {
	for _, link := range [][2]string{{"/var/run", "/run"}, {"/var/lock", "/run/lock"}} {
		if prefix(p, link[0]) {
			return link[1] + strings.TrimPrefix(p, link[0])
		}
	}
	return p
}

// sockets are those of container runtimes and the kubelet: whoever reaches one
// is root on the node.
var sockets = []string{
	"/run/containerd/containerd.sock", "/run/containerd/containerd.sock.ttrpc", "/run/containerd/debug.sock",
	"/run/crio/crio.sock", "/run/docker.sock", "/run/docker/containerd/containerd.sock", "/run/podman/podman.sock",
	"/run/cri-dockerd.sock", "/run/dockershim.sock", "/run/k3s/containerd/containerd.sock", "/run/nri/nri.sock",
	"/run/buildkit/buildkitd.sock", "/run/systemd/private", "/run/dbus/system_bus_socket",
	"/var/lib/kubelet/pod-resources/kubelet.sock", "/var/lib/kubelet/pods-api/pods-api.sock",
	"/var/lib/kubelet/device-plugins/kubelet.sock",
}

// exposesSocket reports whether mounting name shows a socket that the allowed
// prefix doesn't name itself: read-only mounts don't stop a connect(2).
func exposesSocket(name, allowed string) bool {
	for _, s := range sockets {
		if prefix(s, name) && allowed != s {
			return true
		}
	}
	return false
}
