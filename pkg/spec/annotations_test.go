package spec

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestHostPorts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		raw  string
		want []int
		ok   bool
	}{
		"ports without a host port take none":     {`[{"name":"http","containerPort":80,"protocol":"TCP"}]`, nil, true},
		"a host port is found":                    {`[{"containerPort":80},{"hostPort":8080,"containerPort":80,"hostIP":"127.0.0.1"}]`, []int{8080}, true},
		"host port 0 is none":                     {`[{"hostPort":0}]`, nil, true},
		"an empty list takes none":                {`[]`, nil, true},
		"a port that is no number can't be read":  {`[{"hostPort":"8080"}]`, nil, false},
		"two host ports in one can't be read":     {`[{"hostPort":0,"hostPort":8080}]`, nil, false},
		"what follows the list can't be read":     {`[] []`, nil, false},
		"a list that isn't closed can't be read":  {`[{"hostPort":1}`, nil, false},
		"an object can't be read":                 {`{"hostPort":1}`, nil, false},
		"nothing can't be read":                   {``, nil, false},
		"a list within the list can't be read":    {`[["hostPort"]]`, nil, false},
		"a number that overflows can't be read":   {`[{"hostPort":99999999999999999999}]`, nil, false},
		"other members may be nested":             {`[{"x":{"hostPort":1},"hostPort":2}]`, []int{2}, true},
		"a key with escapes is the key it stands": {"[{\"host\\u0050ort\":3}]", []int{3}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, ok := hostPorts(c.raw)
			if ok != c.ok {
				t.Fatalf("readable: %v, want %v", ok, c.ok)
			}
			if diff := cmp.Diff(c.want, got); ok && diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestHostPortsOfAContainer(t *testing.T) {
	t.Parallel()
	const takes, none = `[{"hostPort":80}]`, `[{"containerPort":80}]`
	for name, c := range map[string]struct {
		engine      Dialect
		kind        Kind
		annotations map[string]string
		want        Certainty
	}{
		"CRI-O hands on the kubelet's list":                        {CRIO, KindContainer, map[string]string{containerPorts: takes}, Known},
		"on CRI-O a container without a list declares no ports":    {CRIO, KindContainer, nil, Known},
		"on CRI-O a list that can't be read is unknown":            {CRIO, KindContainer, map[string]string{containerPorts: "?"}, Unknown},
		"a CRI-O sandbox shows what a pod wrote":                   {CRIO, KindSandbox, map[string]string{containerPorts: none}, Unknown},
		"containerd shows nothing":                                 {Containerd, KindContainer, nil, Unknown},
		"on containerd a list without host ports may be the pod's": {Containerd, KindContainer, map[string]string{containerPorts: none}, Unknown},
		"on containerd a list with host ports counts":              {Containerd, KindContainer, map[string]string{containerPorts: takes}, Known},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			in := &Intent{Engine: NewEngine(c.engine), Kind: c.kind}
			mapAnnotations(in, c.annotations)
			if in.HostPorts.Certainty != c.want {
				t.Errorf("host ports are %v, want %v", in.HostPorts.Certainty, c.want)
			}
		})
	}
}

func TestSeccompTypeOnCRIO(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"RuntimeDefault": "RuntimeDefault", "runtime/default": "RuntimeDefault", // CRI-O 1.37, and CRI's old spelling
		"/var/lib/kubelet/seccomp/a.json": "Localhost", "localhost/a.json": "Localhost", "Localhost": "Localhost",
		"Unconfined": "", "unconfined": "", "": "",
	} {
		in := &Intent{Engine: NewEngine(CRIO), Kind: KindContainer}
		mapAnnotations(in, map[string]string{crioSeccomp: path})
		if got := in.SeccompType; got.Value != want || (got.Certainty == Known) != (want != "") {
			t.Errorf("%q is %q (%v), want %q", path, got.Value, got.Certainty, want)
		}
	}
}
