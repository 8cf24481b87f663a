package spec

import "strings"

// dockerMount classifies a path among docker's own files of a container
// (moby daemon/container_operations_unix.go): hostname, hosts, resolv.conf and
// mounts/shm of this container.
func (m *mountMapper) dockerMount(path string) (string, bool) {
	for _, root := range m.engineRoots {
		r, ok := rest(path, root+"/containers")
		if !ok {
			continue
		}
		p := strings.Split(r, "/")
		if m.id == "" || p[0] != m.id {
			continue
		}
		switch strings.Join(p[1:], "/") {
		case "hostname", "hosts", "resolv.conf", "mounts/shm":
			return "file of this container", true
		}
	}
	return "", false
}
