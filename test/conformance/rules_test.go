package conformance

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeadmit/nodeadmit/test/conformance/translate"
)

// rule is one thing that a bundle doesn't show. Applied to a pod, it makes
// another of it that upstream likes no less; if the bundles stay the same, what
// it changed can't be seen.
type rule struct {
	name string
	// text explains it in docs/conformance.md.
	text  string
	apply func(*translate.Node, *corev1.Pod)
	// order: a list of capabilities is a set.
	order bool
	// sandboxUser: the sandbox's own user decides nothing (DESIGN.md, ruling 2).
	sandboxUser bool
	// annotations are prefixes of those that CRI-O hands on, and that no engine
	// and no kubelet obeys.
	annotations []string
}

func each(p *corev1.Pod, f func(c *corev1.Container)) {
	for i := range p.Spec.InitContainers {
		f(&p.Spec.InitContainers[i])
	}
	for i := range p.Spec.Containers {
		f(&p.Spec.Containers[i])
	}
	for i := range p.Spec.EphemeralContainers {
		f((*corev1.Container)(&p.Spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
}

func securityOf(c *corev1.Container) *corev1.SecurityContext {
	if c.SecurityContext == nil {
		c.SecurityContext = &corev1.SecurityContext{}
	}
	return c.SecurityContext
}

func podContext(p *corev1.Pod) *corev1.PodSecurityContext {
	if p.Spec.SecurityContext == nil {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	return p.Spec.SecurityContext
}

func ptr[T any](v T) *T { return &v }

func isPrivileged(c *corev1.Container) bool {
	return c.SecurityContext != nil && c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
}

// rules are tried in this order, each on what the ones before have made.
var rules = []rule{
	{
		name: "hostPorts",
		text: "containerd's config.json has no ports: they go to the CNI plugins alone. CRI-O hands on the kubelet's annotation, and there they are judged.",
		apply: func(_ *translate.Node, p *corev1.Pod) {
			each(p, func(c *corev1.Container) {
				for i := range c.Ports {
					c.Ports[i].HostPort = 0
				}
			})
		},
	},
	{
		name:        "probeHosts",
		text:        "Probes and lifecycle handlers are the kubelet's. (On CRI-O a preStop handler stands in an annotation, which no control reads.)",
		apply:       func(_ *translate.Node, p *corev1.Pod) { each(p, blankHosts) },
		annotations: []string{"io.kubernetes.container.preStopHandler"},
	},
	{
		name: "unmountedVolumes",
		text: "A volume that no container mounts has no mount, and no effect on the node's side of a container.",
		apply: func(_ *translate.Node, p *corev1.Pod) {
			mounted := map[string]bool{}
			each(p, func(c *corev1.Container) {
				for _, m := range c.VolumeMounts {
					mounted[m.Name] = true
				}
			})
			p.Spec.Volumes = slices.DeleteFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return !mounted[v.Name] })
		},
	},
	{
		name: "replacedPlugins",
		text: "Volumes of in-tree plugins that CSI has replaced are mounted as a claim's.",
		apply: func(_ *translate.Node, p *corev1.Pod) {
			for i := range p.Spec.Volumes {
				v := &p.Spec.Volumes[i]
				if v.AWSElasticBlockStore != nil || v.AzureDisk != nil || v.AzureFile != nil || v.Cinder != nil || v.GCEPersistentDisk != nil ||
					v.PortworxVolume != nil || v.VsphereVolume != nil {
					v.VolumeSource = corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "csi." + v.Name}}
				}
			}
		},
	},
	{
		name: "windowsOptions",
		text: "Options for Windows have no effect on Linux, and leave no trace.",
		apply: func(_ *translate.Node, p *corev1.Pod) {
			podContext(p).WindowsOptions = nil
			each(p, func(c *corev1.Container) { securityOf(c).WindowsOptions = nil })
		},
	},
	{
		name:        "seccompAnnotations",
		text:        "Annotations for seccomp count no more (kubelet 1.27 and later).",
		annotations: []string{"seccomp.security.alpha.kubernetes.io/", "container.seccomp.security.alpha.kubernetes.io/"},
		apply: func(_ *translate.Node, p *corev1.Pod) {
			for k := range p.Annotations {
				if strings.HasPrefix(k, "seccomp.security.alpha.kubernetes.io/") || strings.HasPrefix(k, "container.seccomp.security.alpha.kubernetes.io/") {
					delete(p.Annotations, k)
				}
			}
		},
	},
	{
		name:  "seccompUnconfined",
		text:  "An explicit Unconfined and no profile at all are both no linux.seccomp. (Baseline forbids the first alone; restricted forbids both, and there both are refused.)",
		apply: unsetUnconfined,
	},
	{
		name:        "appArmorOverridden",
		text:        "An AppArmor profile that is overridden, that is for a container that there is not, or that the node doesn't heed (privileged, or no AppArmor) leaves no trace.",
		annotations: []string{corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix},
		apply:       effectiveAppArmor,
	},
	{
		name: "podSELinuxOverridden",
		text: "A pod's SELinux options that every container overrides are the sandbox's alone, which CRI-O makes without a runtime (drop_infra_ctr, its default).",
		apply: func(n *translate.Node, p *corev1.Pod) {
			of := podContext(p).SELinuxOptions
			if of == nil || !n.SELinux {
				return
			}
			each(p, func(c *corev1.Container) {
				merged := *of
				if o := securityOf(c).SELinuxOptions; o != nil {
					merged.User, merged.Role = either(o.User, of.User), either(o.Role, of.Role)
					merged.Type, merged.Level = either(o.Type, of.Type), either(o.Level, of.Level)
				}
				c.SecurityContext.SELinuxOptions = &merged
			})
			p.Spec.SecurityContext.SELinuxOptions = nil
		},
	},
	{
		name:  "seLinuxWithoutEffect",
		text:  "SELinux options that are the engine's own anyway (user system_u, role system_r), or that the node doesn't heed (privileged, or no SELinux), leave no trace.",
		apply: effectiveSELinux,
	},
	{
		name: "capabilitySpelling",
		text: "Engines take the names of capabilities in any case. Upstream knows those in upper case.",
		apply: func(_ *translate.Node, p *corev1.Pod) {
			eachCapabilities(p, func(caps *corev1.Capabilities) {
				for _, list := range [][]corev1.Capability{caps.Add, caps.Drop} {
					for i := range list {
						list[i] = corev1.Capability(strings.ToUpper(string(list[i])))
					}
				}
			})
		},
	},
	{
		name: "addedAndDropped",
		text: "A capability that is both added and dropped by name is dropped.",
		apply: func(_ *translate.Node, p *corev1.Pod) {
			eachCapabilities(p, func(caps *corev1.Capabilities) {
				caps.Add = slices.DeleteFunc(caps.Add, func(a corev1.Capability) bool { return slices.Contains(caps.Drop, a) })
			})
		},
	},
	{
		name:  "defaultCapabilityAdded",
		order: true,
		text:  "A capability that the engine gives anyway can be added or not. (containerd gives NET_RAW, which baseline doesn't let a pod add.)",
		apply: func(n *translate.Node, p *corev1.Pod) {
			eachCapabilities(p, func(caps *corev1.Capabilities) {
				if !slices.Contains(caps.Drop, "ALL") {
					caps.Add = slices.DeleteFunc(caps.Add, func(a corev1.Capability) bool {
						return slices.Contains(n.SpecEngine().DefaultCapabilities, string(a))
					})
				}
			})
		},
	},
	{
		name:  "partOfDefaultsAdded",
		order: true,
		text:  "Dropping ALL and adding some of what the engine gives anyway is the same as dropping the others.",
		apply: func(n *translate.Node, p *corev1.Pod) {
			defaults := n.SpecEngine().DefaultCapabilities
			eachCapabilities(p, func(caps *corev1.Capabilities) {
				added := func(d string) bool { return slices.Contains(caps.Add, corev1.Capability(d)) }
				if !slices.Contains(caps.Drop, "ALL") || !slices.ContainsFunc(defaults, added) {
					return
				}
				caps.Drop = slices.DeleteFunc(caps.Drop, func(d corev1.Capability) bool { return d == "ALL" })
				for _, d := range defaults {
					if !added(d) {
						caps.Drop = append(caps.Drop, corev1.Capability(d))
					}
				}
				caps.Add = slices.DeleteFunc(caps.Add, func(a corev1.Capability) bool { return slices.Contains(defaults, string(a)) })
			})
		},
	},
	{
		order: true,
		name:  "dropSpelledOut",
		text:  "Whether ALL was dropped, or each capability of the engine's by its name, comes to the same.",
		apply: dropAll,
	},
	{
		name:  "runAsNonRoot",
		text:  "runAsNonRoot is a check of the kubelet's. A container that doesn't run as root satisfies it, whether the pod says so or not.",
		apply: sayNonRoot,
	},
	{
		name:        "podUserOverridden",
		text:        "A pod's runAsUser that every container overrides is the sandbox's alone, whose user no preset judges.",
		sandboxUser: true,
		apply: func(_ *translate.Node, p *corev1.Pod) {
			all := true
			each(p, func(c *corev1.Container) { all = all && c.SecurityContext != nil && c.SecurityContext.RunAsUser != nil })
			if all {
				podContext(p).RunAsUser = nil
			}
		},
	},
	{
		name: "sysctlSpelling",
		text: "The kubelet writes the names of kernel parameters with dots. Upstream knows those with dots.",
		apply: func(_ *translate.Node, p *corev1.Pod) {
			for i := range podContext(p).Sysctls {
				s := &p.Spec.SecurityContext.Sysctls[i]
				if j := strings.IndexAny(s.Name, "./"); j >= 0 && s.Name[j] == '/' {
					s.Name = strings.NewReplacer("/", ".", ".", "/").Replace(s.Name)
				}
			}
		},
	},
	{
		name:  "sysctlsWithoutInfra",
		text:  "CRI-O sets a pod's kernel parameters itself where it makes no infra container (drop_infra_ctr, its default).",
		apply: func(_ *translate.Node, p *corev1.Pod) { podContext(p).Sysctls = nil },
	},
}

