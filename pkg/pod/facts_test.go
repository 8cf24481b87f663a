package pod_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeadmit/nodeadmit/pkg/pod"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

func fact[T any](v T) spec.Fact[T] { return spec.Fact[T]{Value: v, Certainty: spec.Known} }

// at returns what stands at a JSON path of a pod.
func at(t *testing.T, p *corev1.Pod, path string) any {
	t.Helper()
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Split(path, ".") {
		name, item, _ := strings.Cut(name, "[")
		fields, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = fields[name]
		if item != "" {
			list, ok := v.([]any)
			if !ok || len(list) == 0 {
				return nil
			}
			v = list[0]
		}
	}
	return v
}

// TestEachFactHasAField: a fact that is known stands in its field and is not
// listed; one that is not is listed, and its field is empty.
func TestEachFactHasAField(t *testing.T) {
	t.Parallel()
	const c, sc = "spec.containers[0].", "spec.containers[0].securityContext."
	for path, set := range map[string]func(*spec.Intent){
		"metadata.namespace":                      func(in *spec.Intent) { in.Pod.Namespace = fact("n") },
		"metadata.name":                           func(in *spec.Intent) { in.Pod.Name = fact("n") },
		"metadata.uid":                            func(in *spec.Intent) { in.Pod.UID = fact("u") },
		c + "name":                                func(in *spec.Intent) { in.Pod.Container = fact("c") },
		c + "image":                               func(in *spec.Intent) { in.Pod.Image = fact(spec.Image{Name: "i"}) },
		c + "command":                             func(in *spec.Intent) { in.Args = fact([]string{"sh"}) },
		c + "workingDir":                          func(in *spec.Intent) { in.Cwd = fact("/") },
		c + "ports":                               func(in *spec.Intent) { in.HostPorts = fact([]int{80}) },
		"spec.hostNetwork":                        func(in *spec.Intent) { in.HostNetwork = fact(spec.NamespaceHost) },
		"spec.hostPID":                            func(in *spec.Intent) { in.HostPID = fact(spec.NamespaceHost) },
		"spec.hostIPC":                            func(in *spec.Intent) { in.HostIPC = fact(spec.NamespaceHost) },
		"spec.hostUsers":                          func(in *spec.Intent) { in.UserNamespace = fact(spec.NamespaceShared) },
		"spec.shareProcessNamespace":              func(in *spec.Intent) { in.SharedPID = fact(spec.SharedPIDPod) },
		sc + "privileged":                         func(in *spec.Intent) { in.Privileged = fact(false) },
		sc + "allowPrivilegeEscalation":           func(in *spec.Intent) { in.NoNewPrivileges = fact(true) },
		sc + "readOnlyRootFilesystem":             func(in *spec.Intent) { in.ReadOnlyRoot = fact(true) },
		sc + "runAsUser":                          func(in *spec.Intent) { in.UID = fact(uint32(7)) },
		sc + "runAsNonRoot":                       func(in *spec.Intent) { in.UID = fact(uint32(7)) },
		sc + "runAsGroup":                         func(in *spec.Intent) { in.GID = fact(uint32(7)) },
		sc + "capabilities":                       func(in *spec.Intent) { in.Capabilities = fact(spec.Capabilities{}) },
		sc + "procMount":                          func(in *spec.Intent) { in.ProcUnmasked = fact(true) },
		sc + "seccompProfile":                     func(in *spec.Intent) { in.Seccomp, in.SeccompType = fact(spec.SeccompProfile), fact("RuntimeDefault") },
		sc + "appArmorProfile":                    func(in *spec.Intent) { in.AppArmor = fact("cri-containerd.apparmor.d") },
		sc + "seLinuxOptions":                     func(in *spec.Intent) { in.SELinux = fact("system_u:system_r:container_t:s0") },
		"spec.securityContext.supplementalGroups": func(in *spec.Intent) { in.AdditionalGIDs = fact([]uint32{9}) },
	} {
		in := &spec.Intent{Kind: spec.KindContainer, Engine: spec.NewEngine(spec.Containerd)}
		p, unknown := pod.Rebuild(in)
		if v := at(t, p, path); !slices.Contains(unknown, path) || v != nil && v != "" && v != false {
			t.Errorf("%s is not known: listed is %v, value %v", path, slices.Contains(unknown, path), v)
		}
		set(in)
		p, unknown = pod.Rebuild(in)
		if v := at(t, p, path); slices.Contains(unknown, path) || v == nil {
			t.Errorf("%s is known: listed is %v, value %v", path, slices.Contains(unknown, path), v)
		}
	}
}

