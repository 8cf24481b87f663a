// Package policyschema describes NodePolicy documents for editors: types with
// the names, kinds and meanings of all fields, and the JSON Schema made of them.
// What a document means is decided by pkg/policy alone; a test holds the two
// together.
package policyschema

// NodePolicy is one policy document.
type NodePolicy struct {
	APIVersion string   `json:"apiVersion" const:"nodeadmit.dev/v1alpha1"`
	Kind       string   `json:"kind" const:"NodePolicy"`
	Metadata   Metadata `json:"metadata" doc:"The policy's name, and labels and annotations that nodeadmit doesn't read."`
	Spec       Spec     `json:"spec"`
}

// Metadata names the policy.
type Metadata struct {
	Name        string            `json:"name" pattern:"^[a-z0-9.-]{1,63}$" doc:"Name in messages, unique on the node."`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Spec says what is refused.
type Spec struct {
	Mode                string      `json:"mode,omitempty" enum:"Enforce,Audit" doc:"Audit refuses nothing and reports. Default Enforce."`
	Preset              string      `json:"preset,omitempty" enum:"privileged,baseline,restricted" doc:"Pod Security level to start from. Default privileged, which restricts nothing."`
	Version             string      `json:"version,omitempty" pattern:"^(latest|v1\\.([0-9]|[12][0-9]|3[0-7]))$" doc:"Version of the Pod Security Standards. Default latest."`
	Basis               string      `json:"basis,omitempty" enum:"Effective,Declared" doc:"What is judged: what would really run, or the pod object as Pod Security admission judges it. Default Effective."`
	OnSourceUnavailable string      `json:"onSourceUnavailable,omitempty" enum:"Effective,Deny" doc:"With basis Declared: what happens where only a bundle is at hand. Default Effective, which judges that."`
	Controls            Controls    `json:"controls,omitempty" doc:"Restrictions by name. Naming one switches it on; its settings go over the preset's."`
	Exemptions          []Exemption `json:"exemptions,omitempty" doc:"Containers that some controls don't apply to."`
	Nodes               *Nodes      `json:"nodes,omitempty" doc:"Nodes that the policy is for. Default all."`
}

// Nodes selects nodes.
type Nodes struct {
	MatchLabels map[string]string `json:"matchLabels" doc:"Labels that the node's configuration must have (nodeLabels)."`
}

// Exemption takes controls off what matches.
type Exemption struct {
	Name     string   `json:"name"`
	Match    Match    `json:"match" doc:"All that is given must match."`
	Controls []string `json:"controls" enum:"@controls" doc:"The controls that don't apply. There is no word for all."`
}

// Match says what an exemption is for. Text may have *, ? and [a-z].
type Match struct {
	Namespace      string        `json:"namespace,omitempty"`
	Pod            string        `json:"pod,omitempty"`
	Container      string        `json:"container,omitempty"`
	Image          string        `json:"image,omitempty" doc:"The reference by which the pod asks for its image. Only one with a digest holds against a cluster's admin."`
	RuntimeHandler string        `json:"runtimeHandler,omitempty" doc:"The name that the wrapper is called under."`
	StaticPod      *bool         `json:"staticPod,omitempty" doc:"The kubelet's own mark of a static pod."`
	UserNamespace  *bool         `json:"userNamespace,omitempty"`
	Args           []string      `json:"args,omitempty" doc:"All of the container's command line."`
	Mounts         []PinnedMount `json:"mounts,omitempty" doc:"All that is mounted beside the engine's, the kubelet's own and the service account's token."`
}

// PinnedMount is a mount that an exemption allows.
type PinnedMount struct {
	HostPath    string `json:"hostPath,omitempty"`
	Volume      string `json:"volume,omitempty" doc:"A pod volume's type."`
	Destination string `json:"destination"`
}

// Common are the settings that every control has.
type Common struct {
	Mode           string `json:"mode,omitempty" enum:"Enforce,Audit" doc:"Over the policy's mode."`
	OnUndetermined string `json:"onUndetermined,omitempty" enum:"Deny,Allow" doc:"What it means that the node can't tell."`
}

// Controls are all controls. See docs/controls.md.
type Controls struct {
	Privileged               *Allow           `json:"privileged,omitempty" doc:"securityContext.privileged"`
	HostPID                  *Allow           `json:"hostPID,omitempty" doc:"The host's PID namespace"`
	HostNetwork              *Allow           `json:"hostNetwork,omitempty" doc:"The host's network namespace"`
	HostIPC                  *Allow           `json:"hostIPC,omitempty" doc:"The host's IPC namespace"`
	HostPaths                *HostPaths       `json:"hostPaths,omitempty" doc:"Paths of the host that may be mounted"`
	Capabilities             *Capabilities    `json:"capabilities,omitempty" doc:"Capabilities beyond the engine's default ones"`
	Devices                  *Devices         `json:"devices,omitempty" doc:"Device nodes and rules"`
	WorkingDirectory         *Allow           `json:"workingDirectory,omitempty" doc:"Working directories in /proc/self/fd (CVE-2024-21626)"`
	RuntimeAnnotations       *Pairs           `json:"runtimeAnnotations,omitempty" doc:"Annotations that steer a runtime"`
	SysWritable              *Allow           `json:"sysWritable,omitempty" doc:"A writable /sys"`
	CgroupWritable           *Allow           `json:"cgroupWritable,omitempty" doc:"A writable cgroup filesystem"`
	ProcMount                *ProcMount       `json:"procMount,omitempty" doc:"procMount: Unmasked"`
	Sysctls                  *Sysctls         `json:"sysctls,omitempty" doc:"Kernel parameters that may be set"`
	SeccompProfile           *SeccompProfile  `json:"seccompProfile,omitempty" doc:"Seccomp profiles"`
	AppArmorProfile          *AppArmorProfile `json:"appArmorProfile,omitempty" doc:"AppArmor profiles"`
	SELinuxOptions           *SELinuxOptions  `json:"seLinuxOptions,omitempty" doc:"SELinux labels"`
	HostUsers                *Allow           `json:"hostUsers,omitempty" doc:"The host's user namespace"`
	RunAsNonRoot             *RunAsNonRoot    `json:"runAsNonRoot,omitempty" doc:"Running as root"`
	RunAsUser                *RunAsUser       `json:"runAsUser,omitempty" doc:"Users and groups"`
	AllowPrivilegeEscalation *Allow           `json:"allowPrivilegeEscalation,omitempty" doc:"Gaining privileges by exec"`
	Volumes                  *Words           `json:"volumes,omitempty" doc:"Volume types"`
	HostPorts                *Ports           `json:"hostPorts,omitempty" doc:"Ports of the node"`
	Images                   *Images          `json:"images,omitempty" doc:"Registries and digests"`
	ReadOnlyRootFilesystem   *Required        `json:"readOnlyRootFilesystem,omitempty" doc:"A writable root filesystem"`
	Environment              *Pairs           `json:"environment,omitempty" doc:"Variables that the dynamic loader obeys"`
}

// Allow permits what the control refuses.
type Allow struct {
	Common
	Allow bool `json:"allow,omitempty" example:"true"`
}

// Required asks for what the control is named after.
type Required struct {
	Common
	Required bool `json:"required,omitempty" example:"true"`
}

// HostPaths are paths that may be mounted.
type HostPaths struct {
	Common
	Allow []HostPath `json:"allow,omitempty" example:"[{pathPrefix: /var/log, readOnly: true}]"`
}

// HostPath is a path and all below it.
type HostPath struct {
	PathPrefix string `json:"pathPrefix" doc:"Absolute path; matches whole path elements."`
	ReadOnly   bool   `json:"readOnly,omitempty" doc:"The mount must be read-only throughout."`
}

// Capabilities are names without CAP_.
type Capabilities struct {
	Common
	AllowAdd    []string `json:"allowAdd,omitempty" example:"[SYS_PTRACE]" doc:"May be added, beside what the preset allows."`
	RequireDrop []string `json:"requireDrop,omitempty" example:"[ALL]" doc:"Must not be there; ALL leaves what allowAdd lists."`
}

// Devices are devices that may be used.
type Devices struct {
	Common
	Allow []Device `json:"allow,omitempty" example:"[{path: /dev/fuse}, {type: c, major: 195}]"`
}

// Device is one kind of device. What is given must match.
type Device struct {
	Path   string `json:"path,omitempty"`
	Type   string `json:"type,omitempty" enum:"c,b"`
	Major  int    `json:"major,omitempty"`
	Minor  int    `json:"minor,omitempty"`
	Access string `json:"access,omitempty" doc:"Of r, w and m at most."`
}

// Pairs are names with values.
type Pairs struct {
	Common
	Allow []Pair `json:"allow,omitempty" example:"[{name: LD_LIBRARY_PATH, value: /opt/*}]" doc:"Patterns; a plain name allows any value."`
}

// Pair is a name and a value, both patterns.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
}

