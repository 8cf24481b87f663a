package translate

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	corev1 "k8s.io/api/core/v1"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Requests are what the kubelet asks an engine for.
type Requests struct {
	Sandbox    *cri.PodSandboxConfig
	Containers []*cri.ContainerConfig // init, then others, then ephemeral ones
	// Files are those of the kubelet that tell of volumes, by path.
	Files map[string]string
	// Bound is what the kubelet bound to a subPath's directory.
	Bound map[string]string
}

// ErrNotStarted is why the kubelet doesn't start a pod or container: no engine
// is asked, so that nobody judges a bundle.
var ErrNotStarted = errors.New("the kubelet doesn't start it")

// Kubelet does what kuberuntime does with a pod (kubernetes 1.37,
// pkg/kubelet/kuberuntime: generatePodSandboxConfig, generateContainerConfig,
// security_context.go; pkg/kubelet/kubelet_pods.go: makeMounts).
func (n *Node) Kubelet(p *corev1.Pod) (*Requests, error) {
	if p.Spec.OS != nil && p.Spec.OS.Name != corev1.Linux {
		return nil, fmt.Errorf("%w: it is for another operating system", ErrNotStarted)
	}
	if p.Spec.HostUsers != nil && !*p.Spec.HostUsers && n.Engine == Containerd1 {
		return nil, fmt.Errorf("%w: the engine has no user namespaces", ErrNotStarted)
	}
	k := &kubelet{node: n, pod: p, out: &Requests{Files: map[string]string{}, Bound: map[string]string{}}}
	k.uid = string(p.UID)
	if k.uid == "" {
		h := id(p.Namespace + "/" + p.Name)
		k.uid = h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-8" + h[17:20] + "-" + h[20:32]
	}
	k.dir = path.Join(n.KubeletRoot, "pods", k.uid)
	k.out.Sandbox = k.sandbox()
	for _, c := range containers(&p.Spec) {
		config, err := k.container(c)
		if err != nil {
			return nil, err
		}
		k.out.Containers = append(k.out.Containers, config)
	}
	return k.out, nil
}

// containers returns all containers of a pod, ephemeral ones as the others.
func containers(s *corev1.PodSpec) []*corev1.Container {
	var out []*corev1.Container
	for i := range s.InitContainers {
		out = append(out, &s.InitContainers[i])
	}
	for i := range s.Containers {
		out = append(out, &s.Containers[i])
	}
	for i := range s.EphemeralContainers {
		out = append(out, (*corev1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon))
	}
	return out
}

type kubelet struct {
	node     *Node
	pod      *corev1.Pod
	uid, dir string
	out      *Requests
}

func (k *kubelet) podContext() *corev1.PodSecurityContext {
	if k.pod.Spec.SecurityContext == nil {
		return &corev1.PodSecurityContext{}
	}
	return k.pod.Spec.SecurityContext
}

func (k *kubelet) namespace() string {
	if k.pod.Namespace == "" {
		return "default"
	}
	return k.pod.Namespace
}

func (k *kubelet) labels() map[string]string {
	return map[string]string{
		"io.kubernetes.pod.name": k.pod.Name, "io.kubernetes.pod.namespace": k.namespace(), "io.kubernetes.pod.uid": k.uid,
	}
}

func (k *kubelet) sandbox() *cri.PodSandboxConfig {
	p, sc := k.pod, k.podContext()
	labels := k.labels()
	for name, value := range p.Labels {
		if _, own := labels[name]; !own {
			labels[name] = value
		}
	}
	annotations := map[string]string{}
	for name, value := range p.Annotations {
		annotations[name] = value
	}
	annotations["kubernetes.io/config.seen"], annotations["kubernetes.io/config.source"] = "2026-01-01T00:00:00Z", "api"
	out := &cri.PodSandboxConfig{
		Metadata:     &cri.PodSandboxMetadata{Name: p.Name, Namespace: k.namespace(), Uid: k.uid},
		LogDirectory: fmt.Sprintf("/var/log/pods/%s_%s_%s", k.namespace(), p.Name, k.uid),
		Labels:       labels, Annotations: annotations,
		Linux: &cri.LinuxPodSandboxConfig{
			CgroupParent: "/kubepods/besteffort/pod" + k.uid,
			Sysctls:      map[string]string{},
			SecurityContext: &cri.LinuxSandboxSecurityContext{
				// "Forcing sandbox to run as runtime/default".
				Seccomp:          &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault},
				Privileged:       privileged(&p.Spec),
				NamespaceOptions: k.namespaces(),
				SelinuxOptions:   seLinux(nil, sc.SELinuxOptions),
			},
			Overhead:  &cri.LinuxContainerResources{},
			Resources: &cri.LinuxContainerResources{CpuPeriod: 100000, CpuShares: 2},
		},
	}
	if !p.Spec.HostNetwork {
		out.Hostname = p.Name
	}
	for _, s := range sc.Sysctls {
		out.Linux.Sysctls[dots(s.Name)] = s.Value
	}
	s := out.Linux.SecurityContext
	s.RunAsUser, s.RunAsGroup = number(sc.RunAsUser), number(sc.RunAsGroup)
	s.SupplementalGroups = k.supplementalGroups()
	for _, c := range containers(&p.Spec) {
		for _, port := range c.Ports {
			out.PortMappings = append(out.PortMappings, &cri.PortMapping{
				ContainerPort: port.ContainerPort, HostPort: port.HostPort, HostIp: port.HostIP,
			})
		}
	}
	return out
}