// reverse are the other way round: a pod that upstream allows has the bundles of
// one that it refuses, and so is refused.
var reverse = []rule{
	{
		name: "inlineOrClaim",
		text: "A claim on a volume of nfs, iscsi or fc is mounted as the inline volume is, which restricted forbids. The control volumes can't tell and refuses.",
		apply: func(_ *translate.Node, p *corev1.Pod) {
			for i := range p.Spec.Volumes {
				v := &p.Spec.Volumes[i]
				if v.PersistentVolumeClaim == nil {
					continue
				}
				// The kubelet names the directory of an inline volume after the volume in
				// the pod, and of a claim's after the persistent volume.
				plugin, name, _ := strings.Cut(v.PersistentVolumeClaim.ClaimName, ".")
				source := corev1.VolumeSource{}
				switch plugin {
				case "nfs":
					source.NFS = &corev1.NFSVolumeSource{Server: "s", Path: "/p"}
				case "iscsi":
					source.ISCSI = &corev1.ISCSIVolumeSource{}
				case "fc":
					source.FC = &corev1.FCVolumeSource{}
				default:
					continue
				}
				rename(p, v.Name, name)
				v.VolumeSource = source
			}
		},
	},
	{
		name: "hostPathBehindClaim",
		text: "A claim on a hostPath volume is mounted as the path of the host that it is. The control hostPaths judges it.",
		apply: func(_ *translate.Node, p *corev1.Pod) {
			for i := range p.Spec.Volumes {
				v := &p.Spec.Volumes[i]
				if v.PersistentVolumeClaim == nil {
					continue
				}
				if name, ok := strings.CutPrefix(v.PersistentVolumeClaim.ClaimName, "host-path."); ok {
					rename(p, v.Name, name)
					v.VolumeSource = corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv/" + name}}
				}
			}
		},
	},
}