// ProcMount are types of /proc mounts.
type ProcMount struct {
	Common
	Allow []string `json:"allow,omitempty" enum:"Default,Unmasked" example:"[Default, Unmasked]"`
}

// Sysctls are names; "*" at the end stands for any rest.
type Sysctls struct {
	Common
	Allow         []string `json:"allow,omitempty" example:"[net.core.somaxconn]"`
	AllowHostWide []string `json:"allowHostWide,omitempty" example:"[kernel.shm*]" doc:"Those that act on the whole node."`
}

// SeccompProfile says which profiles will do.
type SeccompProfile struct {
	Common
	Required       bool     `json:"required,omitempty" example:"true"`
	RefuseAllowAll bool     `json:"refuseAllowAll,omitempty" example:"true" doc:"A profile that lets every call through is as none."`
	Types          []string `json:"types,omitempty" enum:"RuntimeDefault,Localhost" example:"[RuntimeDefault]"`
}

// AppArmorProfile says which profiles will do.
type AppArmorProfile struct {
	Common
	Profiles      []string `json:"profiles,omitempty" example:"[cri-containerd.apparmor.d]"`
	OnHostWithout string   `json:"onHostWithout,omitempty" enum:"Allow,Deny" example:"Deny" doc:"What a node without AppArmor means."`
}

