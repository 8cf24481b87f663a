package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// checkPod runs check --pod with a policy's spec, and returns the exit code and
// the JSON.
func checkPod(t *testing.T, policySpec, manifest string, flags ...string) (int, map[string]any) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	text := "apiVersion: nodeadmit.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: p}\nspec: " + policySpec + "\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := run(append([]string{"check", "--policy", file, "--pod", "-", "-o", "json"}, flags...), strings.NewReader(manifest), &stdout, &stderr)
	var out map[string]any
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil {
		t.Fatalf("exit %d, %v: %s%s", code, err, stdout.String(), stderr.String())
	}
	return code, out
}

// controls are those of a result's list, sorted.
func controls(result map[string]any, list string) []string {
	var out []string
	entries, _ := result[list].([]any)
	for _, e := range entries {
		name := e.(map[string]any)["control"].(string)
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// aPod is a pod with one container, of fields and container fields as YAML
// flow mappings.
func aPod(fields, container string) string {
	if fields != "" {
		fields += ", "
	}
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: web, namespace: team-a}\nspec: {" + fields + "containers: [{name: app, image: reg.corp/app:1, " + container + "}]}\n"
}

const hardened = "allowPrivilegeEscalation: false, runAsNonRoot: true, seccompProfile: {type: RuntimeDefault}"

func TestCheckPod(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, policy, pod string
		violated, exempt  []string
		undetermined      []string
	}{
		{name: "a plain pod is allowed in baseline", policy: "{preset: baseline}", pod: aPod("", "")},
		{
			name: "restricted names each check's control", policy: "{preset: restricted, version: v1.37}", pod: aPod("", ""),
			violated: []string{"allowPrivilegeEscalation", "capabilities", "runAsNonRoot", "seccompProfile"},
		},
		{
			name: "host namespaces are told apart", policy: "{preset: baseline}", pod: aPod("hostPID: true, hostIPC: true", ""),
			violated: []string{"hostIPC", "hostPID"},
		},
		{
			name: "a declared port takes the node's in its network", policy: "{preset: baseline}",
			pod: aPod("hostNetwork: true", "ports: [{containerPort: 80}]"), violated: []string{"hostNetwork", "hostPorts"},
		},
		{
			name: "an allowed control relaxes upstream's finding", policy: "{preset: baseline, controls: {hostNetwork: {allow: true}}}",
			pod: aPod("hostNetwork: true, hostPID: true", ""), violated: []string{"hostPID"},
		},
		{
			name: "so does a port", policy: "{preset: baseline, controls: {hostPorts: {allow: [8080]}}}",
			pod: aPod("", "ports: [{containerPort: 80, hostPort: 8080}]"),
		},
		{
			name: "but not another port", policy: "{preset: baseline, controls: {hostPorts: {allow: [8080]}}}",
			pod: aPod("", "ports: [{containerPort: 80, hostPort: 8081}]"), violated: []string{"hostPorts"},
		},
		{
			name: "an added capability", policy: "{preset: restricted, controls: {capabilities: {allowAdd: [SYS_PTRACE]}}}",
			pod: aPod("", "securityContext: {"+hardened+", capabilities: {drop: [ALL], add: [SYS_PTRACE]}}"),
		},
		{
			name:   "what a policy's setting doesn't allow stays upstream's: ALL must be dropped in so many words",
			policy: "{preset: restricted, controls: {capabilities: {allowAdd: [SYS_PTRACE]}}}", violated: []string{"capabilities"},
			pod: aPod("", "securityContext: {"+hardened+", capabilities: {drop: [AUDIT_WRITE, CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, MKNOD, NET_BIND_SERVICE, NET_RAW, SETFCAP, SETGID, SETPCAP, SETUID, SYS_CHROOT]}}"),
		},
		{
			name: "an allowed host path, mounted or not", policy: "{preset: baseline, controls: {hostPaths: {allow: [{pathPrefix: /var/log}]}}}",
			pod: aPod("volumes: [{name: l, hostPath: {path: /var/log/pods}}, {name: m, hostPath: {path: /var/log}}]", "volumeMounts: [{name: l, mountPath: /l}]"),
		},
		{
			name: "another host path that nobody mounts", policy: "{preset: baseline, controls: {hostPaths: {allow: [{pathPrefix: /var/log}]}}}",
			pod: aPod("volumes: [{name: l, hostPath: {path: /var/log}}, {name: e, hostPath: {path: /etc}}]", ""), violated: []string{"hostPaths"},
		},
		{
			name: "restricted volumes are told from host paths", policy: "{preset: restricted, version: v1.0}",
			pod: aPod("securityContext: {runAsNonRoot: true}, volumes: [{name: data, nfs: {server: s, path: /p}}]", ""), violated: []string{"volumes"},
		},
		{
			name: "a volume without a source is an emptyDir", policy: "{preset: restricted, version: v1.0}",
			pod: aPod("securityContext: {runAsNonRoot: true}, volumes: [{name: data}]", ""),
		},
		{
			name: "stricter settings than upstream's", policy: "{preset: baseline, controls: {readOnlyRootFilesystem: {}, images: {registries: [other.corp]}, hostUsers: {}}}",
			pod: aPod("", ""), violated: []string{"hostUsers", "images", "readOnlyRootFilesystem"},
		},
		{
			name: "a loader's variable", policy: "{controls: {environment: {}}}", pod: aPod("", "env: [{name: LD_PRELOAD, value: /x.so}]"), violated: []string{"environment"},
		},
		{
			name: "CVE-2024-21626", policy: "{preset: baseline}", pod: aPod("", "workingDir: /proc/self/fd/8"), violated: []string{"workingDirectory"},
		},
		{
			name: "probe hosts have no control but a name", policy: "{preset: baseline, version: v1.34}",
			pod: aPod("", "livenessProbe: {httpGet: {port: 80, host: 10.0.0.1}}"), violated: []string{"hostProbesAndHostLifecycle"},
		},
		{name: "and are no matter before v1.34", policy: "{preset: baseline, version: v1.33}", pod: aPod("", "livenessProbe: {httpGet: {port: 80, host: 10.0.0.1}}")},
		{
			name:   "an exemption takes a check off",
			policy: "{preset: baseline, exemptions: [{name: e, match: {namespace: team-a, container: app}, controls: [privileged]}]}",
			pod:    aPod("", "securityContext: {privileged: true}"), exempt: []string{"privileged"},
		},
		{
			name:   "if it matches every container that fails",
			policy: "{preset: baseline, exemptions: [{name: e, match: {namespace: team-a, container: other}, controls: [privileged]}]}",
			pod:    aPod("", "securityContext: {privileged: true}"), violated: []string{"privileged"},
		},
		{
			name: "what a pod doesn't say refuses nothing", policy: "{controls: {devices: {}, runAsUser: {ranges: [{min: 1000, max: 2000}]}}}",
			pod: aPod("", ""), undetermined: []string{"devices", "runAsUser"},
		},
		{
			name: "what it says does", policy: "{controls: {runAsUser: {ranges: [{min: 1000, max: 2000}]}}}",
			pod: aPod("securityContext: {runAsUser: 5}", ""), violated: []string{"runAsUser"},
		},
		{
			name: "a basis changes nothing for a pod", policy: "{preset: baseline, basis: Declared, onSourceUnavailable: Deny}", pod: aPod("", ""),
		},
		{
			name: "Audit allows", policy: "{mode: Audit, preset: baseline}", pod: aPod("hostPID: true", ""), violated: []string{"hostPID"},
		},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			code, got := checkPod(t, c.policy, c.pod)
			want := 0
			if len(c.violated) > 0 && !strings.Contains(c.policy, "Audit") {
				want = 1
			}
			if code != want {
				t.Errorf("exit code %d, want %d", code, want)
			}
			if v := controls(got, "violations"); !slices.Equal(v, c.violated) {
				t.Errorf("violated %v, want %v: %v", v, c.violated, got["violations"])
			}
			if v := controls(got, "exempt"); !slices.Equal(v, c.exempt) {
				t.Errorf("exempt %v, want %v", v, c.exempt)
			}
			if v := controls(got, "undetermined"); !slices.Equal(v, c.undetermined) {
				t.Errorf("undetermined %v, want %v", v, c.undetermined)
			}
			if got["basis"] != "Declared" || got["moment"] != "pod" {
				t.Errorf("basis %v, moment %v", got["basis"], got["moment"])
			}
		})
	}
}

