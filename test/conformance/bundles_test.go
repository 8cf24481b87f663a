package conformance

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/nodeadmit/nodeadmit/test/conformance/translate"
)

const fixtures = "../testdata"

// TestTranslationOfRealRequests makes of the requests that real engines were
// given what they made of them: all of config.json but ids, process numbers, the
// environment and the contents of seccomp profiles.
func TestTranslationOfRealRequests(t *testing.T) {
	for dir, e := range map[string]translate.Engine{
		"containerd/1.6.20": translate.Containerd1, "containerd/2.4.2": translate.Containerd2, "crio/1.37.0": translate.CRIO,
	} {
		cases, err := filepath.Glob(filepath.Join(fixtures, dir, "*", "pod.json"))
		if err != nil || len(cases) == 0 {
			t.Fatalf("%s: no cases: %v", dir, err)
		}
		for _, c := range cases {
			c = filepath.Dir(c)
			t.Run(string(e)+"/"+filepath.Base(c), func(t *testing.T) { realRequest(t, e, c) })
		}
	}
}

func realRequest(t *testing.T, e translate.Engine, dir string) {
	n, sandbox := realNode(e, filepath.Base(dir)), &cri.PodSandboxConfig{}
	readRequest(t, filepath.Join(dir, "pod.json"), sandbox)
	want := readSpec(t, filepath.Join(dir, "sandbox.config.json"))
	who := identity(want)
	n.NetNS = netNS(want, e)
	compare(t, "sandbox", e, want, of(n, sandbox, nil, who, "", t))
	for _, name := range []string{"container", "debugger"} {
		config := &cri.ContainerConfig{}
		file := filepath.Join(dir, name+".config.json")
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		readRequest(t, filepath.Join(dir, name+".json"), config)
		want := readSpec(t, file)
		who.PID = sandboxPID(want)
		id := want.Linux.CgroupsPath[strings.LastIndexAny(want.Linux.CgroupsPath, "/-")+1:]
		compare(t, name, e, want, of(n, sandbox, config, who, id, t))
	}
}

