package spec

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

var namespaceTypes = []specs.LinuxNamespaceType{
	specs.NetworkNamespace, specs.PIDNamespace, specs.IPCNamespace, specs.UTSNamespace,
	specs.CgroupNamespace, specs.MountNamespace, specs.UserNamespace,
}

// mapNamespaces finds whose namespaces the container runs in.
//
// An absent entry is the runtime's own, that is the host's (runtime-spec
// config-linux.md, Namespaces). An entry without a path is a new one. A path
// tells nothing by its text: containerd writes /proc/PID/ns/net for a pod with
// and without hostNetwork (containerd internal/cri/opts WithPodNamespaces), so
// the file's inode is compared with the host's. Once the process exists, its
// own namespaces are compared instead.
func mapNamespaces(in *Intent, s *specs.Spec, o Options) error {
	entries := map[specs.LinuxNamespaceType]int{}
	list := linux(s).Namespaces
	for i, ns := range list {
		if _, dup := entries[ns.Type]; dup {
			return fmt.Errorf("linux.namespaces[%d] (type %s): %w", i, Quote(string(ns.Type)), errTwoNamespaces)
		}
		entries[ns.Type] = i
	}
	for _, t := range namespaceTypes {
		fact := in.Namespace(t)
		i, ok := entries[t]
		if !ok {
			*fact = known(NamespaceHost, "linux.namespaces")
			continue
		}
		ns, field := list[i], fieldOf("linux.namespaces", i, "")
		switch {
		case ns.Path == "":
			*fact = known(NamespaceNew, field)
		case o.Host != nil:
			path := ns.Path
			if !strings.HasPrefix(path, "/") {
				path = absolute(in.Bundle, path)
			} // else as it is: ".." leaves what a link leads to
			*fact = liveNamespace(o.Host, t, path, field+".path")
		default:
			*fact = offlineNamespace(absolute(in.Bundle, ns.Path), field+".path")
		}
		if o.Host != nil && o.PID > 0 {
			if real, err := processNamespace(o.Host, o.PID, t, fact.Value); err == nil {
				*fact = real
			} else {
				*fact = unknown[NamespaceMode](fmt.Sprintf("/proc/%d/ns: %v", o.PID, err))
			}
		}
	}
	mapUserNamespace(in, s)
	mapSharedPID(in, s)
	return nil
}

// mapSharedPID tells a shared process namespace from a debug container's
// target. containerd joins the sandbox's other namespaces by the path of the
// sandbox's process: the same process for pid is the pod's, another a target's
// (internal/cri/opts WithPodNamespaces). Other engines give no such hint.
func mapSharedPID(in *Intent, s *specs.Spec) {
	var pid, other string
	for _, ns := range linux(s).Namespaces {
		switch ns.Type {
		case specs.PIDNamespace:
			pid = ns.Path
		case specs.NetworkNamespace, specs.IPCNamespace:
			if _, _, ok := procNamespace(ns.Path); ok {
				other = ns.Path
			}
		}
	}
	const source = "linux.namespaces"
	target, _, ok := procNamespace(pid)
	sandbox, _, hint := procNamespace(other)
	switch {
	case pid == "" || Is(in.HostPID, NamespaceHost):
		in.SharedPID = known(SharedPIDNone, source)
	case !ok || !hint || in.HostPID.Certainty == Unknown:
		in.SharedPID = unknown[SharedPID](source)
	case target == sandbox:
		in.SharedPID = Fact[SharedPID]{Value: SharedPIDPod, Certainty: in.HostPID.Certainty, Source: source}
	default:
		in.SharedPID = Fact[SharedPID]{Value: SharedPIDTarget, Certainty: in.HostPID.Certainty, Source: source}
	}
}

// procNamespace splits /proc/PID/ns/NAME.
func procNamespace(path string) (pid, name string, ok bool) {
	p := strings.Split(path, "/")
	if len(p) != 5 || p[0] != "" || p[1] != "proc" || p[3] != "ns" {
		return "", "", false
	}
	return p[2], p[4], true
}

// liveNamespace compares a namespace file with the host's own.
func liveNamespace(h Host, t specs.LinuxNamespaceType, path, field string) Fact[NamespaceMode] {
	id, err := h.Namespace(path)
	if err != nil {
		why := "can't be read"
		if errors.Is(err, fs.ErrNotExist) {
			why = "is gone"
		}
		return unknown[NamespaceMode](fmt.Sprintf("%s: %s %s", field, Quote(path), why))
	}
	isHost, err := isHostNamespace(h, t, id)
	if err != nil {
		return unknown[NamespaceMode](field + ": " + err.Error())
	}
	if isHost {
		return known(NamespaceHost, field)
	}
	return known(NamespaceShared, field)
}

func processNamespace(h Host, pid int, t specs.LinuxNamespaceType, from NamespaceMode) (Fact[NamespaceMode], error) {
	id, err := h.ProcessNamespace(pid, t)
	if err != nil {
		return Fact[NamespaceMode]{}, err
	}
	isHost, err := isHostNamespace(h, t, id)
	if err != nil {
		return Fact[NamespaceMode]{}, err
	}
	source := fmt.Sprintf("/proc/%d/ns/%s", pid, nsFile(t))
	switch {
	case isHost:
		return known(NamespaceHost, source), nil
	case from == NamespaceNew:
		return known(NamespaceNew, source), nil
	default:
		return known(NamespaceShared, source), nil
	}
}

func nsFile(t specs.LinuxNamespaceType) string {
	switch t {
	case specs.NetworkNamespace:
		return "net"
	case specs.MountNamespace:
		return "mnt"
	}
	return string(t)
}

func isHostNamespace(h Host, t specs.LinuxNamespaceType, id NamespaceID) (bool, error) {
	own, err := h.HostNamespaces(t)
	if err != nil {
		return false, fmt.Errorf("the host's own %s namespace can't be read: %w", t, err)
	}
	for _, x := range own {
		if x == id {
			return true, nil
		}
	}
	return false, nil
}

// offlineNamespace judges a path by its text: only init's and the runtime's
// own are the host's for certain.
func offlineNamespace(path, field string) Fact[NamespaceMode] {
	p := strings.Split(path, "/")
	if len(p) >= 5 && p[1] == "proc" && p[len(p)-2] == "ns" {
		switch p[2] {
		case "1", "self", "thread-self":
			return known(NamespaceHost, field)
		}
	}
	return assumed(NamespaceShared, field)
}

// mapUserNamespace reads the id maps. A map that leaves root what it is gives
// no user namespace in the sense of hostUsers: false.
func mapUserNamespace(in *Intent, s *specs.Spec) {
	l := linux(s)
	for _, m := range l.UIDMappings {
		in.UIDMappings = append(in.UIDMappings, IDMapping(m))
	}
	for _, m := range l.GIDMappings {
		in.GIDMappings = append(in.GIDMappings, IDMapping(m))
	}
	if Is(in.UserNamespace, NamespaceHost) || in.UserNamespace.Certainty == Unknown {
		return
	}
	for _, maps := range [][]IDMapping{in.UIDMappings, in.GIDMappings} {
		for _, m := range maps {
			if m.HostID == 0 && m.Size > 0 {
				in.UserNamespace = known(NamespaceHost, "linux.uidMappings")
				return
			}
		}
	}
	if len(in.UIDMappings) == 0 && in.UserNamespace.Certainty == Assumed {
		in.UserNamespace = unknown[NamespaceMode]("linux.uidMappings")
	}
}