func TestCheckPodReadsManifests(t *testing.T) {
	t.Parallel()
	template := "template: {spec: {hostPID: true, containers: [{name: a, image: i}]}}"
	for name, c := range map[string]struct {
		manifest string
		pods     int
	}{
		"several documents": {aPod("hostPID: true", "") + "---\n# nothing\n---\n" + aPod("", ""), 2},
		"a list":            {`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"hostPID":true,"containers":[{"name":"a"}]}},{"apiVersion":"v1","kind":"Pod","metadata":{"name":"y"},"spec":{"containers":[{"name":"a"}]}}]}`, 2},
		"a workload":        {"kind: Deployment\nmetadata: {name: d}\nspec: {" + template + "}\n", 1},
		"a cron job":        {"kind: CronJob\nmetadata: {name: d}\nspec: {jobTemplate: {spec: {" + template + "}}}\n", 1},
	} {
		code, got := checkPod(t, "{preset: baseline}", c.manifest)
		items, _ := got["items"].([]any)
		if n := max(1, len(items)); code != 1 || n != c.pods || got["decision"] != "Deny" {
			t.Errorf("%s: exit %d, %d pods, %v", name, code, n, got["decision"])
		}
	}
	for name, manifest := range map[string]string{
		"an unknown field":             aPod("hostPid: true", ""),
		"a field in another case":      aPod("hostpid: true", ""),
		"a repeated field":             aPod("hostPID: false, hostPID: true", ""),
		"another kind":                 "kind: Service\nmetadata: {name: s}\n",
		"another kind among pods":      aPod("", "") + "---\nkind: Secret\n",
		"no kind":                      "metadata: {name: s}\n",
		"a pod without containers":     "kind: Pod\nmetadata: {name: s}\nspec: {}\n",
		"a workload without template":  "kind: Deployment\nspec: {}\n",
		"nothing":                      "",
		"no YAML":                      "{",
		"a number for a truth value":   aPod("hostPID: 1", ""),
		"an empty list":                "kind: List\nitems: []\n",
		"an unknown field in a list":   `{"kind":"List","items":[{"kind":"Pod","spec":{"x":1,"containers":[{"name":"a"}]}}]}`,
		"a container as another field": "kind: Pod\nspec: {Containers: [{name: a}]}\n",
	} {
		code, got := checkPod(t, "{preset: baseline}", manifest)
		if code != 2 || got["error"] == nil {
			t.Errorf("%s: exit %d, %v", name, code, got)
		}
	}
}

