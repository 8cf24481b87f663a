package pod

import (
	"fmt"
	"reflect"
	"slices"
	"sort"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// Rebuild returns the pod that a bundle shows: one container, and of all fields
// those that are known, with the value that is in effect.
//
// Where several declarations have the same effect, the field has the least
// restricted policies' least violating one: a capability that the engine gives
// anyway is not added, dropping all that would be left is drop ALL, a user other
// than 0 is runAsNonRoot, no seccomp profile is an unset one (an Unconfined one
// looks the same). The engine's and the kubelet's own mounts are no volumes.
// Volumes are those that the container mounts: one that it doesn't mount has no
// effect on the node. Values that are assumed ([spec.Assumed]) count as known,
// but for the image's name.
//
// unknown lists, sorted, the JSON paths of all other fields of the pod, so that
// nobody takes absence for "not set". A path covers what lies below it. A value
// that stands at a listed path is one of several that it may be. The other
// containers of the pod are among the unknown, and at the sandbox the one is.
func Rebuild(in *spec.Intent) (pod *corev1.Pod, unknown []string) {
	b := &builder{in: in, known: map[string]bool{}}
	b.pod.APIVersion, b.pod.Kind = "v1", "Pod"
	b.pod.Spec.Containers = []corev1.Container{{}}
	b.identity()
	b.namespaces()
	b.sysctls()
	if in.Kind == spec.KindSandbox {
		return &b.pod, b.unknown("spec.containers")
	}
	c := &b.pod.Spec.Containers[0]
	b.container(c)
	b.securityContext(c)
	b.mounts(c)
	return &b.pod, b.unknown("")
}

type builder struct {
	in    *spec.Intent
	pod   corev1.Pod
	known map[string]bool
	also  []string // unknown beside what isn't known
}

const first = "spec.containers[0]."

// take copies a fact to a field, if it is known.
func take[T, F any](b *builder, path string, f spec.Fact[T], to *F, convert func(T) F) {
	if f.Certainty == spec.Unknown {
		return
	}
	*to = convert(f.Value)
	b.known[path] = true
}

func same[T any](v T) T { return v }

func is[T comparable](want T) func(T) bool { return func(v T) bool { return v == want } }

func ptr[T any](v T) *T { return &v }

func (b *builder) podContext() *corev1.PodSecurityContext {
	if b.pod.Spec.SecurityContext == nil {
		b.pod.Spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	return b.pod.Spec.SecurityContext
}

func (b *builder) identity() {
	id := &b.in.Pod
	take(b, "metadata.namespace", id.Namespace, &b.pod.Namespace, same)
	take(b, "metadata.name", id.Name, &b.pod.Name, same)
	take(b, "metadata.uid", id.UID, &b.pod.UID, func(s string) types.UID { return types.UID(s) })
}

func (b *builder) namespaces() {
	in, s := b.in, &b.pod.Spec
	take(b, "spec.hostNetwork", in.HostNetwork, &s.HostNetwork, is(spec.NamespaceHost))
	take(b, "spec.hostPID", in.HostPID, &s.HostPID, is(spec.NamespaceHost))
	take(b, "spec.hostIPC", in.HostIPC, &s.HostIPC, is(spec.NamespaceHost))
	take(b, "spec.hostUsers", in.UserNamespace, &s.HostUsers, func(m spec.NamespaceMode) *bool { return ptr(m == spec.NamespaceHost) })
	if in.Kind != spec.KindSandbox {
		take(b, "spec.shareProcessNamespace", in.SharedPID, &s.ShareProcessNamespace, func(m spec.SharedPID) *bool { return ptr(m == spec.SharedPIDPod) })
	}
}

// sysctls are the pod's, and stand in its sandbox alone.
func (b *builder) sysctls() {
	if b.in.Kind == spec.KindContainer {
		return
	}
	const path = "spec.securityContext.sysctls"
	take(b, path, b.in.Sysctls, &b.podContext().Sysctls, func(m map[string]string) []corev1.Sysctl {
		var out []corev1.Sysctl
		for name, value := range m {
			out = append(out, corev1.Sysctl{Name: name, Value: value})
		}
		sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
		return out
	})
}

func (b *builder) container(c *corev1.Container) {
	in := b.in
	take(b, first+"name", in.Pod.Container, &c.Name, same)
	take(b, first+"image", in.Pod.Image, &c.Image, func(i spec.Image) string { return i.Name })
	if in.Pod.Image.Certainty == spec.Assumed {
		delete(b.known, first+"image")
	}
	// The command line as a whole is known, not which part of it is whose.
	take(b, first+"command", in.Args, &c.Command, same)
	if in.Args.Certainty != spec.Unknown {
		b.known[first+"args"] = true
	}
	take(b, first+"workingDir", in.Cwd, &c.WorkingDir, same)
	if in.HostPorts.Certainty != spec.Unknown {
		b.known[first+"ports"] = true
		for i, p := range in.HostPorts.Value {
			c.Ports = append(c.Ports, corev1.ContainerPort{HostPort: int32(p), ContainerPort: int32(p)})
			b.also = append(b.also, fmt.Sprintf(first+"ports[%d].containerPort", i), fmt.Sprintf(first+"ports[%d].protocol", i))
		}
	}
}

func (b *builder) securityContext(c *corev1.Container) {
	in, s := b.in, &corev1.SecurityContext{}
	c.SecurityContext = s
	const ctx = first + "securityContext."
	b.known[ctx+"windowsOptions"], b.known["spec.securityContext.windowsOptions"] = true, true
	take(b, ctx+"privileged", in.Privileged, &s.Privileged, ptr)
	take(b, ctx+"allowPrivilegeEscalation", in.NoNewPrivileges, &s.AllowPrivilegeEscalation, func(nnp bool) *bool { return ptr(!nnp) })
	take(b, ctx+"readOnlyRootFilesystem", in.ReadOnlyRoot, &s.ReadOnlyRootFilesystem, ptr)
	take(b, ctx+"runAsUser", in.UID, &s.RunAsUser, func(id uint32) *int64 { return ptr(int64(id)) })
	take(b, ctx+"runAsGroup", in.GID, &s.RunAsGroup, func(id uint32) *int64 { return ptr(int64(id)) })
	take(b, ctx+"runAsNonRoot", in.UID, &s.RunAsNonRoot, func(id uint32) *bool { return ptr(id != 0) })
	// The container's own decide: the pod's are overridden.
	for _, f := range []string{"runAsUser", "runAsGroup", "runAsNonRoot"} {
		b.known["spec.securityContext."+f] = b.known[ctx+f]
	}
	take(b, "spec.securityContext.supplementalGroups", in.AdditionalGIDs, &b.podContext().SupplementalGroups, func(ids []uint32) []int64 {
		var out []int64
		for _, id := range ids {
			if id != in.GID.Value { // engines list the primary group here too
				out = append(out, int64(id))
			}
		}
		return out
	})
	take(b, ctx+"seLinuxOptions", in.SELinux, &s.SELinuxOptions, seLinuxOptions)
	b.known["spec.securityContext.seLinuxOptions"] = b.known[ctx+"seLinuxOptions"]
	for _, f := range []string{"capabilities", "procMount", "seccompProfile", "appArmorProfile"} {
		b.known[ctx+f] = true
	}
	b.known["spec.securityContext.seccompProfile"], b.known["spec.securityContext.appArmorProfile"] = true, true
	if spec.Is(in.Privileged, true) {
		// What follows is off for a privileged container, whatever its pod says.
		return
	}
	take(b, ctx+"procMount", in.ProcUnmasked, &s.ProcMount, func(unmasked bool) *corev1.ProcMountType {
		if unmasked {
			return ptr(corev1.UnmaskedProcMount)
		}
		return ptr(corev1.DefaultProcMount)
	})
	b.known[ctx+"procMount"] = in.ProcUnmasked.Certainty != spec.Unknown
	b.known[ctx+"capabilities"] = in.Capabilities.Certainty != spec.Unknown
	s.Capabilities = b.capabilities()
	s.SeccompProfile = b.seccomp(ctx + "seccompProfile")
	s.AppArmorProfile = b.appArmor(ctx + "appArmorProfile")
}

// capabilities says as little as gives the container what it has.
func (b *builder) capabilities() *corev1.Capabilities {
	if b.in.Capabilities.Certainty == spec.Unknown {
		return nil
	}
	has := b.in.Capabilities.Value
	out := &corev1.Capabilities{}
	var dropped []string
	for _, d := range b.in.Engine.DefaultCapabilities {
		if !slices.Contains(has.All, d) {
			dropped = append(dropped, d)
		}
	}
	keep := slices.DeleteFunc(slices.Clone(has.All), func(c string) bool { return c == "NET_BIND_SERVICE" })
	if len(keep) == 0 {
		out.Drop, out.Add = []corev1.Capability{"ALL"}, capabilityList(has.All)
		return out
	}
	slices.Sort(dropped)
	out.Add, out.Drop = capabilityList(has.Added), capabilityList(dropped)
	return out
}

func capabilityList(names []string) []corev1.Capability {
	var out []corev1.Capability
	for _, n := range names {
		out = append(out, corev1.Capability(n))
	}
	return out
}

func (b *builder) seccomp(path string) *corev1.SeccompProfile {
	f := b.in.Seccomp
	switch {
	case f.Certainty == spec.Unknown:
		b.known[path] = false
		return nil
	case f.Value == spec.SeccompNone:
		return nil
	}
	if spec.Is(b.in.SeccompType, "Localhost") {
		b.also = append(b.also, path+".localhostProfile")
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr("unknown")}
	}
	if b.in.SeccompType.Certainty == spec.Unknown {
		b.also = append(b.also, path+".type", path+".localhostProfile")
	}
	return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
}

// engineProfiles are the AppArmor profiles that engines call RuntimeDefault
// (containerd internal/cri/server appArmorDefaultProfileName, CRI-O
// internal/config/apparmor DefaultProfile).
var engineProfiles = []string{"cri-containerd.apparmor.d", "crio-default"}

func (b *builder) appArmor(path string) *corev1.AppArmorProfile {
	f, host := b.in.AppArmor, b.in.AppArmorHost
	switch {
	case f.Certainty == spec.Unknown, f.Value == "" && host.Certainty == spec.Unknown:
		b.known[path] = false
		return nil
	case f.Value == "" && host.Value:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case f.Value == "":
		return nil
	case slices.Contains(engineProfiles, f.Value):
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	}
	return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: ptr(f.Value)}
}