func of(n *translate.Node, sb *cri.PodSandboxConfig, c *cri.ContainerConfig, who translate.Identity, id string, t *testing.T) *specs.Spec {
	t.Helper()
	var s *specs.Spec
	var err error
	switch {
	case n.Engine == translate.CRIO && c == nil:
		s = n.CRIOSandbox(sb, who)
	case n.Engine == translate.CRIO:
		s, err = n.CRIOContainer(sb, c, who, id)
	case c == nil:
		s = n.ContainerdSandbox(sb, who)
	default:
		s, err = n.ContainerdContainer(sb, c, who, id)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// realNode is the machine on which the cases were recorded.
func realNode(e translate.Engine, name string) *translate.Node {
	n := translate.NewNode(e)
	n.AppArmor, n.SELinux, n.CgroupV2 = false, false, false
	n.Image = translate.Image{
		Args: []string{"/bin/sleep", "1000"}, Cwd: "/", Users: map[string][2]int64{"app": {1000, 1000}, "root": {0, 0}},
		Env: []string{"PATH=/bin"},
	}
	n.Links = map[string]string{"/srv/data/evil-link": "/etc"}
	if e == translate.CRIO {
		n.Pause = translate.Image{Name: "localhost/pause:1", Args: []string{"/bin/sleep", "2147483647"}}
		return n
	}
	n.NetNS = "/run/containerd/io.containerd.grpc.v1.cri/netns"
	// The engine itself lacked one.
	n.AllCapabilities = slices.DeleteFunc(slices.Clone(n.AllCapabilities), func(c string) bool { return c == "CAP_SYS_RESOURCE" })
	switch name {
	case "image-user-nonroot":
		n.Image.UID, n.Image.GID = 1000, 1000
	case "privileged-nodevices":
		n.PrivilegedWithoutHostDevices = true
	case "annotations-passed-some":
		n.PodAnnotations, n.ContainerAnnotations = []string{"policy.example.com/"}, []string{"container.example.com/"}
	case "static-pod-annotations-passed":
		n.PodAnnotations, n.ContainerAnnotations = []string{""}, []string{""}
	}
	return n
}

// readRequest reads a request as crictl writes it, with plain text for bytes.
func readRequest(t *testing.T, file string, into any) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var raw map[string]any
	if err := json.Unmarshal(data, &raw); err != nil {
		t.Fatal(err)
	}
	if list, ok := raw["envs"].([]any); ok {
		for _, e := range list {
			e := e.(map[string]any)
			e["value"] = base64.StdEncoding.EncodeToString([]byte(e["value"].(string)))
		}
	}
	if data, err = json.Marshal(raw); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

func readSpec(t *testing.T, file string) *specs.Spec {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	s := &specs.Spec{}
	if err := json.Unmarshal(data, s); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return s
}

// identity finds in a sandbox's document what its engine made up.
func identity(s *specs.Spec) translate.Identity {
	who := translate.Identity{Sandbox: s.Linux.CgroupsPath[strings.LastIndexAny(s.Linux.CgroupsPath, "/-")+1:]}
	for _, n := range s.Linux.Namespaces {
		if n.Type == specs.NetworkNamespace && n.Path != "" {
			who.Namespaces = strings.TrimPrefix(filepath.Base(n.Path), "cni-")
		}
	}
	return who
}

func netNS(s *specs.Spec, e translate.Engine) string {
	for _, n := range s.Linux.Namespaces {
		if n.Type == specs.NetworkNamespace && n.Path != "" {
			if dir := filepath.Dir(n.Path); e != translate.CRIO {
				return dir
			}
			return filepath.Dir(filepath.Dir(n.Path))
		}
	}
	return ""
}

// sandboxPID finds the sandbox's process in a container's document.
func sandboxPID(s *specs.Spec) int {
	for _, n := range s.Linux.Namespaces {
		p := strings.Split(n.Path, "/")
		if len(p) == 5 && p[1] == "proc" && (n.Type == specs.NetworkNamespace || n.Type == specs.PIDNamespace) {
			pid, _ := strconv.Atoi(p[2])
			if n.Type == specs.NetworkNamespace {
				return pid
			}
			if !slices.ContainsFunc(s.Linux.Namespaces, func(n specs.LinuxNamespace) bool {
				return n.Type == specs.NetworkNamespace && strings.HasPrefix(n.Path, "/proc/")
			}) {
				return pid
			}
		}
	}
	return 0
}

// compare holds a translation to a real document.
func compare(t *testing.T, what string, e translate.Engine, want, got *specs.Spec) {
	t.Helper()
	if diff := cmp.Diff(normal(want, e), normal(got, e)); diff != "" {
		t.Errorf("%s (-real +translated):\n%s", what, diff)
	}
}

// normal returns a document as generic JSON without what no translation knows.
func normal(s *specs.Spec, e translate.Engine) map[string]any {
	s = clone(s)
	s.Process.Env = nil
	s.Process.OOMScoreAdj = nil // 0 and -998 of sandboxes, see testdata/containerd/README.md
	if s.Linux.Seccomp != nil {
		s.Linux.Seccomp = &specs.LinuxSeccomp{DefaultAction: action(s.Linux.Seccomp.DefaultAction)}
	}
	// The devices of the machine.
	if d := s.Linux.Resources.Devices; len(d) == 1 && d[0].Allow && d[0].Type == "" {
		s.Linux.Devices = []specs.LinuxDevice{{Path: "all of the node"}}
	}
	for i := range s.Linux.Devices {
		s.Linux.Devices[i].FileMode, s.Linux.Devices[i].UID, s.Linux.Devices[i].GID = nil, nil, nil
	}
	for i, n := range s.Linux.Namespaces {
		if p := strings.Split(n.Path, "/"); n.Type == specs.PIDNamespace && len(p) == 5 && len(p[2]) != 64 {
			s.Linux.Namespaces[i].Path = "/proc/PID/ns/pid"
		} else if len(p) == 5 && n.Type == specs.PIDNamespace {
			s.Linux.Namespaces[i].Path = "/proc/PID/ns/pid" // a target, which a request names by id
		}
	}
	for i := range s.Mounts {
		if dir, image := filepath.Split(s.Mounts[i].Source); strings.Contains(dir, "/image-volumes/") && len(image) == 64 {
			s.Mounts[i].Source = dir + "IMAGE"
		}
		if len(s.Mounts[i].UIDMappings) == 0 {
			s.Mounts[i].UIDMappings, s.Mounts[i].GIDMappings = nil, nil
		}
	}
	slices.SortFunc(s.Linux.Namespaces, func(a, b specs.LinuxNamespace) int { return strings.Compare(string(a.Type), string(b.Type)) })
	for _, k := range []string{"io.kubernetes.cri.image-name", "io.kubernetes.cri.podsandbox.image-name"} {
		if _, ok := s.Annotations[k]; ok {
			s.Annotations[k] = "IMAGE" // 1.6 has any name of it, a request by id has none
		}
	}
	switch e {
	case translate.CRIO:
		normalCRIO(s)
	case translate.Containerd1:
		// 1.6 sorts binds by depth, and those of one depth anyhow.
		binds := slices.IndexFunc(s.Mounts, func(m specs.Mount) bool { return m.Type == "bind" })
		slices.SortFunc(s.Mounts[binds:], func(a, b specs.Mount) int { return strings.Compare(a.Destination, b.Destination) })
	}
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		panic(err)
	}
	return out
}

// normalCRIO leaves out what CRI-O writes for people, and what decides nothing.
func normalCRIO(s *specs.Spec) {
	s.Root.Path, s.Linux.Resources.CPU, s.Linux.Resources.Memory, s.Linux.Resources.Pids = "", nil, nil, nil
	for k := range s.Annotations {
		switch name, own := strings.CutPrefix(k, "io.kubernetes.cri-o."); {
		case !own && !strings.HasPrefix(k, "io.kubernetes.") || k == "io.kubernetes.pod.terminationGracePeriod":
			if k != "kubernetes.io/config.source" {
				delete(s.Annotations, k)
			}
		case own && !slices.Contains([]string{"ContainerType", "SandboxID", "Image", "SeccompProfilePath", "PrivilegedRuntime", "HostNetwork", "Namespace", "KubeName"}, name):
			delete(s.Annotations, k)
		}
	}
	for i := range s.Mounts {
		slices.Sort(s.Mounts[i].Options)
	}
	slices.SortStableFunc(s.Mounts, func(a, b specs.Mount) int { return strings.Compare(a.Destination, b.Destination) })
	s.Mounts = slices.DeleteFunc(s.Mounts, func(m specs.Mount) bool {
		// Made where the image's passwd doesn't know the user.
		return m.Destination == "/etc/passwd" || m.Destination == "/etc/group"
	})
}

func action(a specs.LinuxSeccompAction) specs.LinuxSeccompAction {
	if a == specs.ActAllow {
		return specs.ActErrno // a profile of a test's
	}
	return a
}

func clone(s *specs.Spec) *specs.Spec {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	out := &specs.Spec{}
	if err := json.Unmarshal(data, out); err != nil {
		panic(err)
	}
	return out
}
