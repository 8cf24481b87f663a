package pod

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	psa "k8s.io/pod-security-admission/policy"

	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

func TestEveryCheckOfUpstreamHasAName(t *testing.T) {
	t.Parallel()
	known := slices.Concat(policy.ControlNames(), policy.ChecksWithoutControl)
	s := &corev1.PodSpec{HostNetwork: true, HostPID: true, HostIPC: true}
	for _, c := range psa.DefaultChecks() {
		names := controlsOf(string(c.ID), s)
		if len(names) == 0 {
			t.Errorf("check %s has no control", c.ID)
		}
		for _, n := range names {
			if !slices.Contains(known, n) {
				t.Errorf("check %s: %s is no control", c.ID, n)
			}
		}
	}
}

func TestDeclareReadsThePodsOwnFields(t *testing.T) {
	t.Parallel()
	pods, err := Read([]byte(`{kind: Pod, metadata: {name: p}, spec: {
		securityContext: {runAsUser: 5, fsGroup: 7, seccompProfile: {type: RuntimeDefault}, seLinuxOptions: {type: spc_t}},
		initContainers: [{name: i, image: "x@sha256:0", securityContext: {runAsUser: 6, seccompProfile: {type: Unconfined}}}],
		containers: [{name: c, image: x}], ephemeralContainers: [{name: e, image: x}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEvaluator()
	if err != nil {
		t.Fatal(err)
	}
	d := e.Declare(pods[0].Pod)
	var got [][4]any
	for _, in := range d.Containers {
		got = append(got, [4]any{in.Pod.Container.Value, in.UID.Value, string(in.Seccomp.Value), in.SELinux.Value})
	}
	want := [][4]any{
		{"i", uint32(6), "none", "system_u:system_r:spc_t:"}, {"c", uint32(5), "profile", "system_u:system_r:spc_t:"},
		{"e", uint32(5), "profile", "system_u:system_r:spc_t:"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if in := d.Containers[0]; in.Pod.Image.Value.Digest != "sha256:0" || in.Pod.Namespace.Value != "default" || in.UID.Source != "spec.initContainers[0].securityContext.runAsUser" {
		t.Errorf("image %v, namespace %v, user from %s", in.Pod.Image, in.Pod.Namespace, in.UID.Source)
	}
}