// seLinuxOptions leaves out the user and role that engines set by themselves.
func seLinuxOptions(label string) *corev1.SELinuxOptions {
	if label == "" {
		return nil
	}
	part := append(strings.SplitN(label, ":", 4), "", "", "", "")
	out := &corev1.SELinuxOptions{User: part[0], Role: part[1], Type: part[2], Level: part[3]}
	if out.User == "system_u" {
		out.User = ""
	}
	if out.Role == "system_r" {
		out.Role = ""
	}
	return out
}

// mounts adds the pod's volumes, named by the number of their mount.
func (b *builder) mounts(c *corev1.Container) {
	b.known["spec.volumes"], b.known[first+"volumeMounts"] = true, true
	for i := range b.in.Mounts {
		m := &b.in.Mounts[i]
		var source corev1.VolumeSource
		certain := m.Certainty != spec.Unknown
		switch {
		case m.Class == spec.MountVolume:
			var ok bool
			source, ok = volumeSource(m.Volume)
			certain = certain && ok
		case m.Class == spec.MountHostPath && !certain:
			source, _ = volumeSource("emptyDir")
		case m.Class == spec.MountHostPath, m.Class == spec.MountForeign:
			source.HostPath = &corev1.HostPathVolumeSource{Path: m.Path()}
		default:
			continue
		}
		n := len(b.pod.Spec.Volumes)
		name := fmt.Sprintf("mount-%d", i)
		b.pod.Spec.Volumes = append(b.pod.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: source})
		mount := corev1.VolumeMount{Name: name, MountPath: m.Destination, ReadOnly: m.ReadOnly}
		if m.ReadOnly && m.RecursiveReadOnly {
			mount.RecursiveReadOnly = ptr(corev1.RecursiveReadOnlyEnabled)
		}
		c.VolumeMounts = append(c.VolumeMounts, mount)
		if !certain {
			b.also = append(b.also, fmt.Sprintf("spec.volumes[%d]", n))
		}
	}
}

