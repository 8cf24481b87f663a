package spec

import (
	"io"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// What only annotations tell of a container. The kubelet writes
// io.kubernetes.container.ports on a container that declares ports
// (kuberuntime/labels.go newContainerAnnotations), and CRI-O hands it on over
// what a pod wrote (internal/factory/container); containerd does if it is
// configured to, and a pod may have written what is there else. CRI-O writes
// io.kubernetes.cri-o.SeccompProfilePath on containers itself.
const (
	containerPorts = "io.kubernetes.container.ports"
	crioSeccomp    = crioPrefix + "SeccompProfilePath"
)

func mapAnnotations(in *Intent, a map[string]string) {
	in.HostPorts, in.SeccompType = unknown[[]int](containerPorts), unknown[string](crioSeccomp)
	if in.Kind != KindContainer {
		return
	}
	raw, declared := a[containerPorts]
	ports, ok := hostPorts(raw)
	switch {
	case in.Engine.Dialect == CRIO && !declared:
		in.HostPorts = known([]int(nil), containerPorts)
	case ok && (in.Engine.Dialect == CRIO || len(ports) > 0):
		in.HostPorts = known(ports, containerPorts)
	}
	if in.Engine.Dialect != CRIO {
		return
	}
	switch path := a[crioSeccomp]; {
	case path == "RuntimeDefault", path == "runtime/default": // 1.37 writes the first
		in.SeccompType = known("RuntimeDefault", crioSeccomp)
	case path == "Localhost", strings.HasPrefix(path, "localhost/"), strings.HasPrefix(path, "/"):
		in.SeccompType = known("Localhost", crioSeccomp)
	}
}

// hostPorts reads a list of container ports (k8s.io/api core/v1
// ContainerPort), as the kubelet writes it.
func hostPorts(raw string) (ports []int, ok bool) {
	d := jsontext.NewDecoder(strings.NewReader(raw))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '[' {
		return nil, false
	}
	for d.PeekKind() == '{' {
		if _, err := d.ReadToken(); err != nil {
			return nil, false
		}
		for d.PeekKind() == '"' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, false
			}
			key := name.String()
			value, err := d.ReadValue()
			if err != nil {
				return nil, false
			}
			if key != "hostPort" {
				continue
			}
			port, err := strconv.Atoi(string(value))
			if err != nil {
				return nil, false
			}
			if port != 0 {
				ports = append(ports, port)
			}
		}
		if t, err := d.ReadToken(); err != nil || t.Kind() != '}' {
			return nil, false
		}
	}
	if t, err := d.ReadToken(); err != nil || t.Kind() != ']' {
		return nil, false
	}
	_, err := d.ReadToken()
	return ports, err == io.EOF
}