// dots is the kubelet's ConvertPodSysctlsVariableToDotsSeparator: a name whose
// first separator is a slash is one in slash form.
func dots(name string) string {
	i := strings.IndexAny(name, "./")
	if i < 0 || name[i] == '.' {
		return name
	}
	return strings.NewReplacer("/", ".", ".", "/").Replace(name)
}

func privileged(s *corev1.PodSpec) bool {
	for _, c := range containers(s) {
		if c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged {
			return true
		}
	}
	return false
}

func number(n *int64) *cri.Int64Value {
	if n == nil {
		return nil
	}
	return &cri.Int64Value{Value: *n}
}

func (k *kubelet) supplementalGroups() []int64 {
	sc := k.podContext()
	var out []int64
	if sc.FSGroup != nil {
		out = append(out, *sc.FSGroup)
	}
	return append(out, sc.SupplementalGroups...)
}

// userNamespace is the first range that the kubelet gives away.
var userNamespace = []*cri.IDMapping{{HostId: 65536, ContainerId: 0, Length: 65536}}

func (k *kubelet) namespaces() *cri.NamespaceOption {
	s := &k.pod.Spec
	o := &cri.NamespaceOption{Network: cri.NamespaceMode_POD, Pid: cri.NamespaceMode_CONTAINER, Ipc: cri.NamespaceMode_POD}
	if s.HostNetwork {
		o.Network = cri.NamespaceMode_NODE
	}
	if s.HostIPC {
		o.Ipc = cri.NamespaceMode_NODE
	}
	switch {
	case s.HostPID:
		o.Pid = cri.NamespaceMode_NODE
	case s.ShareProcessNamespace != nil && *s.ShareProcessNamespace:
		o.Pid = cri.NamespaceMode_POD
	}
	if s.HostUsers != nil && !*s.HostUsers {
		o.UsernsOptions = &cri.UserNamespace{Mode: cri.NamespaceMode_POD, Uids: userNamespace, Gids: userNamespace}
	}
	return o
}

