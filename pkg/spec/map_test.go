package spec

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

const (
	testUID     = "6b7f9a2e-0000-4000-8000-000000000001"
	testSandbox = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	testID      = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// containerSpec is a container of team-a/web as containerd writes one.
func containerSpec() *specs.Spec {
	return &specs.Spec{
		Version: "1.2.0",
		Root:    &specs.Root{Path: "rootfs"},
		Process: &specs.Process{Args: []string{"/app"}, Cwd: "/", Capabilities: &specs.LinuxCapabilities{}},
		Annotations: map[string]string{
			containerdType: "container", containerdSandboxID: testSandbox, containerdName: "web",
			containerdNamespace: "team-a", containerdUID: testUID, containerdContainer: "app", containerdImage: "app:1",
		},
		Linux: &specs.Linux{
			CgroupsPath:   "/kubepods/pod" + testUID + "/" + testID,
			MaskedPaths:   []string{"/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware"},
			ReadonlyPaths: []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"},
			Namespaces: []specs.LinuxNamespace{
				{Type: "pid"}, {Type: "ipc", Path: "/proc/77/ns/ipc"}, {Type: "uts", Path: "/proc/77/ns/uts"},
				{Type: "mount"}, {Type: "network", Path: "/proc/77/ns/net"},
			},
		},
		Mounts: []specs.Mount{{Destination: "/proc", Type: "proc", Source: "proc"}, {Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"ro"}}},
	}
}

func mapped(t testing.TB, s *specs.Spec, o Options) *Intent {
	t.Helper()
	if o.Engine.Dialect == "" {
		o.Engine = NewEngine(Containerd)
	}
	in, err := Map(&Document{Spec: s, Dir: "/bundle"}, o)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestIdentityIsAllOrNothing(t *testing.T) {
	for _, key := range []string{containerdType, containerdSandboxID, containerdName, containerdNamespace, containerdUID, containerdContainer} {
		s := containerSpec()
		delete(s.Annotations, key)
		if in, err := Map(&Document{Spec: s}, Options{Engine: NewEngine(Containerd)}); err == nil {
			t.Errorf("without %s it is %s", key, in.Ref())
		}
	}
	s := containerSpec()
	s.Annotations[containerdType] = "Container"
	if _, err := Map(&Document{Spec: s}, Options{Engine: NewEngine(Containerd)}); err == nil {
		t.Error("a type that containerd doesn't write is taken")
	}
	s.Annotations = nil
	if in := mapped(t, s, Options{}); in.Kind != KindUnmanaged {
		t.Errorf("without keys it is a %s", in.Kind)
	}
}

func TestAnotherEnginesKeysAreNotIdentity(t *testing.T) {
	s := containerSpec()
	in := mapped(t, s, Options{Engine: NewEngine(CRIO)})
	if in.Kind != KindUnmanaged || len(in.Ignored) == 0 {
		t.Errorf("containerd's keys under CRI-O: a %s, ignored %v", in.Kind, in.Ignored)
	}
}

func TestANamespaceIsTheHostsWhereItsPathSaysSo(t *testing.T) {
	for path, want := range map[string]Fact[NamespaceMode]{
		"":                           {Value: NamespaceNew, Certainty: Known},
		"/proc/1/ns/net":             {Value: NamespaceHost, Certainty: Known},
		"/proc/self/ns/net":          {Value: NamespaceHost, Certainty: Known},
		"/proc/thread-self/ns/net":   {Value: NamespaceHost, Certainty: Known},
		"//proc/./1/x/../ns/net":     {Value: NamespaceHost, Certainty: Known},
		"/proc/1/task/1/ns/net":      {Value: NamespaceHost, Certainty: Known},
		"/proc/1/root/proc/1/ns/net": {Value: NamespaceHost, Certainty: Known},
		"/proc/12/ns/net":            {Value: NamespaceShared, Certainty: Assumed},
		"/run/netns/x":               {Value: NamespaceShared, Certainty: Assumed},
	} {
		s := containerSpec()
		s.Linux.Namespaces[4].Path = path
		if f := mapped(t, s, Options{}).HostNetwork; f.Value != want.Value || f.Certainty != want.Certainty {
			t.Errorf("%q is %s (%s), want %s (%s)", path, f.Value, f.Certainty, want.Value, want.Certainty)
		}
	}
	s := containerSpec()
	s.Linux.Namespaces = s.Linux.Namespaces[:4]
	if f := mapped(t, s, Options{}).HostNetwork; f.Value != NamespaceHost || f.Certainty != Known {
		t.Errorf("no entry is %s (%s)", f.Value, f.Certainty)
	}
}

func TestAUserNamespaceThatLeavesRootWhatItIsIsNone(t *testing.T) {
	for _, c := range []struct {
		host, size uint32
		want       NamespaceMode
	}{{0, 4294967295, NamespaceHost}, {0, 1, NamespaceHost}, {100000, 65536, NamespaceNew}} {
		s := containerSpec()
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: "user"})
		s.Linux.UIDMappings = []specs.LinuxIDMapping{{HostID: c.host, Size: c.size}}
		s.Linux.GIDMappings = s.Linux.UIDMappings
		if f := mapped(t, s, Options{}).UserNamespace; f.Value != c.want {
			t.Errorf("0 to %d, %d ids: %s, want %s", c.host, c.size, f.Value, c.want)
		}
	}
}

