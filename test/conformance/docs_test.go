package conformance

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write docs/conformance.md anew")

const document = "../../docs/conformance.md"

func fromYAML(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// TestTheDocumentIsUpToDate holds docs/conformance.md, with its counts.
func TestTheDocumentIsUpToDate(t *testing.T) {
	fixturesOf(t)
	tallies, faults := tallies()
	if len(faults) > 0 {
		t.Fatalf("%d fixtures are not explained, see TestEffective", len(faults))
	}
	want := documentText(tallies, witnessPairs(t))
	if *update {
		if err := os.WriteFile(document, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("run go test ./test/conformance -run Document -update: %s", diff)
	}
}

func documentText(tallies map[string]*tally, pairs []pair) string {
	var b strings.Builder
	b.WriteString(documentHead)
	fmt.Fprintf(&b, "\n## Effective: %d fixtures on each node\n\n", allFixtures)
	b.WriteString(`"Allowed" and "refused" are pods of which a node allows all bundles, or refuses one. "Not started" are pods that the kubelet itself
refuses on that node: for another operating system, runAsNonRoot with an image or user that is root, no AppArmor, no user
namespaces, a volume plugin that there is no more. "Unseen" are pods that upstream refuses, of which all bundles are allowed, each
with another pod that upstream allows and that has the same bundles.

| node | upstream allows | allowed | refused | not started | upstream refuses | refused | not started | unseen |
|---|--:|--:|--:|--:|--:|--:|--:|--:|
`)
	for _, v := range views() {
		c := tallies[v.name]
		fmt.Fprintf(&b, "| %s | %d | %d | %d | %d | %d | %d | %d | %d |\n",
			v.name, c.passes, c.passAllowed, c.passAmbiguous, c.passNotStarted, c.fails, c.failRefused, c.failNotStarted, c.failUnseen)
	}
	b.WriteString(documentNodes)
	b.WriteString("\n## What bundles don't show\n\nCounts are of fixtures, on the nodes in the order of the table above. A fixture may need several classes.\n\n| class | fixtures | why |\n|---|---|---|\n")
	for _, r := range slices.Concat(rules, reverse) {
		var n []string
		for _, v := range views() {
			n = append(n, fmt.Sprint(tallies[v.name].classes[r.name]))
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.name, strings.Join(n, ", "), oneLine(r.text))
	}
	b.WriteString(documentWitnesses)
	for _, p := range pairs {
		who := "upstream refuses the first and allows the second; both are allowed on the node"
		if p.refused {
			who = "upstream allows the first and refuses the second; both are refused on the node"
		}
		fmt.Fprintf(&b, "\n**%s** (%s, %s): %s.\n\n```\n%s```\n", p.class, p.view, p.standard, who, difference(p.pod, p.other))
	}
	fmt.Fprintf(&b, documentTail, million)
	return b.String()
}

// difference lists where two pods are not the same.
func difference(a, b *corev1.Pod) string {
	x, y := map[string]string{}, map[string]string{}
	flatten("", generic(a), x)
	flatten("", generic(b), y)
	var out strings.Builder
	keys := sortedKeys(x)
	for k := range y {
		if _, ok := x[k]; !ok {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	none := func(m map[string]string, k string) string {
		if v, ok := m[k]; ok {
			return v
		}
		return "(unset)"
	}
	for _, k := range keys {
		if x[k] != y[k] {
			fmt.Fprintf(&out, "%s: %s | %s\n", strings.TrimPrefix(k, "."), none(x, k), none(y, k))
		}
	}
	return out.String()
}

func generic(p *corev1.Pod) any {
	var out any
	if err := json.Unmarshal(mustJSON(p), &out); err != nil {
		panic(err)
	}
	return out
}

func flatten(path string, v any, into map[string]string) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			if strings.Contains(k, ".") {
				k = "[" + k + "]"
			} else {
				k = "." + k
			}
			flatten(path+k, x, into)
		}
	case []any:
		if len(v) > 0 {
			if _, flat := v[0].(string); flat {
				into[path] = string(mustJSON(v))
				return
			}
		}
		for i, x := range v {
			flatten(fmt.Sprintf("%s[%d]", path, i), x, into)
		}
	default:
		into[path] = string(mustJSON(v))
	}
}

const documentHead = `# Equal to Pod Security admission, and where not

<!-- Generated: go test ./test/conformance -run Document -update -->

The presets baseline and restricted are upstream's Pod Security Standards (k8s.io/pod-security-admission v0.37.2, versions v1.0 to
v1.37). Upstream judges pod objects. nodeadmit judges what containers are given: their config.json. This page says where the two
come to different verdicts, and proves of each difference that it can't be otherwise.

The proof: where upstream refuses a pod and its bundles are allowed, there is a second pod that upstream allows and that comes to the
same bundles, byte for byte. Nobody who sees bundles alone can tell the two apart. What makes the second pod of the first names the
class. Three things are not compared: the order in which a container's capabilities are listed, where it is one of the classes on
capabilities; the user of the sandbox's own process (podUserOverridden); and on CRI-O, which hands a pod's annotations on, those that
nobody obeys (probeHosts, seccompAnnotations, appArmorOverridden).

What a node can't see, a pod source can: the kubelet's Pods API, its /pods, static manifests. And what upstream can't see, a node can:
what an image's USER comes to, what is behind a claim and a symbolic link, pods that no API server was asked about.
`

const documentNodes = `
All nodes but "no AppArmor, no SELinux" have both, which no real one has: so all that a pod asks for leaves its traces. Images have a USER that is not
root, as the fixtures' registry.k8s.io/pause has, but for "image with USER root". "Volumes mounted" mounts each volume of a fixture into all
of its containers: upstream's fixtures mount none.
`

const documentWitnesses = `
**seccompUnconfined where it could be told.** Where the kubelet runs with seccompDefault, a pod that says nothing has a profile, so that none is an
explicit Unconfined. A bundle doesn't say how the kubelet runs: set ` + "`seccompProfile: {required: true}`" + ` there, which is upstream's baseline on such a node (TestSeccompDefault).

## A witness for each class

What differs between the two pods: path, value in the first, value in the second. A claim's name says to what it is bound: "nfs.pv" to an nfs volume "pv".
`

const documentTail = `
## The translation

Bundles are made of pods by a translation: the kubelet's requests (kuberuntime 1.37), and what containerd 1.6, containerd 2 and CRI-O 1.37 write for
them. It is held to real bundles, all of config.json but ids, process numbers, environment, OOM scores and the contents of seccomp profiles:

- those in test/testdata, which containerd 1.6.20 and 2.4.2 and CRI-O 1.37.0 wrote (of CRI-O's annotations those that are read);
- those that real containerds write in the end-to-end test for every distinct fixture that a node would start: 910 by containerd 1.6.20 and 926 by
  2.4.2 when this was written, and the test fails below 300 each. Containers in user namespaces are not among them where the machine
  doesn't allow those; sandboxes are.

No real bundle with AppArmor or SELinux is among either: these two are translated by reading the engines' source.

## Random pods

TestRandomPods makes pods of all fields that the standards read, with odd spellings, and looks at each on a random node at baseline and
restricted of a random version. Every difference must be explained by the classes above. It runs over 3,000 pods with the unit tests;
%s

## Declared

With ` + "`basis: Declared`" + `, and in ` + "`nodeadmit check --policy P --pod FILE`" + ` whatever the basis, the pod object is judged: by upstream's own evaluator at the
policy's preset and version, after the API's defaults that a check reads. It is equal to upstream on all 4537 fixtures, and on random pods.
What a policy adds:

- **A control that the policy names** judges what the pod declares by its settings. What it finds is reported in its words. If it finds nothing, and would
  with the preset's settings, the policy allows what upstream forbids (` + "`capabilities: {allowAdd: [SYS_PTRACE]}`" + `). If it would find nothing either way,
  upstream's finding stands: dropping every capability by name is not drop ALL.
- **Exemptions** take a check off if they match every container that fails it. args, mounts, runtimeHandler and staticPod are not said by a
  pod, and don't match.
- **Two checks have no control**, since no node can tell them: they stand under upstream's names, hostProbesAndHostLifecycle and windowsHostProcess, and
  can't be relaxed.
- **What a pod doesn't say** is undetermined and refuses nothing here: its image's user, devices of device plugins, whether /sys and the cgroup
  filesystem can be written. The bundle is judged when it is made.
- AppArmor's RuntimeDefault, and no profile, is called "runtime/default" here (` + "`appArmorProfile: {profiles: [...]}`" + `).

On the container path there is no pod object without a pod source. ` + "`onSourceUnavailable`" + ` says what a policy of basis Declared does then: ` + "`Effective`" + ` (the default)
judges the bundle, ` + "`Deny`" + ` refuses every pod.
`

// million says how many were looked at once, by hand.
const million = `1,000,000 were looked at once by hand, on 1 December 2026: 2,000,000 verdicts without a difference that isn't explained, of which 1,467,535 were
equal, 167,046 unseen, 4,347 refused as one of two pods with the same bundles, and 361,072 not to be compared because the kubelet doesn't start the pod.`
