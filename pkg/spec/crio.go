package spec

import (
	"path/filepath"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// CRI-O's annotations (CRI-O internal/annotations). On a sandbox a pod's
// annotations and then its labels are written after CRI-O's own keys
// (server/sandbox_run_linux.go), so that everything under io.kubernetes.cri-o.
// can be forged there. Identity is read from the kubelet's labels, which the
// kubelet sets after the pod's (kuberuntime/labels.go): io.kubernetes.pod.* and
// io.kubernetes.container.name, which is "POD" on a sandbox and can't be that
// on a container, whose name is a DNS label.
const (
	crioPrefix      = "io.kubernetes.cri-o."
	crioName        = "io.kubernetes.pod.name"
	crioNamespace   = "io.kubernetes.pod.namespace"
	crioUID         = "io.kubernetes.pod.uid"
	crioContainer   = "io.kubernetes.container.name"
	crioSandboxID   = crioPrefix + "SandboxID"
	crioImage       = crioPrefix + "Image"
	crioImageName   = crioPrefix + "ImageName"
	crioRepoDigests = crioPrefix + "ImageRepoDigests"
	crioType        = crioPrefix + "ContainerType"
	crioSandboxPOD  = "POD"
)

func identifyCRIO(in *Intent, a map[string]string) error {
	ignoreKeys(in, a, containerdPrefix, "io.podman.")
	_, isContainer := a[crioType]
	present, err := identityKeys(a, crioName, crioNamespace, crioUID, crioContainer)
	if err != nil {
		return err
	}
	if !present {
		if isContainer {
			// A CRI client that is no kubelet (crictl) sets no labels: what is
			// left is not identity.
			in.Ignored = append(in.Ignored, crioType)
		}
		in.Kind = KindUnmanaged
		return nil
	}
	in.Pod.Name = known(a[crioName], crioName)
	in.Pod.Namespace = known(a[crioNamespace], crioNamespace)
	in.Pod.UID = known(a[crioUID], crioUID)
	if a[crioContainer] == crioSandboxPOD {
		in.Kind = KindSandbox
		if id, ok := a[crioSandboxID]; ok {
			in.Pod.SandboxID = Fact[string]{Value: id, Certainty: Known, Source: crioSandboxID, Forgeable: true}
		}
		return nil
	}
	in.Kind = KindContainer
	in.Pod.Container = known(a[crioContainer], crioContainer)
	if id, ok := a[crioSandboxID]; ok {
		in.Pod.SandboxID = known(id, crioSandboxID)
	}
	for _, k := range []string{crioImage, crioImageName} {
		if name, ok := a[k]; ok {
			image := imageOf(name)
			image.RepoDigests = strings.FieldsFunc(a[crioRepoDigests], func(r rune) bool { return r == ',' || r == ' ' })
			in.Pod.Image = known(image, k)
			break
		}
	}
	return nil
}

// crioMount classifies a path among CRI-O's own: the userdata directory of
// this container or of its sandbox.
func (m *mountMapper) crioMount(path string) (string, bool) {
	for _, root := range m.engineRoots {
		r, ok := rest(path, root+"/overlay-containers")
		if !ok {
			continue
		}
		p := strings.Split(r, "/")
		if len(p) != 3 || p[1] != "userdata" {
			continue
		}
		sandbox := m.in.Pod.SandboxID
		own := m.id != "" && p[0] == m.id
		pod := sandbox.Value != "" && !sandbox.Forgeable && p[0] == sandbox.Value
		if !own && !pod {
			continue
		}
		switch p[2] {
		case "resolv.conf", "hostname", "hosts", "shm", ".containerenv", "passwd", "group":
			return "file of this container", true
		}
	}
	return "", false
}

// crioImageVolume knows an image volume: an overlay without a layer to write to,
// of an image that is mounted in CRI-O's storage and an empty directory of its
// own (server/container_create_linux.go mountImage).
func (m *mountMapper) crioImageVolume(sm *specs.Mount) bool {
	if sm.Type != "overlay" || sm.Source != "overlay" || len(sm.Options) != 1 {
		return false
	}
	layers, ok := strings.CutPrefix(sm.Options[0], "lowerdir=")
	if !ok || strings.Contains(layers, ",") {
		return false
	}
	for dir := range strings.SplitSeq(layers, ":") {
		if !m.crioOwn(dir) {
			return false
		}
	}
	return true
}

// crioOwn reports whether a directory lies in one of CRI-O's.
func (m *mountMapper) crioOwn(dir string) bool {
	if filepath.Clean(dir) != dir {
		return false
	}
	if run, ok := strings.CutPrefix(dir, "/var/run/"); ok {
		dir = "/run/" + run
	}
	for _, root := range m.engineRoots {
		if _, ok := rest(dir, root); ok {
			return true
		}
	}
	return false
}