func TestRebuildSaysTheLeast(t *testing.T) {
	t.Parallel()
	with := func(set func(*spec.Intent)) *spec.Intent {
		in := &spec.Intent{Kind: spec.KindContainer, Engine: spec.NewEngine(spec.Containerd), Privileged: fact(false)}
		set(in)
		return in
	}
	for name, c := range map[string]struct {
		in   *spec.Intent
		path string
		want string
	}{
		"no capabilities are drop ALL": {with(func(in *spec.Intent) { in.Capabilities = fact(spec.Capabilities{}) }), "capabilities", `{"drop":["ALL"]}`},
		"NET_BIND_SERVICE may stay": {with(func(in *spec.Intent) {
			in.Capabilities = fact(spec.Capabilities{All: []string{"NET_BIND_SERVICE"}})
		}), "capabilities", `{"add":["NET_BIND_SERVICE"],"drop":["ALL"]}`},
		"what the engine gives is not added": {with(func(in *spec.Intent) {
			in.Capabilities = fact(spec.Capabilities{All: append([]string{"SYS_ADMIN"}, in.Engine.DefaultCapabilities...), Added: []string{"SYS_ADMIN"}})
		}), "capabilities", `{"add":["SYS_ADMIN"]}`},
		"no seccomp profile is an unset one":     {with(func(in *spec.Intent) { in.Seccomp = fact(spec.SeccompNone) }), "seccompProfile", "null"},
		"a privileged container is only that":    {with(func(in *spec.Intent) { in.Privileged, in.ProcUnmasked = fact(true), fact(true) }), "procMount", "null"},
		"no AppArmor profile where there is one": {with(func(in *spec.Intent) { in.AppArmor, in.AppArmorHost = fact(""), fact(true) }), "appArmorProfile", `{"type":"Unconfined"}`},
		"and where there is none":                {with(func(in *spec.Intent) { in.AppArmor, in.AppArmorHost = fact(""), fact(false) }), "appArmorProfile", "null"},
		"the engine's SELinux user and role":     {with(func(in *spec.Intent) { in.SELinux = fact("system_u:system_r:spc_t:s0") }), "seLinuxOptions", `{"level":"s0","type":"spc_t"}`},
	} {
		p, _ := pod.Rebuild(c.in)
		got, err := json.Marshal(at(t, p, "spec.containers[0].securityContext."+c.path))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// TestRebuiltPodsAreJudgedAlike: upstream's evaluator refuses the rebuilt pod of
// a real bundle where our presets refuse the bundle, whatever the words.
func TestRebuiltPodsAreJudgedAlike(t *testing.T) {
	t.Parallel()
	e, err := pod.NewEvaluator()
	if err != nil {
		t.Fatal(err)
	}
	for _, engine := range []string{"containerd/1.6.20", "containerd/2.4.2", "crio/1.37.0"} {
		for name, in := range fixtures(t, engine) {
			if in.Kind != spec.KindContainer {
				continue
			}
			p, _ := pod.Rebuild(in)
			for _, level := range []policy.Level{policy.Baseline, policy.Restricted} {
				list, err := policy.Parse("p", []byte("apiVersion: nodeadmit.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: p}\nspec: {preset: "+string(level)+", version: v1.37}\n"))
				if err != nil {
					t.Fatal(err)
				}
				d := (&policy.Set{Policies: list}).Evaluate(in)
				failed := e.Evaluate(p, level, list[0].Version)
				if d.Allowed != (len(failed) == 0) {
					t.Errorf("%s/%s at %s: our presets allow it: %v %v, upstream has %v", engine, name, level, d.Allowed, d.Violations, failed)
				}
			}
		}
	}
}
