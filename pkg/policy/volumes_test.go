package policy

import (
	"testing"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

func TestVolumes(t *testing.T) {
	t.Parallel()
	volume := func(plugin, rest string) ruleTest {
		return ruleTest{level: Restricted, change: bind("/v", testVolumes+plugin+"/v"+rest), want: Satisfied}
	}
	with := func(c ruleTest, want Result, says string) ruleTest {
		c.want, c.says = want, says
		return c
	}
	set := func(c ruleTest, level Level, settings string) ruleTest {
		c.level, c.settings = level, settings
		return c
	}
	nfs := volume("kubernetes.io~nfs", "")
	csi := volume("kubernetes.io~csi", "/mount")
	inline := csi
	inline.host = machine{files: map[string]string{testVolumes + "kubernetes.io~csi/v/vol_data.json": `{"volumeLifecycleMode":"Ephemeral"}`}}
	hostPath := ruleTest{level: Restricted, change: bind("/v", "/etc"), want: Satisfied}
	subPath := ruleTest{level: Restricted, change: bind("/v", "/var/lib/kubelet/pods/"+testUID+"/volume-subpaths/v/app/0")}
	nfsSubPath := subPath
	nfsSubPath.host = machine{bound: map[string][]string{"/var/lib/kubelet/pods/" + testUID + "/volume-subpaths/v/app/0": {testVolumes + "kubernetes.io~git-repo/v/x"}}}
	runRuleTests(t, "volumes", map[string]ruleTest{
		"a container without volumes is satisfied":       {level: Restricted, want: Satisfied},
		"baseline has all types":                         set(with(nfs, Satisfied, ""), Baseline, ""),
		"emptyDir is allowed":                            volume("kubernetes.io~empty-dir", ""),
		"configMap is allowed":                           volume("kubernetes.io~configmap", ""),
		"secret is allowed":                              volume("kubernetes.io~secret", ""),
		"projected is allowed":                           volume("kubernetes.io~projected", ""),
		"downwardAPI is allowed":                         volume("kubernetes.io~downward-api", ""),
		"csi is allowed, inline and behind a claim":      csi,
		"a claim on a local volume is allowed":           volume("kubernetes.io~local-volume", ""),
		"an image volume is allowed":                     {level: Restricted, change: bind("/v", "/run/containerd/io.containerd.grpc.v1.cri/image-volumes/"+testSandbox+"/x"), want: Satisfied},
		"gitRepo is refused":                             with(volume("kubernetes.io~git-repo", ""), Violated, "/v is a volume of type gitRepo"),
		"gitRepo is refused in v1.0":                     {level: Restricted, version: "v1.0", change: bind("/v", testVolumes+"kubernetes.io~git-repo/v"), want: Violated, says: "gitRepo"},
		"nfs may be inline or a claim's":                 with(nfs, Undetermined, "of type nfs or persistentVolumeClaim"),
		"iscsi may be inline or a claim's":               with(volume("kubernetes.io~iscsi", ""), Undetermined, "iscsi or persistentVolumeClaim"),
		"fc may be inline or a claim's":                  with(volume("kubernetes.io~fc", ""), Undetermined, "fc or persistentVolumeClaim"),
		"a flexVolume may be inline or a claim's":        with(volume("example.com~nfs", ""), Undetermined, "flexVolume or persistentVolumeClaim"),
		"nfs is allowed if both are":                     set(with(nfs, Satisfied, ""), Restricted, "{allow: [nfs]}"),
		"nfs is refused if neither is":                   set(with(nfs, Violated, "nfs or persistentVolumeClaim"), Privileged, "{allow: [emptyDir]}"),
		"a host path is left to hostPaths in restricted": hostPath,
		"a host path is a type without a preset":         set(with(hostPath, Violated, "/v is a volume of type hostPath"), Privileged, "{allow: [emptyDir]}"),
		"a host path may be allowed as a type":           set(hostPath, Privileged, "{allow: [hostPath]}"),
		"a sandbox waits":                                {level: Restricted, kind: spec.KindSandbox, want: Undetermined, says: "when the pod's containers are made"},
		"an inline csi volume is told on a live look":    set(with(inline, Violated, "of type csi"), Privileged, "{allow: [persistentVolumeClaim]}"),
		"offline it may be a claim":                      set(with(csi, Undetermined, "csi or persistentVolumeClaim"), Privileged, "{allow: [persistentVolumeClaim]}"),
		"a claim may be an ephemeral volume's":           set(with(volume("kubernetes.io~local-volume", ""), Undetermined, "of type persistentVolumeClaim"), Privileged, "{allow: [ephemeral]}"),
		"a plugin's directory has another name":          with(volume("kubernetes.io~gce-pd", ""), Undetermined, "gcePersistentDisk or persistentVolumeClaim"),
		"a subPath can't be told offline":                with(subPath, Undetermined, "whose type can't be told"),
		"a subPath is its volume's on a live look":       with(nfsSubPath, Violated, "gitRepo"),
	})
}
