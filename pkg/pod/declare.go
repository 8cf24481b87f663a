package pod

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// Declare puts a pod object, with the API's defaults, in the words of policies:
// what each of its containers declares (init, then others, then ephemeral ones),
// and what upstream says of it.
//
// What a pod doesn't say is unknown: the user of its image, devices of device
// plugins, environment from other objects, its runtime handler, the command line if
// it is the image's, whether it is a static pod.
// Volumes that no container mounts are the first container's.
func (e *Evaluator) Declare(p *corev1.Pod) *policy.DeclaredPod {
	out := &policy.DeclaredPod{}
	all := containers(&p.Spec)
	for i := range all {
		out.Containers = append(out.Containers, declare(p, all, i))
	}
	out.Upstream = func(level policy.Level, version policy.Version, only int) []policy.FailedCheck {
		q := p
		if only >= 0 {
			q = alone(p, all[only].container)
		}
		var list []policy.FailedCheck
		for _, f := range e.Evaluate(q, level, version) {
			text := f.Reason
			if f.Detail != "" {
				text += " (" + f.Detail + ")"
			}
			list = append(list, policy.FailedCheck{Check: f.Check, Controls: f.Controls, Text: text})
		}
		return list
	}
	return out
}

// placed is a container and its place in the pod.
type placed struct {
	container *corev1.Container
	path      string // "spec.containers[0]"
}

func containers(s *corev1.PodSpec) []placed {
	var out []placed
	for i := range s.InitContainers {
		out = append(out, placed{&s.InitContainers[i], fmt.Sprintf("spec.initContainers[%d]", i)})
	}
	for i := range s.Containers {
		out = append(out, placed{&s.Containers[i], fmt.Sprintf("spec.containers[%d]", i)})
	}
	for i := range s.EphemeralContainers {
		c := (*corev1.Container)(&s.EphemeralContainers[i].EphemeralContainerCommon)
		out = append(out, placed{c, fmt.Sprintf("spec.ephemeralContainers[%d]", i)})
	}
	return out
}

// alone is the pod with one of its containers.
func alone(p *corev1.Pod, c *corev1.Container) *corev1.Pod {
	q := *p
	q.Spec.InitContainers, q.Spec.EphemeralContainers = nil, nil
	q.Spec.Containers = []corev1.Container{*c}
	return &q
}

func said[T any](v T, path string) spec.Fact[T] {
	return spec.Fact[T]{Value: v, Certainty: spec.Known, Source: path, Forgeable: true}
}

func unsaid[T any](path string) spec.Fact[T] { return spec.Fact[T]{Source: path} }

// declaration reads one container's declared intent.
type declaration struct {
	pod  *corev1.Pod
	c    *corev1.Container
	path string
	in   *spec.Intent
}

func declare(p *corev1.Pod, all []placed, i int) *spec.Intent {
	d := &declaration{pod: p, c: all[i].container, path: all[i].path, in: &spec.Intent{Kind: spec.KindContainer, Engine: spec.NewEngine(spec.Containerd)}}
	d.identity()
	d.namespaces()
	d.process()
	d.profiles()
	d.rest()
	d.mounts(all, i == 0)
	return d.in
}

func (d *declaration) context() (*corev1.SecurityContext, *corev1.PodSecurityContext) {
	own, of := d.c.SecurityContext, d.pod.Spec.SecurityContext
	if own == nil {
		own = &corev1.SecurityContext{}
	}
	if of == nil {
		of = &corev1.PodSecurityContext{}
	}
	return own, of
}

func (d *declaration) identity() {
	id := &d.in.Pod
	// Names are the object's own: a pod's author may choose them, within what the
	// API server lets him.
	known := func(v, path string) spec.Fact[string] {
		return spec.Fact[string]{Value: v, Certainty: spec.Known, Source: path}
	}
	id.Namespace, id.Name = known(d.pod.Namespace, "metadata.namespace"), known(d.pod.Name, "metadata.name")
	id.UID, id.Container = known(string(d.pod.UID), "metadata.uid"), known(d.c.Name, d.path+".name")
	image := spec.Image{Name: d.c.Image}
	if _, digest, ok := strings.Cut(d.c.Image, "@"); ok {
		image.Digest = digest
	}
	id.Image = spec.Fact[spec.Image]{Value: image, Certainty: spec.Known, Source: d.path + ".image"}
	d.in.RuntimeHandler = unsaid[string]("spec.runtimeClassName")
	d.in.StaticPod = unsaid[bool]("metadata.annotations")
	d.in.Args = unsaid[[]string](d.path + ".command") // or the image's
	args := slices.Concat(d.c.Command, d.c.Args)
	expanded := func(s string) bool { return strings.Contains(s, "$(") } // by the kubelet
	if len(d.c.Command) > 0 && !slices.ContainsFunc(args, expanded) {
		d.in.Args = said(args, d.path+".command")
	}
}