func TestAMountIsThePodsOwnOnlyInItsOwnDirectories(t *testing.T) {
	const kubelet = "/var/lib/kubelet/pods/" + testUID
	const cri = "io.containerd.grpc.v1.cri"
	for name, c := range map[string]struct {
		source string
		want   MountClass
		volume string
	}{
		"an emptyDir":                         {kubelet + "/volumes/kubernetes.io~empty-dir/v", MountVolume, "emptyDir"},
		"what lies in one":                    {kubelet + "/volumes/kubernetes.io~empty-dir/v/x", MountHostPath, ""},
		"a configMap":                         {kubelet + "/volumes/kubernetes.io~configmap/v", MountVolume, "configMap"},
		"a CSI volume":                        {kubelet + "/volumes/kubernetes.io~csi/v/mount", MountVolume, "csi|persistentVolumeClaim"},
		"a CSI volume's data":                 {kubelet + "/volumes/kubernetes.io~csi/v", MountHostPath, ""},
		"nfs, inline or a claim's":            {kubelet + "/volumes/kubernetes.io~nfs/v", MountVolume, "nfs|persistentVolumeClaim"},
		"the hosts file":                      {kubelet + "/etc-hosts", MountKubelet, ""},
		"the pod's directory itself":          {kubelet, MountHostPath, ""},
		"the hosts file by a detour":          {kubelet + "/volumes/../etc-hosts", MountKubelet, ""},
		"out of the pod by a detour":          {kubelet + "/etc-hosts/../../other/etc-hosts", MountHostPath, ""},
		"another pod's secret":                {"/var/lib/kubelet/pods/0/volumes/kubernetes.io~secret/v", MountHostPath, ""},
		"a pod's uid that only begins so":     {kubelet + "x/etc-hosts", MountHostPath, ""},
		"a name that only begins so":          {"/var/lib/kubelets/pods/" + testUID + "/etc-hosts", MountHostPath, ""},
		"this sandbox's resolv.conf":          {"/var/lib/containerd/" + cri + "/sandboxes/" + testSandbox + "/resolv.conf", MountEngine, ""},
		"another sandbox's":                   {"/var/lib/containerd/" + cri + "/sandboxes/" + testID + "/resolv.conf", MountHostPath, ""},
		"this sandbox's directory":            {"/var/lib/containerd/" + cri + "/sandboxes/" + testSandbox, MountHostPath, ""},
		"this container's image volume":       {"/var/lib/containerd/" + cri + "/containers/" + testID + "/volumes/x", MountEngine, ""},
		"another container's":                 {"/var/lib/containerd/" + cri + "/containers/" + testSandbox + "/volumes/x", MountHostPath, ""},
		"an image volume of this pod":         {"/run/containerd/" + cri + "/image-volumes/" + testSandbox + "/i", MountVolume, "image"},
		"the host's /dev/shm without hostIPC": {"/dev/shm", MountHostPath, ""},
		"a relative path":                     {"../../etc", MountHostPath, ""},
	} {
		t.Run(name, func(t *testing.T) {
			for _, m := range []specs.Mount{
				{Type: "bind", Source: c.source, Options: []string{"rbind"}},
				{Type: "tmpfs", Source: c.source, Options: []string{"bind"}},
				{Type: "", Source: c.source, Options: []string{"ro", "rbind"}},
				{Type: "bind", Source: c.source},
			} {
				m.Destination = "/data"
				s := containerSpec()
				s.Mounts = append(s.Mounts, m)
				got := mapped(t, s, Options{}).Mounts[2]
				if got.Class != c.want || got.Volume != c.volume {
					t.Errorf("%+v is %s %s (%s), want %s %s", m, got.Class, got.Volume, got.Why, c.want, c.volume)
				}
			}
		})
	}
}