// SELinuxOptions says which labels will do.
type SELinuxOptions struct {
	Common
	Types    []string `json:"types,omitempty" example:"[container_t]"`
	Users    []string `json:"users,omitempty" example:"[system_u]"`
	Roles    []string `json:"roles,omitempty" example:"[system_r]"`
	Levels   []string `json:"levels,omitempty" example:"['s0:*']"`
	Required bool     `json:"required,omitempty" example:"true"`
}

// RunAsNonRoot refuses root.
type RunAsNonRoot struct {
	Common
	Required             bool `json:"required,omitempty" example:"true"`
	AllowInUserNamespace bool `json:"allowInUserNamespace,omitempty" example:"true"`
}

// RunAsUser are ranges of users and groups.
type RunAsUser struct {
	Common
	Ranges               []Interval `json:"ranges,omitempty" example:"[{min: 1000, max: 2000}]"`
	RunAsGroup           []Interval `json:"runAsGroup,omitempty" example:"[1000]"`
	SupplementalGroups   []Interval `json:"supplementalGroups,omitempty" example:"[1000]"`
	FSGroup              []Interval `json:"fsGroup,omitempty" example:"[1000]"`
	AllowInUserNamespace bool       `json:"allowInUserNamespace,omitempty" example:"true"`
}

// Interval is a number, or {min, max}.
type Interval struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Words are volume types.
type Words struct {
	Common
	Allow []string `json:"allow,omitempty" example:"[emptyDir]"`
}

// Ports are ports of the node.
type Ports struct {
	Common
	Allow []Interval `json:"allow,omitempty" example:"[{min: 30000, max: 32767}]"`
}

// Images says where images come from.
type Images struct {
	Common
	Registries       []string `json:"registries,omitempty" example:"[docker.io/library]"`
	DeniedRegistries []string `json:"deniedRegistries,omitempty" example:"[docker.io]"`
	RequireDigest    bool     `json:"requireDigest,omitempty" example:"true"`
	DeniedDigests    []string `json:"deniedDigests,omitempty" example:"['sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef']"`
}
