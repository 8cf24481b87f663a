package spec

import (
	"fmt"
	"reflect"
	"strings"
)

// FactRow is one fact for people: a name, a value, and where it is from.
type FactRow struct {
	Name      string `json:"name" yaml:"name"`
	Value     any    `json:"value" yaml:"value"`
	Certainty string `json:"certainty" yaml:"certainty"`
	Source    string `json:"source" yaml:"source"`
	// Forgeable is true if a pod's author could have written the value.
	Forgeable bool `json:"forgeable" yaml:"forgeable"`
}

// Text is the value on one line. An unknown value is "-".
func (r *FactRow) Text() string {
	if r.Certainty == Unknown.String() {
		return "-"
	}
	switch v := r.Value.(type) {
	case string:
		if v == "" {
			return `""`
		}
		return Quote(v)
	case []string:
		return Quote(strings.Join(v, ","))
	}
	return Quote(fmt.Sprint(r.Value))
}

func row[T any](name string, f Fact[T]) FactRow {
	r := FactRow{Name: name, Certainty: f.Certainty.String(), Source: f.Source, Forgeable: f.Forgeable, Value: f.Value}
	if f.Certainty == Unknown {
		r.Value = nil
	} else if v := reflect.ValueOf(f.Value); (v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.IsNil() {
		r.Value = reflect.MakeSlice(reflect.TypeFor[[]string](), 0, 0).Interface()
	}
	return r
}

// Facts lists everything that is known of the intent, in a fixed order.
func (in *Intent) Facts() []FactRow {
	rows := []FactRow{
		row("namespace", in.Pod.Namespace),
		row("pod", in.Pod.Name),
		row("uid", in.Pod.UID),
		row("sandboxID", in.Pod.SandboxID),
		row("container", in.Pod.Container),
		row("image", Fact[string]{in.Pod.Image.Value.Name, in.Pod.Image.Certainty, in.Pod.Image.Source, in.Pod.Image.Forgeable}),
		row("imageDigest", Fact[string]{in.Pod.Image.Value.Digest, digestCertainty(in), in.Pod.Image.Source, in.Pod.Image.Forgeable}),
		row("runtimeHandler", in.RuntimeHandler),
		row("staticPod", in.StaticPod),
		row("args", in.Args),
		row("networkNamespace", in.HostNetwork),
		row("pidNamespace", in.HostPID),
		row("ipcNamespace", in.HostIPC),
		row("sharedPID", in.SharedPID),
		row("utsNamespace", in.HostUTS),
		row("cgroupNamespace", in.HostCgroup),
		row("mountNamespace", in.HostMount),
		row("userNamespace", in.UserNamespace),
		row("privileged", in.Privileged),
		row("capabilities", Fact[[]string]{in.Capabilities.Value.All, in.Capabilities.Certainty, in.Capabilities.Source, false}),
		row("addedCapabilities", Fact[[]string]{in.Capabilities.Value.Added, in.Capabilities.Certainty, in.Capabilities.Value.Field, false}),
		row("seccomp", in.Seccomp),
		row("seccompType", in.SeccompType),
		row("appArmorProfile", in.AppArmor),
		row("appArmorHost", in.AppArmorHost),
		row("seLinuxLabel", in.SELinux),
		row("maskedPaths", in.MaskedPaths),
		row("readonlyPaths", in.ReadOnly),
		row("procUnmasked", in.ProcUnmasked),
		row("noNewPrivileges", in.NoNewPrivileges),
		row("runAsUser", in.UID),
		row("runAsGroup", in.GID),
		row("supplementalGroups", in.AdditionalGIDs),
		row("readOnlyRootFilesystem", in.ReadOnlyRoot),
		row("rootPath", in.RootPath),
		row("workingDirectory", in.Cwd),
		row("sysctls", in.Sysctls),
		row("allowAllDevices", in.AllowAllDevices),
		row("sysWritable", in.SysWritable),
		row("cgroupWritable", in.CgroupWritable),
		row("hostPorts", in.HostPorts),
	}
	for _, m := range in.UIDMappings {
		rows = append(rows, row("uidMapping", known(fmt.Sprintf("%d %d %d", m.ContainerID, m.HostID, m.Size), "linux.uidMappings")))
	}
	for _, m := range in.GIDMappings {
		rows = append(rows, row("gidMapping", known(fmt.Sprintf("%d %d %d", m.ContainerID, m.HostID, m.Size), "linux.gidMappings")))
	}
	for _, d := range in.Pod.Image.Value.RepoDigests {
		rows = append(rows, row("imageRepoDigest", known(d, crioRepoDigests)))
	}
	for _, s := range in.PrivilegedSigns {
		rows = append(rows, row("privilegedSign", known(s.Name, s.Field)))
	}
	for _, d := range in.Devices {
		rows = append(rows, row("device", known(fmt.Sprintf("%s %s %d:%d %s", d.Path, d.Type, d.Major, d.Minor, d.Access), d.Field)))
	}
	for _, v := range in.LoaderVariables {
		rows = append(rows, row("loaderVariable", Fact[string]{v.Name + "=" + v.Value, Known, v.Field, true}))
	}
	for _, a := range in.UnsafeAnnotation {
		rows = append(rows, row("runtimeAnnotation", Fact[string]{a.Key + "=" + a.Value, Known, "annotations", true}))
	}
	for i := range in.Mounts {
		m := &in.Mounts[i]
		text := m.Destination + " " + string(m.Class)
		if m.Volume != "" {
			text += "(" + m.Volume + ")"
		}
		if m.Path() != "" {
			text += " from " + m.Path()
		}
		if m.ReadOnly {
			text += " ro"
		}
		rows = append(rows, row("mount", Fact[string]{text, m.Certainty, m.Field, false}))
	}
	return rows
}

// digestCertainty is Known only for a digest that the reference itself has: a
// tag says nothing of what it points to.
func digestCertainty(in *Intent) Certainty {
	if in.Pod.Image.Value.Digest == "" {
		return Unknown
	}
	return in.Pod.Image.Certainty
}
