package conformance

import (
	"fmt"
	"math/rand/v2"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeadmit/nodeadmit/pkg/pod"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

// randomPod makes a pod of a seed: one that some standard allows, with a few
// changes to the fields that the standards read. It need not pass the API's
// validation.
func randomPod(r *rand.Rand) *corev1.Pod {
	g := &generator{Rand: r, pod: &corev1.Pod{}}
	p := g.pod
	p.Name, p.Namespace = fmt.Sprintf("p%d", r.IntN(1000)), "team-a"
	p.Spec.Containers = []corev1.Container{{Name: "a", Image: "registry.k8s.io/pause"}}
	p.Spec.SecurityContext = &corev1.PodSecurityContext{}
	if g.one(3) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "b", Image: "registry.k8s.io/pause"})
	}
	if g.one(3) {
		p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "registry.k8s.io/pause"}}
	}
	if g.one(6) {
		p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "debug", Image: "registry.k8s.io/pause"}}}
	}
	if g.one(2) {
		g.restricted()
	}
	for range r.IntN(6) {
		podChanges[r.IntN(len(podChanges))](g)
	}
	for range r.IntN(6) {
		g.change(g.container())
	}
	pod.Default(p)
	return p
}

type generator struct {
	*rand.Rand
	pod *corev1.Pod
}

// one is true once in n times.
func (g *generator) one(n int) bool { return g.IntN(n) == 0 }

func pick[T any](g *generator, list ...T) T { return list[g.IntN(len(list))] }

func (g *generator) container() *corev1.Container {
	var all []*corev1.Container
	each(g.pod, func(c *corev1.Container) { all = append(all, c) })
	return pick(g, all...)
}

// restricted makes the pod one that restricted allows.
func (g *generator) restricted() {
	s := podContext(g.pod)
	s.RunAsNonRoot = ptr(true)
	s.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	each(g.pod, func(c *corev1.Container) {
		c.SecurityContext = &corev1.SecurityContext{
			AllowPrivilegeEscalation: ptr(false), Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
		}
	})
}

func (g *generator) bool() *bool { return pick(g, nil, ptr(true), ptr(false)) }

func (g *generator) user() *int64 {
	return pick(g, nil, ptr(int64(0)), ptr(int64(1000)), ptr(int64(65535)))
}

func (g *generator) seccomp() *corev1.SeccompProfile {
	return pick(g, nil,
		&corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		&corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined},
		&corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: ptr("profile.json")})
}

func (g *generator) appArmor() *corev1.AppArmorProfile {
	return pick(g, nil,
		&corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault},
		&corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined},
		&corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: ptr("k8s-apparmor-example")})
}

func (g *generator) seLinux() *corev1.SELinuxOptions {
	if g.one(4) {
		return nil
	}
	return &corev1.SELinuxOptions{
		Type:  pick(g, "", "", "container_t", "container_init_t", "container_kvm_t", "container_engine_t", "spc_t", "unconfined_t"),
		User:  pick(g, "", "", "", "system_u", "user_u"),
		Role:  pick(g, "", "", "", "system_r", "object_r"),
		Level: pick(g, "", "", "s0:c1,c2"),
	}
}

func (g *generator) windows() *corev1.WindowsSecurityContextOptions {
	return pick(g, nil, &corev1.WindowsSecurityContextOptions{}, &corev1.WindowsSecurityContextOptions{HostProcess: ptr(true)},
		&corev1.WindowsSecurityContextOptions{HostProcess: ptr(false)})
}

// capabilityNames are with those that engines give, others, and odd ones.
var capabilityNames = []corev1.Capability{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW", "SETFCAP", "SETGID",
	"SETPCAP", "SETUID", "SYS_CHROOT", "NET_BIND_SERVICE", "NET_RAW", "SYS_ADMIN", "NET_ADMIN", "SYS_PTRACE", "BPF", "ALL", "ALL", "chown", "all",
	"net_bind_service", "Net_Raw", "CAP_CHOWN", "FOO",
}