func (d *declaration) namespaces() {
	s := &d.pod.Spec
	mode := func(host bool, path string) spec.Fact[spec.NamespaceMode] {
		if host {
			return said(spec.NamespaceHost, path)
		}
		return said(spec.NamespaceShared, path)
	}
	in := d.in
	in.HostNetwork, in.HostUTS = mode(s.HostNetwork, "spec.hostNetwork"), mode(s.HostNetwork, "spec.hostNetwork")
	in.HostPID, in.HostIPC = mode(s.HostPID, "spec.hostPID"), mode(s.HostIPC, "spec.hostIPC")
	in.UserNamespace = mode(s.HostUsers == nil || *s.HostUsers, "spec.hostUsers")
	in.HostCgroup, in.HostMount = said(spec.NamespaceNew, "spec"), said(spec.NamespaceNew, "spec")
}

func (d *declaration) process() {
	in := d.in
	sc, pod := d.context()
	ctx := d.path + ".securityContext."
	in.Privileged = said(sc.Privileged != nil && *sc.Privileged, ctx+"privileged")
	if in.Privileged.Value {
		in.PrivilegedSigns = []spec.Sign{{Name: "securityContext.privileged", Field: ctx + "privileged"}}
	}
	in.NoNewPrivileges = said(sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation, ctx+"allowPrivilegeEscalation")
	in.ReadOnlyRoot = said(sc.ReadOnlyRootFilesystem != nil && *sc.ReadOnlyRootFilesystem, ctx+"readOnlyRootFilesystem")
	in.Capabilities = said(d.capabilities(sc.Capabilities, ctx+"capabilities.add"), ctx+"capabilities")
	in.UID, in.GID = unsaid[uint32](ctx+"runAsUser"), unsaid[uint32](ctx+"runAsGroup")
	if id := first64(sc.RunAsUser, pod.RunAsUser); id != nil {
		in.UID = said(uint32(*id), ctx+"runAsUser")
	}
	if id := first64(sc.RunAsGroup, pod.RunAsGroup); id != nil {
		in.GID = said(uint32(*id), ctx+"runAsGroup")
	}
	var groups []uint32
	for _, g := range pod.SupplementalGroups {
		groups = append(groups, uint32(g))
	}
	if pod.FSGroup != nil {
		groups = append(groups, uint32(*pod.FSGroup))
	}
	in.AdditionalGIDs = said(groups, "spec.securityContext.supplementalGroups")
	in.Cwd = spec.Fact[string]{Value: "/", Certainty: spec.Assumed, Source: d.path + ".workingDir"} // else the image's
	if d.c.WorkingDir != "" {
		in.Cwd = said(d.c.WorkingDir, d.path+".workingDir")
	}
	for i, v := range d.c.Env {
		if strings.HasPrefix(v.Name, "LD_") && v.ValueFrom == nil {
			in.LoaderVariables = append(in.LoaderVariables, spec.Variable{Name: v.Name, Value: v.Value, Field: fmt.Sprintf("%s.env[%d]", d.path, i)})
		}
	}
}

func first64(a, b *int64) *int64 {
	if a != nil {
		return a
	}
	return b
}

// capabilities are what the container asks for, over containerd's default.
// Added is what it names, whether the engine gives that anyway or not.
func (d *declaration) capabilities(c *corev1.Capabilities, field string) spec.Capabilities {
	out := spec.Capabilities{Field: field}
	if c == nil {
		c = &corev1.Capabilities{}
	}
	dropped := map[string]bool{}
	for _, name := range c.Drop {
		dropped[spec.CapabilityName(string(name))] = true
	}
	add := func(name string) {
		if !slices.Contains(out.All, name) && !dropped[name] {
			out.All = append(out.All, name)
		}
	}
	if !dropped["ALL"] {
		for _, name := range d.in.Engine.DefaultCapabilities {
			add(name)
		}
	}
	for _, name := range c.Add {
		name := spec.CapabilityName(string(name))
		if !slices.Contains(out.Added, name) {
			out.Added = append(out.Added, name)
		}
		add(name)
	}
	slices.Sort(out.All)
	slices.Sort(out.Added)
	return out
}