// rename gives a volume another name.
func rename(p *corev1.Pod, from, to string) {
	for i := range p.Spec.Volumes {
		if p.Spec.Volumes[i].Name == from {
			p.Spec.Volumes[i].Name = to
		}
	}
	each(p, func(c *corev1.Container) {
		for i := range c.VolumeMounts {
			if c.VolumeMounts[i].Name == from {
				c.VolumeMounts[i].Name = to
			}
		}
	})
}

func blankHosts(c *corev1.Container) {
	get := func(h *corev1.HTTPGetAction, s *corev1.TCPSocketAction) {
		if h != nil {
			h.Host = ""
		}
		if s != nil {
			s.Host = ""
		}
	}
	for _, p := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if p != nil {
			get(p.HTTPGet, p.TCPSocket)
		}
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				get(h.HTTPGet, h.TCPSocket)
			}
		}
	}
}

// unsetUnconfined says for each container what it has, and for none Unconfined.
func unsetUnconfined(_ *translate.Node, p *corev1.Pod) {
	of := podContext(p).SeccompProfile
	each(p, func(c *corev1.Container) {
		s := securityOf(c)
		if s.SeccompProfile == nil && of != nil {
			s.SeccompProfile = of.DeepCopy()
		}
		if s.SeccompProfile != nil && s.SeccompProfile.Type == corev1.SeccompProfileTypeUnconfined {
			s.SeccompProfile = nil
		}
	})
	p.Spec.SecurityContext.SeccompProfile = nil
}

