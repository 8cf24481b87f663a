package policy

import (
	"strings"
	"testing"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

const digest = "registry.example/kube-proxy@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func knownFact[T any](v T) spec.Fact[T] { return spec.Fact[T]{Value: v, Certainty: spec.Known} }

// proxy is a privileged kube-proxy with a host path.
func proxy() *spec.Intent {
	return &spec.Intent{
		Kind: spec.KindContainer,
		Pod: spec.Identity{
			Namespace: knownFact("kube-system"), Name: knownFact("kube-proxy-x7"), UID: knownFact("u"),
			Container: knownFact("kube-proxy"), Image: knownFact(spec.Image{Name: digest}),
		},
		RuntimeHandler: knownFact("containerd-runc"),
		StaticPod:      knownFact(false),
		Args:           knownFact([]string{"/usr/local/bin/kube-proxy", "--config=/etc/kp/config.conf"}),
		HostMount:      knownFact(spec.NamespaceNew),
		UserNamespace:  knownFact(spec.NamespaceHost),
		Privileged:     knownFact(true),
		Mounts: []spec.Mount{
			{Destination: "/proc", Type: "proc", Class: spec.MountSystem, Certainty: spec.Known},
			{Destination: "/lib/modules", Source: "/lib/modules", Bind: true, ReadOnly: true, Class: spec.MountHostPath, Certainty: spec.Known},
			{Destination: "/etc/kp", Class: spec.MountVolume, Volume: "configMap", Certainty: spec.Known},
			{Destination: serviceAccountMount, Class: spec.MountVolume, Volume: "projected", Certainty: spec.Known},
		},
	}
}

func sandboxOf(in *spec.Intent) *spec.Intent {
	s := *in
	s.Kind = spec.KindSandbox
	s.Pod.Container = spec.Fact[string]{}
	s.Pod.Image = knownFact(spec.Image{Name: "pause"})
	s.Mounts = nil
	return &s
}

func exempting(t *testing.T, match, controls string) *Set {
	t.Helper()
	text := `apiVersion: nodeadmit.dev/v1alpha1
kind: NodePolicy
metadata: {name: p}
spec:
  controls: {privileged: {}, hostPaths: {}}
  exemptions: [{name: e, match: ` + match + `, controls: ` + controls + `}]
`
	policies, err := Parse("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return &Set{Policies: policies}
}

const (
	pinnedArgs   = `args: [/usr/local/bin/kube-proxy, --config=/etc/kp/config.conf]`
	pinnedMounts = `mounts: [{hostPath: /lib/modules, destination: /lib/modules}, {volume: configMap, destination: /etc/kp}]`
)

func TestAnExemptionMatchesWhatItSays(t *testing.T) {
	const both = "[privileged, hostPaths]"
	for _, c := range []struct {
		name, match string
		change      func(*spec.Intent)
		want        bool
	}{
		{"the namespace", "{namespace: kube-system}", nil, true},
		{"another namespace", "{namespace: kube-public}", nil, false},
		{"a namespace by pattern", "{namespace: 'kube-*'}", nil, true},
		{"pod and container", "{pod: 'kube-proxy-*', container: kube-proxy}", nil, true},
		{"all parts must match", "{namespace: kube-system, container: other}", nil, false},
		{"an image by digest", "{image: '" + digest + "'}", nil, true},
		{"an image by pattern across slashes", "{image: 'registry.example/*'}", nil, true},
		{"an image of which only some name is known", "{image: '" + digest + "'}", func(in *spec.Intent) {
			in.Pod.Image.Certainty = spec.Assumed
		}, false},
		{"an image by a digest that the engine knows", "{image: '" + digest + "'}", func(in *spec.Intent) {
			in.Pod.Image.Value = spec.Image{Name: "kube-proxy:v1", RepoDigests: []string{digest}}
		}, true},
		{"a static pod that is none", "{staticPod: true}", nil, false},
		{"a static pod", "{staticPod: true}", func(in *spec.Intent) { in.StaticPod.Value = true }, true},
		{"a static pod's mark that could be forged", "{staticPod: true}", func(in *spec.Intent) {
			in.StaticPod = spec.Fact[bool]{Value: true, Certainty: spec.Known, Forgeable: true}
		}, false},
		{"a static pod's mark that isn't there", "{staticPod: true}", func(in *spec.Intent) { in.StaticPod = spec.Fact[bool]{} }, false},
		{"a user namespace", "{userNamespace: true}", func(in *spec.Intent) { in.UserNamespace = knownFact(spec.NamespaceShared) }, true},
		{"no user namespace", "{userNamespace: true}", nil, false},
		{"the runtime handler", "{runtimeHandler: containerd-runc}", nil, true},
		{"another runtime handler", "{runtimeHandler: containerd-crun}", nil, false},
		{"pinned arguments", "{" + pinnedArgs + "}", nil, true},
		{"more arguments than pinned", "{" + pinnedArgs + "}", func(in *spec.Intent) {
			in.Args.Value = append(in.Args.Value, "--more")
		}, false},
		{"pinned mounts", "{" + pinnedMounts + "}", nil, true},
		{"a mount that isn't pinned", "{" + pinnedMounts + "}", func(in *spec.Intent) {
			in.Mounts = append(in.Mounts, spec.Mount{Destination: "/x", Class: spec.MountVolume, Volume: "emptyDir"})
		}, false},
		{"a pinned place with another path", "{" + pinnedMounts + "}", func(in *spec.Intent) { in.Mounts[1].Source = "/" }, false},
		{"a pinned path that leads elsewhere", "{" + pinnedMounts + "}", func(in *spec.Intent) { in.Mounts[1].Real = "/etc" }, false},
		{"a loader's variable beside pinned mounts", "{" + pinnedMounts + "}", func(in *spec.Intent) {
			in.LoaderVariables = []spec.Variable{{Name: "LD_PRELOAD"}}
		}, false},
		{"a container that no CRI made", "{namespace: kube-system}", func(in *spec.Intent) { in.Kind = spec.KindUnmanaged }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := proxy()
			if c.change != nil {
				c.change(in)
			}
			d := exempting(t, c.match, both).Evaluate(in)
			if d.Allowed != c.want {
				t.Errorf("allowed %v, want %v: %+v", d.Allowed, c.want, d)
			}
		})
	}
}

func TestAnExemptionCoversItsControlsOnly(t *testing.T) {
	d := exempting(t, "{namespace: kube-system}", "[privileged]").Evaluate(proxy())
	if d.Allowed || len(d.Violations) != 1 || d.Violations[0].Control != "hostPaths" {
		t.Errorf("%+v", d.Violations)
	}
	if len(d.Exempt) != 1 || d.Exempt[0].Control != "privileged" {
		t.Errorf("%+v", d.Exempt)
	}
}

func TestAtTheSandboxAnExemptionThatMayMatchWaits(t *testing.T) {
	for match, want := range map[string]string{
		"{container: kube-proxy}":                       "undetermined",
		"{image: 'x@sha256:1'}":                         "undetermined",
		"{" + pinnedArgs + "}":                          "undetermined",
		"{" + pinnedMounts + "}":                        "undetermined",
		"{namespace: kube-system}":                      "exempt",
		"{namespace: other, container: kube-proxy}":     "violated",
		"{namespace: kube-system, container: whatever}": "undetermined",
	} {
		t.Run(match, func(t *testing.T) {
			d := exempting(t, match, "[privileged]").Evaluate(sandboxOf(proxy()))
			got := "violated"
			for _, n := range d.Undetermined {
				if n.Control == "privileged" {
					got = "undetermined"
				}
			}
			if len(d.Exempt) > 0 {
				got = "exempt"
			}
			if got != want || d.Allowed != (want != "violated") {
				t.Errorf("%s, allowed %v; want %s", got, d.Allowed, want)
			}
		})
	}
}

func TestUnderHostileAdminOnlyWhatAnAdminCanNotWriteIsInForce(t *testing.T) {
	image := "image: '" + digest + "'"
	for _, c := range []struct {
		name, match, controls string
		want                  bool
	}{
		{"names", "{namespace: kube-system, container: kube-proxy}", "[privileged, hostPaths]", false},
		{"an image by name", "{image: 'registry.example/*'}", "[privileged, hostPaths]", false},
		{"a digest alone, for privilege", "{" + image + "}", "[privileged, hostPaths]", false},
		{"a digest and arguments, for privilege", "{" + image + ", " + pinnedArgs + "}", "[privileged, hostPaths]", false},
		{"digest, arguments and mounts", "{" + image + ", " + pinnedArgs + ", " + pinnedMounts + "}", "[privileged, hostPaths]", true},
		{"a digest with a wildcard", "{image: 'registry.example/kube-proxy@sha256:*', " + pinnedArgs + ", " + pinnedMounts + "}", "[privileged, hostPaths]", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, err := exempting(t, c.match, c.controls).ForNode(Node{HostileAdmin: true})
			if err != nil {
				t.Fatal(err)
			}
			d := set.Evaluate(proxy())
			if d.Allowed != c.want {
				t.Errorf("allowed %v, want %v: %+v", d.Allowed, c.want, d)
			}
			if !c.want && (len(d.Inactive) == 0 || !strings.Contains(d.Inactive[0].Message, `exemption "e" is not in force`)) {
				t.Errorf("it isn't said: %+v", d.Inactive)
			}
		})
	}
	static := proxy()
	static.StaticPod.Value = true
	set, err := exempting(t, "{staticPod: true}", "[privileged, hostPaths]").ForNode(Node{HostileAdmin: true})
	if err != nil {
		t.Fatal(err)
	}
	if d := set.Evaluate(static); !d.Allowed {
		t.Errorf("a static pod's exemption is not in force: %+v", d)
	}
}

func TestAPolicyAppliesToTheNodesItIsFor(t *testing.T) {
	const text = `apiVersion: nodeadmit.dev/v1alpha1
kind: NodePolicy
metadata: {name: gpu}
spec: {preset: baseline, nodes: {matchLabels: {pool: gpu, tier: "1"}}}
`
	policies, err := Parse("p.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	set := &Set{Policies: policies, Digest: "d"}
	got, err := set.ForNode(Node{Labels: map[string]string{"pool": "gpu", "tier": "1", "x": "y"}})
	if err != nil || len(got.Policies) != 1 || got.Digest != "d" {
		t.Errorf("on its node: %+v, %v", got, err)
	}
	for _, labels := range []map[string]string{nil, {"pool": "gpu"}, {"pool": "gpu", "tier": "2"}} {
		if got, err := set.ForNode(Node{Labels: labels}); err == nil {
			t.Errorf("labels %v: %+v; want an error, since nothing would be enforced", labels, got)
		}
	}
}
