package policy

import (
	"slices"
	"strings"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// volumes
//
// Only volumes of the listed types may be mounted.
//
// Reads: mounts, whose source under the kubelet's directory for this pod names
// the volume's plugin.
// Known: at the container. nfs, iscsi, fc and flexVolume are the same inline and
// behind a claim, and so are a claim and a generic ephemeral volume: where only
// one of the two is allowed, the control is undetermined. A subPath shows its volume on a live look alone.
// Settings: allow (types as in the pod's volumes, added to the preset's).
// Host paths count as hostPath, behind a claim as well; in the preset they are
// left to the control hostPaths.
// Can't see: volumes that are declared and not mounted; inline csi from a claim
// offline; the types of intree plugins that CSI has replaced (they show as csi
// or persistentVolumeClaim).
// Upstream: restricted, Volume Types (check_restrictedVolumes.go).
var volumesControl = Control{
	Name:  "volumes",
	reads: []string{"mounts"},
	preset: func(l Level, _ Version) rule {
		if l != Restricted {
			return nil
		}
		return volumes{allow: restrictedVolumes}
	},
	parse: func(d *decoder, settings *strictyaml.Object, preset rule) rule {
		var r volumes
		if p, ok := preset.(volumes); ok {
			r.allow = slices.Clone(p.allow)
		}
		for _, f := range settings.Fields {
			switch f.Name {
			case "allow":
				r.allow = append(r.allow, d.words(f, "volume type", volumeTypes...)...)
			default:
				d.UnknownField(settings, f, "allow")
			}
		}
		return r
	},
}

// restrictedVolumes are upstream's, and hostPath, which hostPaths judges.
var restrictedVolumes = []string{
	"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
	"hostPath",
}

// volumeTypes are the members of a pod's volume (k8s.io/api core/v1
// VolumeSource).
var volumeTypes = []string{
	"awsElasticBlockStore", "azureDisk", "azureFile", "cephfs", "cinder", "configMap", "csi", "downwardAPI", "emptyDir",
	"ephemeral", "fc", "flexVolume", "flocker", "gcePersistentDisk", "gitRepo", "glusterfs", "hostPath", "image", "iscsi",
	"nfs", "persistentVolumeClaim", "photonPersistentDisk", "portworxVolume", "projected", "quobyte", "rbd", "scaleIO",
	"secret", "storageos", "vsphereVolume",
}

type volumes struct{ allow []string }

func (r volumes) evaluate(in *spec.Intent) []finding {
	var out []finding
	for i := range in.Mounts {
		m := &in.Mounts[i]
		if m.Class != spec.MountVolume && m.Class != spec.MountHostPath {
			continue
		}
		what := spec.Quote(m.Destination)
		typ := m.Volume
		if m.Class == spec.MountHostPath {
			typ = "hostPath"
		}
		if m.Certainty == spec.Unknown {
			out = append(out, undetermined(m.Field, what+" is a volume whose type can't be told"))
			continue
		}
		switch allowed, all := r.allows(typ); {
		case all:
		case allowed:
			out = append(out, undetermined(m.Field, what+" is a volume of type "+strings.ReplaceAll(typ, "|", " or ")))
		default:
			out = append(out, violated(m.Field, what+" is a volume of type "+strings.ReplaceAll(typ, "|", " or ")))
		}
	}
	if len(out) == 0 && in.Kind == spec.KindSandbox {
		return waits("mounts")
	}
	return out
}

// allows reports whether any and whether all of the types that a volume may be
// of are allowed. A generic ephemeral volume shows as the claim that is made
// for it.
func (r volumes) allows(types string) (any, all bool) {
	all = true
	for more := true; more; {
		var typ string
		typ, types, more = strings.Cut(types, "|")
		if contains(r.allow, typ) {
			any = true
			continue
		}
		all = false
		if typ == "persistentVolumeClaim" && contains(r.allow, "ephemeral") {
			any = true
		}
	}
	return any, all
}
