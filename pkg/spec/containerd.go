package spec

import (
	"fmt"
	"strings"
)

// containerd's CRI annotations (containerd internal/cri/annotations). It
// writes type, sandbox-id, -name, -namespace, -uid on sandboxes and
// containers, and container-name and image-name on containers, after all that
// a pod passes through (sandbox_run_linux.go, container_create.go), so none of
// these can be forged where it is read. On a sandbox container-name and
// image-name are not containerd's own and are not read.
const (
	containerdPrefix     = "io.kubernetes.cri."
	containerdType       = containerdPrefix + "container-type"
	containerdSandboxID  = containerdPrefix + "sandbox-id"
	containerdName       = containerdPrefix + "sandbox-name"
	containerdNamespace  = containerdPrefix + "sandbox-namespace"
	containerdUID        = containerdPrefix + "sandbox-uid"
	containerdContainer  = containerdPrefix + "container-name"
	containerdImage      = containerdPrefix + "image-name"
	containerdPauseImage = containerdPrefix + "podsandbox.image-name"
)

func identifyContainerd(in *Intent, a map[string]string, ociVersion string) error {
	ignoreKeys(in, a, crioPrefix, "io.kubernetes.pod.", "io.kubernetes.container.", "io.podman.")
	present, err := identityKeys(a, containerdType, containerdSandboxID, containerdName, containerdNamespace, containerdUID)
	if err != nil {
		return err
	}
	if !present {
		in.Kind = KindUnmanaged
		return nil
	}
	in.Pod.SandboxID = known(a[containerdSandboxID], containerdSandboxID)
	in.Pod.Name = known(a[containerdName], containerdName)
	in.Pod.Namespace = known(a[containerdNamespace], containerdNamespace)
	in.Pod.UID = known(a[containerdUID], containerdUID)
	switch a[containerdType] {
	case "sandbox":
		in.Kind = KindSandbox
		if name, ok := a[containerdPauseImage]; ok {
			in.Pod.Image = known(imageOf(name), containerdPauseImage)
		}
		for _, k := range []string{containerdContainer, containerdImage} {
			if _, ok := a[k]; ok {
				in.Ignored = append(in.Ignored, k)
			}
		}
	case "container":
		in.Kind = KindContainer
		name, ok := a[containerdContainer]
		if !ok {
			return fmt.Errorf("annotations: %s is missing: containerd writes it on every container", containerdContainer)
		}
		in.Pod.Container = known(name, containerdContainer)
		if name, ok := a[containerdImage]; ok {
			in.Pod.Image = known(imageOf(name), containerdImage)
			if before12(ociVersion) {
				// Before 2.0 this is some name of the image, not the one that
				// the pod asked for (container_create.go, v2.0.0). 2.0 is the
				// first to write ociVersion 1.2.
				in.Pod.Image.Certainty = Assumed
			}
		}
	default:
		return fmt.Errorf("annotations: %s is %s: containerd writes \"sandbox\" or \"container\"", containerdType, Quote(a[containerdType]))
	}
	return nil
}

// before12 reports whether a runtime-spec version is older than 1.2.
func before12(version string) bool {
	return strings.HasPrefix(version, "1.0.") || strings.HasPrefix(version, "1.1.")
}

func imageOf(name string) Image {
	img := Image{Name: name}
	if _, digest, ok := strings.Cut(name, "@"); ok {
		img.Digest = digest
	}
	return img
}

// containerdMount classifies a path among containerd's own: the sandbox's
// files, an image's anonymous volumes and image volumes (containerd
// internal/cri/server/helpers.go). All are bound to this sandbox's or this
// container's id.
func (m *mountMapper) containerdMount(path string) (string, bool) {
	for _, root := range m.engineRoots {
		r, ok := rest(path, root+"/io.containerd.grpc.v1.cri")
		if !ok {
			continue
		}
		p := strings.Split(r, "/")
		sandbox := m.in.Pod.SandboxID.Value
		switch {
		case len(p) == 3 && p[0] == "sandboxes" && sandbox != "" && p[1] == sandbox:
			switch p[2] {
			case "hostname", "hosts", "resolv.conf", "shm":
				return "file of this sandbox", true
			}
		case len(p) == 4 && p[0] == "containers" && m.id != "" && p[1] == m.id && p[2] == "volumes":
			return "anonymous volume of the image", true
		}
	}
	return "", false
}

func (m *mountMapper) containerdImageVolume(path string) bool {
	for _, root := range m.engineRoots {
		r, ok := rest(path, root+"/io.containerd.grpc.v1.cri/image-volumes")
		if !ok {
			continue
		}
		p := strings.Split(r, "/")
		if sandbox := m.in.Pod.SandboxID.Value; sandbox != "" && len(p) >= 2 && p[0] == sandbox {
			return true
		}
	}
	return false
}
