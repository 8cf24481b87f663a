package translate

import (
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// mounts are makeMounts and the runtime's own.
func (k *kubelet) mounts(c *corev1.Container) ([]*cri.Mount, error) {
	var out []*cri.Mount
	hosts := true
	for i, m := range c.VolumeMounts {
		v := volume(&k.pod.Spec, m.Name)
		if v == nil {
			return nil, fmt.Errorf("container %s mounts volume %q, which there is not", c.Name, m.Name)
		}
		mount := &cri.Mount{ContainerPath: m.MountPath, Readonly: m.ReadOnly}
		if m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled && k.node.Engine == Containerd2 {
			mount.RecursiveReadOnly = true
		}
		if v.Image != nil {
			if k.node.Engine == Containerd1 {
				return nil, fmt.Errorf("%w: the engine has no image volumes", ErrNotStarted)
			}
			mount.Image, mount.Readonly = &cri.ImageSpec{Image: v.Image.Reference}, true
			out = append(out, mount)
			continue
		}
		dir, name, err := k.volumePath(v)
		if err != nil {
			return nil, err
		}
		mount.HostPath = dir
		if m.SubPath != "" {
			mount.HostPath = fmt.Sprintf("%s/volume-subpaths/%s/%s/%d", k.dir, name, c.Name, i)
			k.out.Bound[mount.HostPath] = path.Join(dir, m.SubPath)
		}
		if m.MountPropagation != nil {
			switch *m.MountPropagation {
			case corev1.MountPropagationBidirectional:
				mount.Propagation = cri.MountPropagation_PROPAGATION_BIDIRECTIONAL
			case corev1.MountPropagationHostToContainer:
				mount.Propagation = cri.MountPropagation_PROPAGATION_HOST_TO_CONTAINER
			}
		}
		hosts = hosts && m.MountPath != "/etc/hosts"
		out = append(out, mount)
	}
	if k.pod.Spec.AutomountServiceAccountToken == nil || *k.pod.Spec.AutomountServiceAccountToken {
		// Added by the API server.
		out = append(out, &cri.Mount{
			ContainerPath: "/var/run/secrets/kubernetes.io/serviceaccount", Readonly: true,
			HostPath: k.dir + "/volumes/kubernetes.io~projected/kube-api-access-x7k2p",
		})
	}
	if hosts {
		out = append(out, &cri.Mount{ContainerPath: "/etc/hosts", HostPath: k.dir + "/etc-hosts"})
	}
	return append(out, &cri.Mount{
		ContainerPath: "/dev/termination-log", HostPath: fmt.Sprintf("%s/containers/%s/%s", k.dir, c.Name, id(c.Name)[8:16]),
	}), nil
}

func volume(s *corev1.PodSpec, name string) *corev1.Volume {
	for i := range s.Volumes {
		if s.Volumes[i].Name == name {
			return &s.Volumes[i]
		}
	}
	return nil
}

// volumePath is where the kubelet has a volume. A claim's name says what it is
// bound to, as "PLUGIN.VOLUME" ("nfs.pv1", "host-path.pv1"), or else a volume
// of a CSI driver.
//
// name is the volume's own: of a claim's, the persistent volume's.
func (k *kubelet) volumePath(v *corev1.Volume) (dir, name string, err error) {
	name = v.Name
	if c := v.PersistentVolumeClaim; c != nil {
		if _, own, ok := strings.Cut(c.ClaimName, "."); ok {
			name = own
		}
	}
	dir, err = k.pluginPath(v)
	return dir, name, err
}

func (k *kubelet) pluginPath(v *corev1.Volume) (string, error) {
	dir := func(plugin, name string) string { return k.dir + "/volumes/kubernetes.io~" + plugin + "/" + name }
	csi := func(name, mode string) string {
		data := dir("csi", name) + "/vol_data.json"
		k.out.Files[data] = `{"driverName":"csi.example.com","specVolID":"` + name + `","volumeHandle":"h","volumeLifecycleMode":"` + mode + `"}`
		return dir("csi", name) + "/mount"
	}
	switch {
	case v.HostPath != nil:
		return path.Clean(v.HostPath.Path), nil
	case v.EmptyDir != nil:
		return dir("empty-dir", v.Name), nil
	case v.ConfigMap != nil:
		return dir("configmap", v.Name), nil
	case v.Secret != nil:
		return dir("secret", v.Name), nil
	case v.Projected != nil:
		return dir("projected", v.Name), nil
	case v.DownwardAPI != nil:
		return dir("downward-api", v.Name), nil
	case v.CSI != nil:
		return csi(v.Name, "Ephemeral"), nil
	case v.Ephemeral != nil:
		return csi("pvc-"+id(v.Name)[:12], "Persistent"), nil
	case v.PersistentVolumeClaim != nil:
		plugin, name, ok := strings.Cut(v.PersistentVolumeClaim.ClaimName, ".")
		switch {
		case !ok:
			return csi("pvc-"+id(plugin)[:12], "Persistent"), nil
		case plugin == "csi":
			return csi(name, "Persistent"), nil
		case plugin == "host-path":
			return "/srv/" + name, nil
		}
		return dir(plugin, name), nil
	case v.NFS != nil:
		return dir("nfs", v.Name), nil
	case v.ISCSI != nil:
		return dir("iscsi", v.Name), nil
	case v.FC != nil:
		return dir("fc", v.Name), nil
	case v.FlexVolume != nil:
		return k.dir + "/volumes/" + strings.ReplaceAll(v.FlexVolume.Driver, "/", "~") + "/" + v.Name, nil
	// In-tree plugins that CSI has replaced: the kubelet makes a persistent
	// volume of them (csi-translation-lib TranslateInTreeInlineVolumeToCSI).
	case v.AWSElasticBlockStore != nil, v.AzureDisk != nil, v.AzureFile != nil, v.Cinder != nil, v.GCEPersistentDisk != nil,
		v.PortworxVolume != nil, v.VsphereVolume != nil:
		return csi(v.Name, "Persistent"), nil
	}
	// cephfs, flocker, gitRepo, glusterfs, photonPersistentDisk, quobyte, rbd,
	// scaleIO, storageos: no kubelet has the plugin any more.
	return "", fmt.Errorf("%w: the kubelet has no plugin for volume %q", ErrNotStarted, v.Name)
}