func TestASubPathIsUnknownWithoutTheMountTable(t *testing.T) {
	s := containerSpec()
	s.Mounts = append(s.Mounts, specs.Mount{Destination: "/d", Type: "bind", Source: "/var/lib/kubelet/pods/" + testUID + "/volume-subpaths/v/app/0"})
	if got := mapped(t, s, Options{}).Mounts[2]; got.Class != MountHostPath || got.Certainty != Unknown {
		t.Errorf("%+v", got)
	}
}

func TestTheHostsSharedMemoryTellsHostIPC(t *testing.T) {
	s := containerSpec()
	s.Mounts = append(s.Mounts, specs.Mount{Destination: "/dev/shm", Type: "bind", Source: "/dev/shm"})
	in := mapped(t, s, Options{})
	if !Is(in.HostIPC, NamespaceHost) || in.Mounts[2].Class != MountEngine {
		t.Errorf("hostIPC is %+v, the mount %+v", in.HostIPC, in.Mounts[2])
	}
}

func TestFilesystemsThatShowTheNodeAreForeign(t *testing.T) {
	for typ, want := range map[string]MountClass{
		"tmpfs": MountSystem, "mqueue": MountSystem, "devpts": MountSystem, "cgroup2": MountSystem,
		"ext4": MountForeign, "overlay": MountForeign, "nfs": MountForeign, "devtmpfs": MountForeign, "debugfs": MountForeign, "": MountForeign,
	} {
		s := containerSpec()
		s.Mounts = append(s.Mounts, specs.Mount{Destination: "/x", Type: typ, Source: "/dev/sda1"})
		if got := mapped(t, s, Options{}).Mounts[2]; got.Class != want {
			t.Errorf("%q is %s, want %s", typ, got.Class, want)
		}
	}
}

func TestTheLastOfReadOnlyAndWritableCounts(t *testing.T) {
	for options, want := range map[string][2]bool{
		"rbind,ro": {true, false}, "bind,ro": {true, true}, "ro,rbind,rw": {false, false}, "rw,rbind,ro": {true, false}, "rbind,rro": {true, true},
	} {
		s := containerSpec()
		s.Mounts = append(s.Mounts, specs.Mount{Destination: "/x", Source: "/srv", Options: strings.Split(options, ",")})
		if m := mapped(t, s, Options{}).Mounts[2]; m.ReadOnly != want[0] || m.RecursiveReadOnly != want[1] {
			t.Errorf("%s: read-only %v, throughout %v; want %v", options, m.ReadOnly, m.RecursiveReadOnly, want)
		}
	}
}

func TestCapabilitiesAreTheUnionOfAllSetsInAnySpelling(t *testing.T) {
	for name, c := range map[string]*specs.LinuxCapabilities{
		"bounding":    {Bounding: []string{"CAP_SYS_ADMIN"}},
		"ambient":     {Ambient: []string{"CAP_SYS_ADMIN"}},
		"inheritable": {Inheritable: []string{"SYS_ADMIN"}},
		"permitted":   {Permitted: []string{"cap_sys_admin"}},
		"effective":   {Effective: []string{"Cap_Sys_Admin", "CAP_CHOWN"}},
	} {
		s := containerSpec()
		s.Process.Capabilities = c
		if got := mapped(t, s, Options{}).Capabilities.Value; len(got.Added) != 1 || got.Added[0] != "SYS_ADMIN" || got.Field != "process.capabilities."+name {
			t.Errorf("%s: %+v", name, got)
		}
	}
	s := containerSpec()
	s.Process.Capabilities.Bounding = []string{"CAP_FOO"}
	if got := mapped(t, s, Options{}).Capabilities.Value.Added; len(got) != 1 || got[0] != "FOO" {
		t.Errorf("a capability that nobody knows: %v", got)
	}
}

func TestProcIsUncoveredInManyWays(t *testing.T) {
	for name, change := range map[string]func(*specs.Spec){
		"no masked paths":    func(s *specs.Spec) { s.Linux.MaskedPaths = nil },
		"some masked paths":  func(s *specs.Spec) { s.Linux.MaskedPaths = []string{"/proc/kcore"} },
		"no read-only paths": func(s *specs.Spec) { s.Linux.ReadonlyPaths = []string{} },
		"a second proc":      func(s *specs.Spec) { s.Mounts = append(s.Mounts, specs.Mount{Destination: "/proc2", Type: "proc"}) },
	} {
		s := containerSpec()
		change(s)
		if !Is(mapped(t, s, Options{}).ProcUnmasked, true) {
			t.Errorf("%s: covered", name)
		}
	}
	if Is(mapped(t, containerSpec(), Options{}).ProcUnmasked, true) {
		t.Error("the default is uncovered")
	}
}

