package pod

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	psa "k8s.io/pod-security-admission/policy"

	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

// Evaluator is upstream's Pod Security evaluator, which says which check it was
// that failed.
type Evaluator struct{ upstream psa.Evaluator }

// NewEvaluator returns an evaluator of upstream's checks.
func NewEvaluator() (*Evaluator, error) {
	checks := psa.DefaultChecks()
	for i := range checks {
		for j := range checks[i].Versions {
			checks[i].Versions[j].CheckPod = named(checks[i].ID, checks[i].Versions[j].CheckPod)
		}
	}
	up, err := psa.NewEvaluator(checks, nil)
	if err != nil {
		return nil, err
	}
	return &Evaluator{up}, nil
}

// named puts a check's id before its reason: upstream's results have none.
func named(id psa.CheckID, check psa.CheckPodFn) psa.CheckPodFn {
	return func(m *metav1.ObjectMeta, s *corev1.PodSpec) psa.CheckResult {
		r := check(m, s)
		if !r.Allowed {
			r.ForbiddenReason = string(id) + "\x00" + r.ForbiddenReason
		}
		return r
	}
}

// Failed is a check of upstream's that a pod fails.
type Failed struct {
	// Check is upstream's id of it.
	Check string
	// Controls are our names for what it found.
	Controls []string
	// Reason and Detail are upstream's words.
	Reason, Detail string
}

// Evaluate returns the checks that a pod fails at a level and version, in
// upstream's order.
func (e *Evaluator) Evaluate(p *corev1.Pod, level policy.Level, version policy.Version) []Failed {
	lv := api.LevelVersion{Level: api.Level(level), Version: upstreamVersion(version)}
	var out []Failed
	for _, r := range e.upstream.EvaluatePod(lv, &p.ObjectMeta, &p.Spec) {
		if r.Allowed {
			continue
		}
		id, reason, _ := strings.Cut(r.ForbiddenReason, "\x00")
		out = append(out, Failed{Check: id, Controls: controlsOf(id, &p.Spec), Reason: reason, Detail: r.ForbiddenDetail})
	}
	return out
}

func upstreamVersion(v policy.Version) api.Version {
	out, err := api.ParseVersion(v.String())
	if err != nil {
		return api.LatestVersion()
	}
	return out
}

// controlsOf names a check as our policies do. Two have no control, since no
// node can tell them: they go under upstream's name.
func controlsOf(check string, s *corev1.PodSpec) []string {
	switch check {
	case "capabilities_baseline", "capabilities_restricted":
		return []string{"capabilities"}
	case "procMount", "procMount_restricted":
		return []string{"procMount"}
	case "seccompProfile_baseline", "seccompProfile_restricted":
		return []string{"seccompProfile"}
	case "hostPathVolumes":
		return []string{"hostPaths"}
	case "restrictedVolumes":
		return restrictedVolumes(s)
	case "hostNamespaces":
		var out []string
		for _, ns := range []struct {
			name string
			set  bool
		}{{"hostPID", s.HostPID}, {"hostNetwork", s.HostNetwork}, {"hostIPC", s.HostIPC}} {
			if ns.set {
				out = append(out, ns.name)
			}
		}
		return out
	}
	return []string{check}
}

// restrictedVolumes are host paths, which have a control of their own, and the
// other types. In restricted upstream has one check for both.
func restrictedVolumes(s *corev1.PodSpec) []string {
	host, other := false, false
	for i := range s.Volumes {
		v := &s.Volumes[i]
		if v.HostPath != nil {
			host = true
		} else if !contains(allowedVolumes, VolumeType(v)) {
			other = true
		}
	}
	var out []string
	if host {
		out = append(out, "hostPaths")
	}
	if other || !host {
		out = append(out, "volumes")
	}
	return out
}

var allowedVolumes = []string{
	"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
}

func contains(list []string, s string) bool {
	for _, l := range list {
		if l == s {
			return true
		}
	}
	return false
}
