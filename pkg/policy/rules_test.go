package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// ruleTest is one judgement of one control.
type ruleTest struct {
	// level and version are the preset; settings are the control's own, as
	// YAML, and none if they are "".
	level    Level
	version  string
	settings string
	// engine is containerd and kind is container if they are left out.
	engine spec.Dialect
	kind   spec.Kind
	// change makes of a plain container what the test is about.
	change func(*specs.Spec)
	host   spec.Host
	want   Result
	// says is a part of what the control says, and "" if it must say nothing.
	says string
}

func runRuleTests(t *testing.T, control string, tests map[string]ruleTest) {
	t.Helper()
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := rulePolicy(t, c.level, c.version, control, c.settings)
			in := ruleIntent(t, c)
			result, text := Satisfied, ""
			for _, a := range p.active {
				if a.control.Name != control {
					continue
				}
				for _, f := range a.rule.evaluate(in) {
					if f.result == Violated || f.result == Undetermined && result == Satisfied {
						result = f.result
					}
					if f.field == "" || f.what == "" {
						t.Errorf("a finding without field or text: %+v", f)
					}
					if (f.result == Satisfied) != f.assumed {
						t.Errorf("a note that is no assumption: %+v", f)
					}
					text += f.what + "\n"
				}
			}
			if result != c.want {
				t.Errorf("result is %v, want %v:\n%s", result, c.want, text)
			}
			if !strings.Contains(text, c.says) || c.says == "" && text != "" {
				t.Errorf("it says %q, want %q", text, c.says)
			}
		})
	}
}

func (r Result) String() string { return [...]string{"Satisfied", "Violated", "Undetermined"}[r] }

func rulePolicy(t testing.TB, level Level, version, control, settings string) *Policy {
	t.Helper()
	if level == "" {
		level = Privileged
	}
	if version == "" {
		version = "latest"
	}
	text := fmt.Sprintf("apiVersion: %s\nkind: NodePolicy\nmetadata: {name: p}\nspec:\n  preset: %s\n  version: %s\n", APIVersion, level, version)
	if settings != "" {
		text += "  controls:\n    " + control + ": " + settings + "\n"
	}
	policies, err := Parse("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return policies[0]
}

func ruleIntent(t testing.TB, c ruleTest) *spec.Intent {
	t.Helper()
	if c.engine == "" {
		c.engine = spec.Containerd
	}
	if c.kind == "" {
		c.kind = spec.KindContainer
	}
	s := plainSpec(c.engine, c.kind)
	if c.change != nil {
		c.change(s)
	}
	in, err := spec.Map(&spec.Document{Spec: s}, spec.Options{Engine: spec.NewEngine(c.engine), Host: c.host})
	if err != nil {
		t.Fatal(err)
	}
	if in.Kind != c.kind {
		t.Fatalf("it is a %s, want %s", in.Kind, c.kind)
	}
	return in
}

const (
	testUID     = "00000000-0000-4000-8000-000000000001"
	testSandbox = "5a"
	testVolumes = "/var/lib/kubelet/pods/" + testUID + "/volumes/"
)

// plainSpec is what an engine writes for a pod that asks for nothing, of an
// image with user 1000, in a pod with the profile RuntimeDefault.
func plainSpec(engine spec.Dialect, kind spec.Kind) *specs.Spec {
	caps := []string{"CAP_CHOWN", "CAP_KILL", "CAP_NET_BIND_SERVICE"}
	s := &specs.Spec{
		Version: "1.3.0",
		Root:    &specs.Root{Path: "/run/rootfs"},
		Process: &specs.Process{
			Cwd: "/", Args: []string{"/app"}, Env: []string{"PATH=/bin"}, User: specs.User{UID: 1000, GID: 1000, AdditionalGids: []uint32{1000}},
			Capabilities: &specs.LinuxCapabilities{Bounding: caps, Effective: caps, Permitted: caps},
		},
		Linux: &specs.Linux{
			Seccomp:       &specs.LinuxSeccomp{DefaultAction: specs.ActErrno},
			MaskedPaths:   []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
			Resources:     &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: false, Access: "rwm"}}},
			Namespaces: []specs.LinuxNamespace{
				{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace, Path: "/proc/42/ns/ipc"}, {Type: specs.UTSNamespace, Path: "/proc/42/ns/uts"},
				{Type: specs.MountNamespace}, {Type: specs.NetworkNamespace, Path: "/proc/42/ns/net"}, {Type: specs.CgroupNamespace},
			},
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"ro"}},
			{Destination: "/sys/fs/cgroup", Type: "cgroup", Source: "cgroup", Options: []string{"ro"}},
		},
	}
	switch {
	case kind == spec.KindUnmanaged:
	case engine == spec.Containerd:
		s.Annotations = map[string]string{
			"io.kubernetes.cri.container-type": string(kind), "io.kubernetes.cri.sandbox-id": testSandbox,
			"io.kubernetes.cri.sandbox-name": "web", "io.kubernetes.cri.sandbox-namespace": "team-a", "io.kubernetes.cri.sandbox-uid": testUID,
		}
		if kind == spec.KindContainer {
			s.Annotations["io.kubernetes.cri.container-name"] = "app"
			s.Annotations["io.kubernetes.cri.image-name"] = "registry.example/app:1"
		}
	case engine == spec.CRIO:
		s.Annotations = map[string]string{
			"io.kubernetes.pod.name": "web", "io.kubernetes.pod.namespace": "team-a", "io.kubernetes.pod.uid": testUID,
			"io.kubernetes.container.name": "POD", "io.kubernetes.cri-o.SandboxID": testSandbox,
		}
		if kind == spec.KindContainer {
			s.Annotations["io.kubernetes.container.name"] = "app"
			s.Annotations["io.kubernetes.cri-o.Image"] = "registry.example/app:1"
		}
	}
	return s
}

