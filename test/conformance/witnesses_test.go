package conformance

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeadmit/nodeadmit/pkg/pod"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

// witnesses are a pod for each class: the smallest that shows it. They are in
// docs/conformance.md, with the other pod that has the same bundles.
var witnesses = []struct {
	class, view string
	standard
	pod string
}{
	{"hostPorts", "containerd 2", latestBaseline, `containers: [{name: a, ports: [{containerPort: 80, hostPort: 80}]}]`},
	{"probeHosts", "containerd 2", latestBaseline, `containers: [{name: a, livenessProbe: {httpGet: {port: 80, host: 169.254.169.254}}}]`},
	{"unmountedVolumes", "containerd 2", latestBaseline, `{volumes: [{name: v, hostPath: {path: /}}], containers: [{name: a}]}`},
	{"replacedPlugins", "containerd 2", latestRestricted, hardenedPod + `, volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, awsElasticBlockStore: {volumeID: vol-1}}]}`},
	{"windowsOptions", "containerd 2", latestBaseline, `containers: [{name: a, securityContext: {windowsOptions: {hostProcess: true}}}]`},
	{"seccompAnnotations", "containerd 2", standard{policy.Baseline, "v1.18"}, `{containers: [{name: a}], annotations: {seccomp.security.alpha.kubernetes.io/pod: unconfined}}`},
	{"seccompUnconfined", "containerd 2", latestBaseline, `containers: [{name: a, securityContext: {seccompProfile: {type: Unconfined}}}]`},
	{"appArmorOverridden", "containerd 2", latestBaseline, `{securityContext: {appArmorProfile: {type: Unconfined}}, containers: [{name: a, securityContext: {appArmorProfile: {type: RuntimeDefault}}}]}`},
	{"podSELinuxOverridden", "CRI-O", latestBaseline, `{securityContext: {seLinuxOptions: {type: spc_t}}, containers: [{name: a, securityContext: {seLinuxOptions: {type: container_t}}}]}`},
	{"seLinuxWithoutEffect", "containerd 2", latestBaseline, `containers: [{name: a, securityContext: {seLinuxOptions: {user: system_u, type: container_t}}}]`},
	{"capabilitySpelling", "containerd 2", latestBaseline, `containers: [{name: a, securityContext: {capabilities: {add: [chown]}}}]`},
	{"addedAndDropped", "containerd 2", latestBaseline, `containers: [{name: a, securityContext: {capabilities: {add: [SYS_ADMIN], drop: [SYS_ADMIN]}}}]`},
	{"defaultCapabilityAdded", "containerd 2", latestBaseline, `containers: [{name: a, securityContext: {capabilities: {add: [NET_RAW]}}}]`},
	{"partOfDefaultsAdded", "containerd 2", latestBaseline, `containers: [{name: a, securityContext: {capabilities: {drop: [ALL], add: [NET_RAW]}}}]`},
	{"dropSpelledOut", "CRI-O", latestRestricted, `{securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}, containers: [{name: a, securityContext: {allowPrivilegeEscalation: false,
		capabilities: {drop: [CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, NET_BIND_SERVICE, SETGID, SETPCAP, SETUID]}}}]}`},
	{"runAsNonRoot", "containerd 2", latestRestricted, `containers: [{name: a, securityContext: {allowPrivilegeEscalation: false, runAsUser: 1000, seccompProfile: {type: RuntimeDefault}, capabilities: {drop: [ALL]}}}]`},
	{"podUserOverridden", "containerd 2", latestRestricted, `{securityContext: {runAsUser: 0, runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}, containers: [{name: a, securityContext: {allowPrivilegeEscalation: false, runAsUser: 1000, capabilities: {drop: [ALL]}}}]}`},
	{"sysctlSpelling", "containerd 2", latestBaseline, `{securityContext: {sysctls: [{name: net/ipv4/tcp_syncookies, value: "1"}]}, containers: [{name: a}]}`},
	{"sysctlsWithoutInfra", "CRI-O", latestBaseline, `{securityContext: {sysctls: [{name: kernel.msgmax, value: "1"}]}, containers: [{name: a}]}`},
	{"inlineOrClaim", "containerd 2", latestRestricted, hardenedPod + `, volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, persistentVolumeClaim: {claimName: nfs.pv}}]}`},
	{"hostPathBehindClaim", "containerd 2", latestBaseline, `{containers: [{name: a, volumeMounts: [{name: v, mountPath: /v}]}], volumes: [{name: v, persistentVolumeClaim: {claimName: host-path.pv}}]}`},
}

const hardenedPod = `{securityContext: {runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}}, containers: [{name: a, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}`

var (
	latestBaseline   = standard{policy.Baseline, "v1.37"}
	latestRestricted = standard{policy.Restricted, "v1.37"}
)

// witnessPod reads a witness: a pod's spec, in which annotations stand too.
func witnessPod(t *testing.T, text string) *corev1.Pod {
	t.Helper()
	if text[0] != '{' {
		text = "{" + text + "}"
	}
	p := &corev1.Pod{}
	fromYAML(t, text, &p.Spec)
	var meta struct {
		Annotations map[string]string `json:"annotations"`
	}
	fromYAML(t, text, &meta)
	p.Annotations, p.Name = meta.Annotations, "witness"
	pod.Default(p)
	return p
}

// pair is a witness with the pod that has the same bundles.
type pair struct {
	class    string
	view     string
	standard standard
	pod      *corev1.Pod
	other    *corev1.Pod
	// refused: it is the node that refuses, and upstream that allows.
	refused bool
}

func witnessPairs(t *testing.T) []pair {
	t.Helper()
	var out []pair
	for _, w := range witnesses {
		v := views()[slices.IndexFunc(views(), func(v view) bool { return v.name == w.view })]
		p := witnessPod(t, w.pod)
		o, err := look(v.node, p, w.standard)
		switch {
		case err != nil:
			t.Errorf("%s: %v", w.class, err)
		case o.agrees() || o.other == nil || !slices.Equal(o.classes, []string{w.class}):
			t.Errorf("%s: the node allows it: %v, upstream: %v, classes %v", w.class, !o.refused, o.allowedUpstream, o.classes)
		default:
			out = append(out, pair{w.class, w.view, w.standard, p, o.other, o.refused})
		}
	}
	return out
}

// TestEveryClassHasAWitness: two pods that upstream judges differently, and
// whose bundles are the same.
func TestEveryClassHasAWitness(t *testing.T) {
	got := map[string]bool{}
	for _, p := range witnessPairs(t) {
		got[p.class] = true
		a, b := upstream().Evaluate(p.pod, p.standard.level, p.standard.parsed()), upstream().Evaluate(p.other, p.standard.level, p.standard.parsed())
		if (len(a) == 0) == (len(b) == 0) {
			t.Errorf("%s: upstream judges both alike: %v, %v", p.class, a, b)
		}
	}
	for _, r := range slices.Concat(rules, reverse) {
		if !got[r.name] {
			t.Errorf("class %s has no witness", r.name)
		}
	}
}