func (d *declaration) profiles() {
	in := d.in
	sc, pod := d.context()
	ctx := d.path + ".securityContext."
	seccomp := sc.SeccompProfile
	if seccomp == nil {
		seccomp = pod.SeccompProfile
	}
	in.Seccomp, in.SeccompType = said(spec.SeccompNone, ctx+"seccompProfile"), unsaid[string](ctx+"seccompProfile")
	if seccomp != nil && seccomp.Type != corev1.SeccompProfileTypeUnconfined {
		in.Seccomp = said(spec.SeccompProfile, ctx+"seccompProfile.type")
		in.SeccompType = said(string(seccomp.Type), ctx+"seccompProfile.type")
	}
	in.AppArmor, in.AppArmorHost = said(d.appArmor(sc, pod), ctx+"appArmorProfile"), said(true, "spec")
	in.SELinux = said(seLinuxLabel(sc.SELinuxOptions, pod.SELinuxOptions), ctx+"seLinuxOptions")
	in.ProcUnmasked = said(sc.ProcMount != nil && *sc.ProcMount == corev1.UnmaskedProcMount, ctx+"procMount")
}

// appArmor is the name of the profile, "" for none. RuntimeDefault, which is
// also what a container has that asks for nothing, is "runtime/default".
func (d *declaration) appArmor(sc *corev1.SecurityContext, pod *corev1.PodSecurityContext) string {
	a := sc.AppArmorProfile
	if a == nil {
		profile, ok := d.pod.Annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+d.c.Name]
		if ok {
			local, _ := strings.CutPrefix(profile, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
			return local
		}
		a = pod.AppArmorProfile
	}
	switch {
	case a == nil:
	case a.Type == corev1.AppArmorProfileTypeUnconfined:
		return ""
	case a.Type == corev1.AppArmorProfileTypeLocalhost && a.LocalhostProfile != nil:
		return *a.LocalhostProfile
	}
	return corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
}

// seLinuxLabel has what engines set where the pod says nothing.
func seLinuxLabel(own, of *corev1.SELinuxOptions) string {
	if own == nil {
		own = of
	}
	o := corev1.SELinuxOptions{User: "system_u", Role: "system_r", Type: "container_t"}
	if own != nil {
		for _, f := range []struct {
			to *string
			v  string
		}{{&o.User, own.User}, {&o.Role, own.Role}, {&o.Type, own.Type}, {&o.Level, own.Level}} {
			if f.v != "" {
				*f.to = f.v
			}
		}
	}
	return strings.Join([]string{o.User, o.Role, o.Type, o.Level}, ":")
}

func (d *declaration) rest() {
	in := d.in
	_, pod := d.context()
	sysctls := map[string]string{}
	for _, s := range pod.Sysctls {
		sysctls[spec.SysctlName(s.Name)] = s.Value
	}
	in.Sysctls = said(sysctls, "spec.securityContext.sysctls")
	var ports []int
	for _, p := range d.c.Ports {
		if p.HostPort != 0 {
			ports = append(ports, int(p.HostPort))
		}
	}
	in.HostPorts = said(ports, d.path+".ports")
	in.AllowAllDevices = said(false, d.path)
	in.SysWritable, in.CgroupWritable = unsaid[bool]("spec"), unsaid[bool]("spec")
	for k, v := range d.pod.Annotations {
		if spec.SteersRuntime(k) {
			in.UnsafeAnnotation = append(in.UnsafeAnnotation, spec.Annotation{Key: k, Value: v})
		}
	}
	slices.SortFunc(in.UnsafeAnnotation, func(a, b spec.Annotation) int { return strings.Compare(a.Key, b.Key) })
}

// mounts are the container's, and with others those of volumes that nobody
// mounts.
func (d *declaration) mounts(all []placed, others bool) {
	mounted := map[string]bool{}
	for _, c := range all {
		for _, m := range c.container.VolumeMounts {
			mounted[m.Name] = true
		}
	}
	for i := range d.pod.Spec.Volumes {
		v := &d.pod.Spec.Volumes[i]
		field := fmt.Sprintf("spec.volumes[%d]", i)
		for j := range d.c.VolumeMounts {
			m := &d.c.VolumeMounts[j]
			if m.Name != v.Name {
				continue
			}
			deep := m.RecursiveReadOnly != nil && *m.RecursiveReadOnly == corev1.RecursiveReadOnlyEnabled
			d.in.Mounts = append(d.in.Mounts, declaredMount(v, field, m.MountPath, m.ReadOnly, deep))
		}
		if others && !mounted[v.Name] {
			d.in.Mounts = append(d.in.Mounts, declaredMount(v, field, "volume "+v.Name, true, true))
		}
	}
}

func declaredMount(v *corev1.Volume, field, destination string, readOnly, deep bool) spec.Mount {
	m := spec.Mount{
		Destination: destination, Bind: true, Class: spec.MountVolume, Volume: VolumeType(v), ReadOnly: readOnly, RecursiveReadOnly: deep,
		Field: field, Certainty: spec.Known,
	}
	if v.HostPath != nil {
		m.Class, m.Volume, m.Source = spec.MountHostPath, "", v.HostPath.Path
	}
	return m
}