func (g *generator) capabilities() []corev1.Capability {
	if g.one(12) {
		// All that containerd gives, by name.
		return append([]corev1.Capability{}, capabilityNames[:14]...)
	}
	var out []corev1.Capability
	for range g.IntN(4) {
		out = append(out, pick(g, capabilityNames...))
	}
	return out
}

var sysctlNames = []string{
	"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
	"net.ipv4.ip_unprivileged_port_start", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout",
	"net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
	"net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat", "net.core.somaxconn", "kernel.msgmax", "kernel.core_pattern",
	"net/ipv4/tcp_syncookies", "net/core/somaxconn", "fs.mqueue.msg_max", "vm.swappiness",
}

// podChanges change what is the pod's.
var podChanges = []func(*generator){
	func(g *generator) { g.pod.Spec.HostNetwork = true },
	func(g *generator) { g.pod.Spec.HostPID = true },
	func(g *generator) { g.pod.Spec.HostIPC = true },
	func(g *generator) { g.pod.Spec.HostUsers = g.bool() },
	func(g *generator) { g.pod.Spec.HostUsers = ptr(false) },
	func(g *generator) { g.pod.Spec.ShareProcessNamespace = g.bool() },
	func(g *generator) { podContext(g.pod).RunAsUser = g.user() },
	func(g *generator) { podContext(g.pod).RunAsGroup = g.user() },
	func(g *generator) { podContext(g.pod).RunAsNonRoot = g.bool() },
	func(g *generator) { podContext(g.pod).SeccompProfile = g.seccomp() },
	func(g *generator) { podContext(g.pod).AppArmorProfile = g.appArmor() },
	func(g *generator) { podContext(g.pod).SELinuxOptions = g.seLinux() },
	func(g *generator) { podContext(g.pod).WindowsOptions = g.windows() },
	func(g *generator) { podContext(g.pod).FSGroup = g.user() },
	func(g *generator) {
		seen := map[string]bool{}
		s := podContext(g.pod)
		s.Sysctls = nil
		for range 1 + g.IntN(3) {
			if name := pick(g, sysctlNames...); !seen[name] {
				seen[name] = true
				s.Sysctls = append(s.Sysctls, corev1.Sysctl{Name: name, Value: "1"})
			}
		}
	},
	func(g *generator) {
		if g.one(4) {
			g.pod.Spec.OS = &corev1.PodOS{Name: pick(g, corev1.Linux, corev1.Windows)}
		}
	},
	func(g *generator) {
		annotate(g.pod, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+pick(g, "a", "b", "init", "none"),
			pick(g, "unconfined", "runtime/default", "localhost/k8s-apparmor-example", ""))
	},
	func(g *generator) {
		key := "seccomp.security.alpha.kubernetes.io/pod"
		if g.one(2) {
			key = "container.seccomp.security.alpha.kubernetes.io/" + pick(g, "a", "b", "none")
		}
		annotate(g.pod, key, pick(g, "unconfined", "runtime/default", "localhost/x", "docker/default"))
	},
	(*generator).volume, (*generator).volume, (*generator).volume,
}

func annotate(p *corev1.Pod, key, value string) {
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[key] = value
}