// A pod object doesn't prove that it is a static pod: its annotation is anybody's.
func TestCheckPodAppliesExemptionsByWhatIsSaid(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, match, container string
		flags                  []string
		want                   int
	}{
		{"a static pod as such", "{staticPod: true}", "", []string{"--static-pod"}, 0},
		{"a static pod that nobody says it is", "{staticPod: true}", "", nil, 1},
		{"an API pod for an exemption of those", "{staticPod: false}", "", nil, 0},
		{"the command line", "{args: [/etcd, --x=1]}", "command: [/etcd], args: ['--x=1']", nil, 0},
		{"another command line", "{args: [/etcd, --x=1]}", "command: [/etcd], args: ['--x=2']", nil, 1},
		{"the image's own program", "{args: [--x=1]}", "args: ['--x=1']", nil, 1},
		{"what the kubelet expands", "{args: [/etcd, $(X)]}", "command: [/etcd, $(X)]", nil, 1},
		{"no mounts", "{args: [/etcd], mounts: []}", "command: [/etcd]", nil, 0},
		{"a runtime handler, which a class name isn't", "{runtimeHandler: runc}", "", nil, 1},
	} {
		policy := "{preset: baseline, exemptions: [{name: e, match: " + c.match + ", controls: [hostNetwork]}]}"
		code, got := checkPod(t, policy, strings.Replace(aPod("hostNetwork: true", c.container), "namespace: team-a", "namespace: team-a, annotations: {kubernetes.io/config.source: file}", 1), c.flags...)
		if code != c.want {
			t.Errorf("%s: exit %d: %v", c.name, code, got)
		}
	}
}

func TestCheckPodExcludesABundle(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"--bundle", "--spec"} {
		var stdout, stderr bytes.Buffer
		if code := run([]string{"check", "--policy", "p", "--pod", "-", other, "x"}, strings.NewReader(""), &stdout, &stderr); code != 2 {
			t.Errorf("%s: exit %d", other, code)
		}
	}
}

func TestPolicyTestTakesPods(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"p/p.yaml": "apiVersion: nodeadmit.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: p}\nspec: {preset: baseline, version: v1.37}\n",
		"pod.yaml": aPod("hostPID: true", "livenessProbe: {tcpSocket: {port: 1, host: h}}"),
		"suite.yaml": `apiVersion: nodeadmit.dev/v1alpha1
kind: PolicyTest
metadata: {name: pods}
policy: p
cases:
- {name: refused, pod: pod.yaml, expect: {decision: Deny, controls: [hostPID, hostProbesAndHostLifecycle], message: "pod team-a/web: hostPID"}}
- {name: wrong, pod: pod.yaml, expect: {decision: Allow}}
`,
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var stdout, stderr bytes.Buffer
	code := run([]string{"policy", "test", filepath.Join(dir, "suite.yaml")}, nil, &stdout, &stderr)
	if code != 1 || !strings.Contains(stdout.String(), "1 passed, 1 failed") {
		t.Errorf("exit %d: %s%s", code, stdout.String(), stderr.String())
	}
}