func TestSysctlsAreReadInBothForms(t *testing.T) {
	for in, want := range map[string]string{
		"net.ipv4.ip_forward": "net.ipv4.ip_forward", "net/ipv4/ip_forward": "net.ipv4.ip_forward",
		"net/ipv4/conf/eno2.100/forwarding": "net.ipv4.conf.eno2/100.forwarding", "net.ipv4.conf.eno2/100.forwarding": "net.ipv4.conf.eno2/100.forwarding",
	} {
		if got := SysctlName(in); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
}

func TestPrivilegeIsKnownByWhatNothingElseHas(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*specs.Spec)
		want   bool
	}{
		"nothing":         {func(*specs.Spec) {}, false},
		"a writable /sys": {func(s *specs.Spec) { s.Mounts[1].Options = []string{"rw"} }, true},
		"all devices": {func(s *specs.Spec) {
			s.Linux.Resources = &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: true, Access: "rwm"}}}
		}, true},
		"all devices, type a": {func(s *specs.Spec) {
			s.Linux.Resources = &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: true, Type: "a", Access: "rwm"}}}
		}, true},
		"all block devices": {func(s *specs.Spec) {
			s.Linux.Resources = &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: true, Type: "b", Access: "r"}}}
		}, true},
		"any node may be made": {func(s *specs.Spec) {
			s.Linux.Resources = &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Allow: true, Type: "c", Access: "m"}}}
		}, false},
		"no devices": {func(s *specs.Spec) {
			s.Linux.Resources = &specs.LinuxResources{Devices: []specs.LinuxDeviceCgroup{{Access: "rwm"}}}
		}, false},
		"no masks alone": {func(s *specs.Spec) { s.Linux.MaskedPaths, s.Linux.ReadonlyPaths = nil, nil }, false},
	} {
		s := containerSpec()
		c.change(s)
		if f := mapped(t, s, Options{}).Privileged; f.Certainty != Known || f.Value != c.want {
			t.Errorf("%s: %v (%s), want %v", name, f.Value, f.Certainty, c.want)
		}
	}
	s := containerSpec()
	s.Annotations[containerdType] = "sandbox"
	if f := mapped(t, s, Options{}).Privileged; f.Certainty != Unknown {
		t.Errorf("a sandbox without seccomp: %v (%s), want unknown", f.Value, f.Certainty)
	}
	s.Linux.Seccomp = &specs.LinuxSeccomp{DefaultAction: specs.ActErrno}
	if f := mapped(t, s, Options{}).Privileged; f.Certainty != Known || f.Value {
		t.Errorf("a sandbox with seccomp: %v (%s), want none", f.Value, f.Certainty)
	}
}

func TestTwoNamespacesOfOneTypeAreRefused(t *testing.T) {
	s := containerSpec()
	s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: "network"})
	if _, err := Map(&Document{Spec: s}, Options{Engine: NewEngine(Containerd)}); err == nil {
		t.Error("taken")
	}
}

// manyMounts is a document with n binds.
func manyMounts(tb testing.TB, n int) []byte {
	s := containerSpec()
	for i := range n {
		s.Mounts = append(s.Mounts, specs.Mount{Destination: fmt.Sprintf("/m/%d", i), Type: "bind", Source: fmt.Sprintf("/var/lib/kubelet/pods/%s/volumes/kubernetes.io~empty-dir/v%d", testUID, i), Options: []string{"rbind", "ro"}})
	}
	data, err := json.Marshal(s)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func benchmarkMap(b *testing.B, data []byte) {
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		doc, err := Parse(data)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := Map(doc, Options{Engine: NewEngine(Containerd)}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseAndMapSandbox(b *testing.B) {
	data, err := os.ReadFile("../../test/testdata/containerd/2.4.2/plain/sandbox.config.json")
	if err != nil {
		b.Fatal(err)
	}
	benchmarkMap(b, data)
}

func BenchmarkParseAndMap300Mounts(b *testing.B)  { benchmarkMap(b, manyMounts(b, 300)) }
func BenchmarkParseAndMap3000Mounts(b *testing.B) { benchmarkMap(b, manyMounts(b, 3000)) }