// volumeSource makes a volume of a type. Of several it takes the least
// restricted one, and reports that it is not the only one.
func volumeSource(types string) (corev1.VolumeSource, bool) {
	list := strings.Split(types, "|")
	typ := list[len(list)-1] // persistentVolumeClaim comes last
	var out corev1.VolumeSource
	v := reflect.ValueOf(&out).Elem()
	for i := range v.NumField() {
		if jsonName(v.Type().Field(i)) == typ {
			v.Field(i).Set(reflect.New(v.Type().Field(i).Type.Elem()))
			return out, len(list) == 1
		}
	}
	out.EmptyDir = &corev1.EmptyDirVolumeSource{}
	return out, false
}

// unknown returns the paths of all fields that were not found. below is a path
// of which nothing is known.
func (b *builder) unknown(below string) []string {
	out := slices.Clone(b.also)
	if below != "" {
		out = append(out, below)
	}
	for _, path := range allFields() {
		if !b.known[path] && (below == "" || !strings.HasPrefix(path, below)) {
			out = append(out, path)
		}
	}
	sort.Strings(out)
	return out
}

// allFields are the JSON paths of a pod with one container, down to its
// security context. What only an API server writes is left out.
var allFields = sync.OnceValue(func() []string {
	var out []string
	out = append(out, fields("metadata.", reflect.TypeFor[metav1.ObjectMeta]())...)
	for _, f := range fields("spec.", reflect.TypeFor[corev1.PodSpec]()) {
		switch f {
		case "spec.containers":
			for _, f := range fields(first, reflect.TypeFor[corev1.Container]()) {
				if f == first+"securityContext" {
					out = append(out, fields(f+".", reflect.TypeFor[corev1.SecurityContext]())...)
				} else {
					out = append(out, f)
				}
			}
		case "spec.securityContext":
			out = append(out, fields(f+".", reflect.TypeFor[corev1.PodSecurityContext]())...)
		default:
			out = append(out, f)
		}
	}
	server := []string{
		"metadata.selfLink", "metadata.resourceVersion", "metadata.generation", "metadata.creationTimestamp", "metadata.deletionTimestamp",
		"metadata.deletionGracePeriodSeconds", "metadata.managedFields", "metadata.generateName",
	}
	return slices.DeleteFunc(out, func(p string) bool { return slices.Contains(server, p) })
})

func fields(prefix string, t reflect.Type) []string {
	var out []string
	for i := range t.NumField() {
		if name := jsonName(t.Field(i)); name != "" {
			out = append(out, prefix+name)
		}
	}
	return out
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}