// seLinux merges a container's options over the pod's, field by field.
func seLinux(of, pod *corev1.SELinuxOptions) *cri.SELinuxOption {
	if of == nil && pod == nil {
		return nil
	}
	o := corev1.SELinuxOptions{}
	for _, from := range []*corev1.SELinuxOptions{pod, of} {
		if from != nil {
			o = *from // DetermineEffectiveSecurityContext takes the container's as a whole
		}
	}
	return &cri.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

// The lists of k8s.io/kubernetes/pkg/securitycontext, for procMount Default.
var (
	maskedPaths = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
		"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

func (k *kubelet) container(c *corev1.Container) (*cri.ContainerConfig, error) {
	sc, pod := c.SecurityContext, k.podContext()
	if sc == nil {
		sc = &corev1.SecurityContext{}
	}
	user, group, nonRoot := sc.RunAsUser, sc.RunAsGroup, sc.RunAsNonRoot
	if user == nil {
		user = pod.RunAsUser
	}
	if group == nil {
		group = pod.RunAsGroup
	}
	if nonRoot == nil {
		nonRoot = pod.RunAsNonRoot
	}
	// verifyRunAsNonRoot, and the image's user.
	uid := k.node.Image.UID
	if user != nil {
		uid = *user
	}
	if nonRoot != nil && *nonRoot && uid == 0 {
		return nil, fmt.Errorf("%w: container %s has runAsNonRoot and would run as root", ErrNotStarted, c.Name)
	}
	s := &cri.LinuxContainerSecurityContext{
		Capabilities:       &cri.Capability{},
		NamespaceOptions:   k.namespaces(),
		RunAsUser:          &cri.Int64Value{Value: uid},
		RunAsGroup:         number(group),
		SelinuxOptions:     seLinux(sc.SELinuxOptions, pod.SELinuxOptions),
		SupplementalGroups: k.supplementalGroups(),
		// AddNoNewPrivileges
		NoNewPrivs: sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
	}
	s.Privileged = sc.Privileged != nil && *sc.Privileged
	s.ReadonlyRootfs = sc.ReadOnlyRootFilesystem != nil && *sc.ReadOnlyRootFilesystem
	if sc.Capabilities != nil {
		for _, a := range sc.Capabilities.Add {
			s.Capabilities.AddCapabilities = append(s.Capabilities.AddCapabilities, string(a))
		}
		for _, d := range sc.Capabilities.Drop {
			s.Capabilities.DropCapabilities = append(s.Capabilities.DropCapabilities, string(d))
		}
	}
	if sc.ProcMount == nil || *sc.ProcMount != corev1.UnmaskedProcMount {
		s.MaskedPaths, s.ReadonlyPaths = maskedPaths, readonlyPaths
	}
	var err error
	s.Seccomp = k.seccomp(sc.SeccompProfile)
	if s.Apparmor, err = k.appArmor(c.Name, sc.AppArmorProfile); err != nil {
		return nil, err
	}
	out := &cri.ContainerConfig{
		Metadata: &cri.ContainerMetadata{Name: c.Name},
		Image:    &cri.ImageSpec{Image: c.Image, UserSpecifiedImage: c.Image},
		Command:  c.Command, Args: c.Args, WorkingDir: c.WorkingDir,
		Labels:      k.labels(),
		LogPath:     c.Name + "/0.log",
		Annotations: annotations(c),
		Linux: &cri.LinuxContainerConfig{
			SecurityContext: s,
			Resources:       &cri.LinuxContainerResources{CpuPeriod: 100000, CpuShares: 2, OomScoreAdj: 1000},
		},
	}
	out.Labels["io.kubernetes.container.name"] = c.Name
	for _, e := range c.Env {
		out.Envs = append(out.Envs, &cri.KeyValue{Key: e.Name, Value: []byte(e.Value)})
	}
	if out.Mounts, err = k.mounts(c); err != nil {
		return nil, err
	}
	return out, nil
}

// annotations are newContainerAnnotations.
func annotations(c *corev1.Container) map[string]string {
	out := map[string]string{
		"io.kubernetes.container.hash":                     id(c.Name)[:8],
		"io.kubernetes.container.restartCount":             "0",
		"io.kubernetes.container.terminationMessagePath":   "/dev/termination-log",
		"io.kubernetes.container.terminationMessagePolicy": "File",
		"io.kubernetes.pod.terminationGracePeriod":         "30",
	}
	if len(c.Ports) > 0 {
		ports, err := json.Marshal(c.Ports)
		if err == nil {
			out["io.kubernetes.container.ports"] = string(ports)
		}
	}
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		stop, err := json.Marshal(c.Lifecycle.PreStop)
		if err == nil {
			out["io.kubernetes.container.preStopHandler"] = string(stop)
		}
	}
	return out
}

// seccomp is getSeccompProfile. Annotations count no more since 1.27.
func (k *kubelet) seccomp(of *corev1.SeccompProfile) *cri.SecurityProfile {
	if of == nil {
		of = k.podContext().SeccompProfile
	}
	switch {
	case of != nil && of.Type == corev1.SeccompProfileTypeLocalhost:
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Localhost, LocalhostRef: path.Join(k.node.KubeletRoot, "seccomp", value(of.LocalhostProfile))}
	case of != nil && of.Type == corev1.SeccompProfileTypeRuntimeDefault, of == nil && k.node.SeccompDefault:
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault}
	}
	return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Unconfined}
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// appArmor is getAppArmorProfile: the container's field, then its annotation,
// then the pod's field. A profile where there is no AppArmor is refused by the
// kubelet (pkg/security/apparmor/validate.go).
func (k *kubelet) appArmor(name string, of *corev1.AppArmorProfile) (*cri.SecurityProfile, error) {
	if of == nil {
		of = k.appArmorAnnotation(name)
	}
	if of == nil {
		of = k.podContext().AppArmorProfile
	}
	if of == nil {
		return nil, nil
	}
	if of.Type == corev1.AppArmorProfileTypeUnconfined {
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Unconfined}, nil
	}
	if !k.node.AppArmor {
		return nil, fmt.Errorf("%w: the node has no AppArmor", ErrNotStarted)
	}
	if of.Type == corev1.AppArmorProfileTypeLocalhost {
		return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_Localhost, LocalhostRef: value(of.LocalhostProfile)}, nil
	}
	return &cri.SecurityProfile{ProfileType: cri.SecurityProfile_RuntimeDefault}, nil
}

func (k *kubelet) appArmorAnnotation(name string) *corev1.AppArmorProfile {
	profile, ok := k.pod.Annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+name]
	local, isLocal := strings.CutPrefix(profile, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
	switch {
	case !ok:
		return nil
	case isLocal:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &local}
	case profile == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case profile == corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	}
	return nil
}
