package spec

import "strings"

// podmanMount classifies a path among podman's own: the userdata directory of
// this container. podman writes no key that says whose container it is
// (libpod/define/annotations.go), so that a pod member's shared files are
// known by their place alone, and only in userdata.
func (m *mountMapper) podmanMount(path string) (string, bool) {
	for _, root := range m.engineRoots {
		r, ok := rest(path, root+"/overlay-containers")
		if !ok {
			continue
		}
		p := strings.Split(r, "/")
		if len(p) == 3 && len(p[0]) == 64 && p[1] == "userdata" {
			switch p[2] {
			case "resolv.conf", "hostname", "hosts", "shm", ".containerenv", "passwd", "group":
				return "file of podman", true
			}
		}
	}
	return "", false
}