// changes are the small ones that several tables share.
func bind(destination, source string) func(*specs.Spec) {
	return func(s *specs.Spec) {
		s.Mounts = append(s.Mounts, specs.Mount{Destination: destination, Type: "bind", Source: source, Options: []string{"rbind", "rw"}})
	}
}

func annotate(key, value string) func(*specs.Spec) {
	return func(s *specs.Spec) { s.Annotations[key] = value }
}

func userNamespaceOf(maps ...specs.LinuxIDMapping) func(*specs.Spec) {
	return func(s *specs.Spec) {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: specs.UserNamespace})
		s.Linux.UIDMappings, s.Linux.GIDMappings = maps, maps
	}
}

var podUsers = userNamespaceOf(specs.LinuxIDMapping{ContainerID: 0, HostID: 65536, Size: 65536})

func both(changes ...func(*specs.Spec)) func(*specs.Spec) {
	return func(s *specs.Spec) {
		for _, c := range changes {
			c(s)
		}
	}
}

func hostNamespaceOf(t specs.LinuxNamespaceType) func(*specs.Spec) {
	return func(s *specs.Spec) {
		var kept []specs.LinuxNamespace
		for _, ns := range s.Linux.Namespaces {
			if ns.Type != t {
				kept = append(kept, ns)
			}
		}
		s.Linux.Namespaces = kept
	}
}

func noProcess(s *specs.Spec) { s.Process = nil }

func asPrivileged(s *specs.Spec) {
	s.Linux.Seccomp, s.Linux.MaskedPaths, s.Linux.ReadonlyPaths = nil, nil, nil
	s.Mounts[1].Options, s.Mounts[2].Options = []string{"rw"}, []string{"rw"}
	s.Linux.Resources.Devices = append(s.Linux.Resources.Devices, specs.LinuxDeviceCgroup{Allow: true, Access: "rwm"})
}

// machine is a host of which only AppArmor and one mount matter.
type machine struct {
	spec.Host
	appArmor    bool
	appArmorErr error
	bound       map[string][]string
	files       map[string]string
}

func (m machine) AppArmor() (bool, error)             { return m.appArmor, m.appArmorErr }
func (m machine) Resolve(path string) (string, error) { return path, nil }
func (m machine) BoundFrom(path string) []string      { return m.bound[path] }
func (m machine) ReadFile(path string) ([]byte, error) {
	if text, ok := m.files[path]; ok {
		return []byte(text), nil
	}
	return nil, errors.New("no such file")
}
func (m machine) Namespace(path string) (spec.NamespaceID, error) {
	return spec.NamespaceID{Ino: 2}, nil
}
func (m machine) HostNamespaces(specs.LinuxNamespaceType) ([]spec.NamespaceID, error) {
	return []spec.NamespaceID{{Ino: 1}}, nil
}