// volume adds one, and mostly mounts it.
func (g *generator) volume() {
	claim := func(name string) corev1.VolumeSource {
		return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
	}
	pv := fmt.Sprintf(".pv%d", len(g.pod.Spec.Volumes))
	v := corev1.Volume{Name: fmt.Sprintf("v%d", len(g.pod.Spec.Volumes)), VolumeSource: pick(g,
		corev1.VolumeSource{}, corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}, corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}},
		corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}, corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}},
		corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}}, corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}},
		corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "registry.k8s.io/data"}},
		claim("data"), claim("nfs"+pv), claim("iscsi"+pv), claim("fc"+pv), claim("host-path"+pv), claim("local-volume"+pv),
		corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: pick(g, "/etc", "/", "/dev/shm", "/sys", "/proc", "/var/lib/kubelet/pods/x/volumes/kubernetes.io~empty-dir/y")}},
		corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/log"}},
		corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "s", Path: "/p"}}, corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}},
		corev1.VolumeSource{FC: &corev1.FCVolumeSource{}}, corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{Driver: "example.com/d"}},
		corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}}, corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{}},
		corev1.VolumeSource{GitRepo: &corev1.GitRepoVolumeSource{}}, corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{}},
	)}
	g.pod.Spec.Volumes = append(g.pod.Spec.Volumes, v)
	if g.one(4) {
		return
	}
	c := g.container()
	m := corev1.VolumeMount{Name: v.Name, MountPath: pick(g, "/mnt/"+v.Name, "/dev/shm", "/sys", "/proc", "/etc/hosts", "/data/x/"+v.Name), ReadOnly: g.one(2)}
	if v.Image == nil && g.one(5) {
		m.SubPath = "sub"
	}
	for _, o := range c.VolumeMounts {
		if o.MountPath == m.MountPath {
			return
		}
	}
	c.VolumeMounts = append(c.VolumeMounts, m)
}

// change changes what is a container's.
func (g *generator) change(c *corev1.Container) {
	s := securityOf(c)
	if s.Capabilities == nil && g.one(4) {
		s.Capabilities = &corev1.Capabilities{}
	}
	switch g.IntN(15) {
	case 0:
		s.Privileged = g.bool()
	case 1:
		s.AllowPrivilegeEscalation = g.bool()
	case 2, 3:
		s.Capabilities = &corev1.Capabilities{Add: g.capabilities(), Drop: g.capabilities()}
	case 4:
		if s.Capabilities != nil {
			s.Capabilities.Add = g.capabilities()
		}
	case 5:
		s.RunAsUser = g.user()
	case 6:
		s.RunAsNonRoot = g.bool()
	case 7:
		s.SeccompProfile = g.seccomp()
	case 8:
		s.AppArmorProfile = g.appArmor()
	case 9:
		s.SELinuxOptions = g.seLinux()
	case 10:
		s.ProcMount = pick(g, nil, ptr(corev1.DefaultProcMount), ptr(corev1.UnmaskedProcMount))
	case 11:
		s.WindowsOptions = g.windows()
	case 12:
		s.ReadOnlyRootFilesystem = g.bool()
	case 13:
		c.Ports = append(c.Ports, corev1.ContainerPort{ContainerPort: 80, HostPort: pick(g, int32(0), 8080, 80)})
	case 14:
		g.probe(c)
	}
}

func (g *generator) probe(c *corev1.Container) {
	host := pick(g, "", "127.0.0.1", "example.com")
	handler := corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Host: host}}
	if g.one(2) {
		handler = corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: host}}
	}
	switch g.IntN(5) {
	case 0:
		c.LivenessProbe = &corev1.Probe{ProbeHandler: handler}
	case 1:
		c.ReadinessProbe = &corev1.Probe{ProbeHandler: handler}
	case 2:
		c.StartupProbe = &corev1.Probe{ProbeHandler: handler}
	case 3:
		c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{HTTPGet: handler.HTTPGet, TCPSocket: handler.TCPSocket}}
	case 4:
		c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: handler.HTTPGet, TCPSocket: handler.TCPSocket}}
	}
}

// randomStandard is a level and a version, with those more often in which
// something changed.
func (g *generator) randomStandard(level policy.Level) standard {
	version := pick(g, "latest", "v1.37", "v1.36", "v1.35", "v1.34", "v1.31", "v1.25", "v1.22", "v1.19", "v1.0", fmt.Sprintf("v1.%d", g.IntN(38)))
	return standard{level, version}
}