// effectiveAppArmor says for each container what it has.
func effectiveAppArmor(n *translate.Node, p *corev1.Pod) {
	of := podContext(p).AppArmorProfile
	each(p, func(c *corev1.Container) {
		s := securityOf(c)
		if s.AppArmorProfile == nil {
			s.AppArmorProfile = annotated(p.Annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name])
		}
		if s.AppArmorProfile == nil && of != nil {
			s.AppArmorProfile = of.DeepCopy()
		}
		if a := s.AppArmorProfile; a != nil && (!n.AppArmor || isPrivileged(c)) && a.Type == corev1.AppArmorProfileTypeUnconfined {
			s.AppArmorProfile = nil
		}
	})
	p.Spec.SecurityContext.AppArmorProfile = nil
	for k := range p.Annotations {
		if strings.HasPrefix(k, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) {
			delete(p.Annotations, k)
		}
	}
}

func annotated(profile string) *corev1.AppArmorProfile {
	local, ok := strings.CutPrefix(profile, "localhost/")
	switch {
	case ok:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &local}
	case profile == "runtime/default":
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case profile == "unconfined":
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	}
	return nil
}

// effectiveSELinux leaves out what is so anyway.
func effectiveSELinux(n *translate.Node, p *corev1.Pod) {
	clean := func(o *corev1.SELinuxOptions) *corev1.SELinuxOptions {
		if o == nil || !n.SELinux {
			return nil
		}
		if o.User == "system_u" {
			o.User = ""
		}
		if o.Role == "system_r" {
			o.Role = ""
		}
		return o
	}
	podContext(p).SELinuxOptions = clean(p.Spec.SecurityContext.SELinuxOptions)
	each(p, func(c *corev1.Container) {
		s := securityOf(c)
		spoke := s.SELinuxOptions != nil && *s.SELinuxOptions != (corev1.SELinuxOptions{})
		s.SELinuxOptions = clean(s.SELinuxOptions)
		if o := s.SELinuxOptions; o != nil && *o == (corev1.SELinuxOptions{}) && spoke && n.Engine != translate.CRIO {
			// Without a word of its own it would have the pod's.
			o.Type = "container_t"
		}
		if isPrivileged(c) {
			s.SELinuxOptions = nil
		}
	})
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func eachCapabilities(p *corev1.Pod, f func(*corev1.Capabilities)) {
	each(p, func(c *corev1.Container) {
		if c.SecurityContext != nil && c.SecurityContext.Capabilities != nil {
			f(c.SecurityContext.Capabilities)
		}
	})
}

// dropAll says ALL where nothing but NET_BIND_SERVICE is left.
func dropAll(n *translate.Node, p *corev1.Pod) {
	each(p, func(c *corev1.Container) {
		if c.SecurityContext == nil || c.SecurityContext.Capabilities == nil {
			return
		}
		caps := c.SecurityContext.Capabilities
		if slices.Contains(caps.Drop, "ALL") {
			return
		}
		for _, d := range n.SpecEngine().DefaultCapabilities {
			if d != "NET_BIND_SERVICE" && !slices.Contains(caps.Drop, corev1.Capability(d)) {
				return
			}
		}
		if !slices.Contains(caps.Drop, "NET_BIND_SERVICE") && !slices.Contains(caps.Add, "NET_BIND_SERVICE") {
			caps.Add = append(caps.Add, "NET_BIND_SERVICE")
		}
		caps.Drop = []corev1.Capability{"ALL"}
	})
}

// sayNonRoot sets runAsNonRoot for every container that doesn't run as root.
func sayNonRoot(n *translate.Node, p *corev1.Pod) {
	of, all := podContext(p), true
	each(p, func(c *corev1.Container) {
		s := securityOf(c)
		uid := n.Image.UID
		if of.RunAsUser != nil {
			uid = *of.RunAsUser
		}
		if s.RunAsUser != nil {
			uid = *s.RunAsUser
		}
		if uid != 0 {
			s.RunAsNonRoot = ptr(true)
		} else {
			all = false
		}
	})
	of.RunAsNonRoot = nil
	if all {
		of.RunAsNonRoot = ptr(true)
	}
}
