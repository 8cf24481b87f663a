package cel

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// load compiles the documents of one file.
func load(t testing.TB, text string) (*Policies, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	set, err := policy.Load(dir, policy.LoadOptions{})
	if err != nil {
		return nil, err
	}
	return Load(set.External)
}

// rule is a policy for pods with one validation, and its binding. more is YAML of
// the spec, annotation the policy's annotations.
func rule(expression, more, annotation string) string {
	quoted, _ := json.Marshal(expression)
	return fmt.Sprintf(`apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p, annotations: {%s}}
spec:
  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}
  validations: [{expression: %s}]
  %s
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: b}
spec: {policyName: p, validationActions: [Deny]}
`, annotation, quoted, more)
}

// intent maps one of the bundles that real engines wrote.
func intent(t testing.TB, bundle string) (*spec.Intent, []byte) {
	t.Helper()
	doc, err := spec.ReadFile(filepath.Join("../../test/testdata", bundle))
	if err != nil {
		t.Fatal(err)
	}
	dialect, _ := spec.ParseDialect(strings.Split(bundle, "/")[0])
	in, err := spec.Map(doc, spec.Options{Engine: spec.NewEngine(dialect)})
	if err != nil {
		t.Fatal(err)
	}
	return in, doc.Raw
}

// Results of a rule, in short.
const (
	holds   = "true"
	refuses = "false"
	unknwn  = "unknown"
	fails   = "error"
)

// verdict evaluates a rule and sorts what it says.
func verdict(t testing.TB, text string, in *Input) (string, string) {
	t.Helper()
	ps, err := load(t, text)
	if err != nil {
		t.Fatal(err)
	}
	r, err := ps.Evaluate(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	for _, v := range r.Violations {
		said = v.Message
	}
	for _, n := range r.Undetermined {
		said = n.Message
	}
	switch {
	case said == "":
		return holds, ""
	case strings.Contains(said, "depends on"):
		return unknwn, said
	case strings.Contains(said, "resulted in error"):
		return fails, said
	}
	return refuses, said
}

const (
	aContainer = "containerd/2.4.2/plain/container.config.json"
	aSandbox   = "containerd/2.4.2/plain/sandbox.config.json"
)

// TestUnknowns is the table of what is known of a container that asks for nothing,
// and what is not.
func TestUnknowns(t *testing.T) {
	all := func(predicate string) string {
		return "object.spec.containers.all(c, " + predicate + ")"
	}
	for _, c := range []struct{ expression, container, sandbox string }{
		{"true", holds, holds},
		{"!has(object.spec.hostNetwork) || !object.spec.hostNetwork", holds, holds},
		{"has(object.spec.hostNetwork) && object.spec.hostNetwork", refuses, refuses},
		{"object.metadata.namespace == 'team-a'", holds, holds},
		{"request.namespace == 'team-a' && request.operation == 'CREATE' && request.kind.kind == 'Pod'", holds, holds},
		{"oldObject == null", holds, holds},
		{"namespaceObject.metadata.name == 'team-a'", holds, holds},

		// What is never seen, and has() of it.
		{"object.metadata.labels['a'] == 'b'", unknwn, unknwn},
		{"has(object.metadata.labels)", unknwn, unknwn},
		{"!has(object.metadata.labels)", unknwn, unknwn},
		{"has(object.metadata.labels) && 'a' in object.metadata.labels", unknwn, unknwn},
		{"object.metadata.labels.exists(l, l == 'a')", unknwn, unknwn},
		{"size(object.metadata.labels) > 0", unknwn, unknwn},
		{"object.?metadata.?labels.orValue({}).size() == 0", unknwn, unknwn},
		{"object.spec.?serviceAccountName.orValue('default') == 'default'", unknwn, unknwn},
		// What is known differs, but CEL looked at sizes on the way.
		{"object.spec == {}", unknwn, unknwn},
		{"object.metadata == {'name': 'x'}", unknwn, unknwn},
		{"object.spec.all(k, k != 'nodeName')", unknwn, unknwn},
		{"size(object.spec) > 2", unknwn, unknwn},
		{"request.userInfo.username == 'me'", unknwn, unknwn},
		{"authorizer.group('').resource('pods').check('get').allowed()", unknwn, unknwn},
		{"namespaceObject.metadata.labels['env'] == 'prod'", unknwn, unknwn},

		// Kleene's logic: what is known can decide.
		{"has(object.metadata.labels) || true", holds, holds},
		{"has(object.metadata.labels) && false", refuses, refuses},
		{"object.metadata.namespace == 'other' && object.metadata.labels['a'] == 'b'", refuses, refuses},
		{"has(object.metadata.labels) ? true : true", unknwn, unknwn},

		// One container speaks for itself.
		{all("c.image.startsWith('registry.local/')"), holds, unknwn},
		{all("c.image.startsWith('other/')"), refuses, unknwn},
		{all("!has(c.securityContext.privileged) || !c.securityContext.privileged"), holds, unknwn},
		{all("has(c.resources) && has(c.resources.limits)"), unknwn, unknwn},
		{all("has(c.env)"), unknwn, unknwn},
		{all("!has(c.livenessProbe)"), unknwn, unknwn},
		{"!object.spec.containers.exists(c, c.image.endsWith(':latest'))", holds, unknwn},
		{"!('registry.local/app:1' in object.spec.containers.map(c, c.image))", refuses, unknwn},
		{"sets.contains(['registry.local/app:1'], object.spec.containers.map(c, c.image))", holds, unknwn},
		{"object.spec.containers.filter(c, c.image.endsWith(':latest')).all(c, false)", holds, unknwn},
		{"has(object.spec.containers)", holds, unknwn},

		// What needs its pod's other containers.
		{"size(object.spec.containers) <= 3", unknwn, unknwn},
		{"object.spec.containers[0].image == 'registry.local/app:1'", unknwn, unknwn},
		{"object.spec.containers.exists(c, c.name == 'proxy')", unknwn, unknwn},
		{"object.spec.containers.exists(c, c.image == 'registry.local/app:1')", holds, unknwn},
		{"object.spec.containers.exists_one(c, c.image == 'registry.local/app:1')", unknwn, unknwn},
		{"object.spec.containers.filter(c, c.name == 'proxy').size() == 0", unknwn, unknwn},
		{"!(object.spec.containers.exists(c, c.name == 'a') && object.spec.containers.exists(c, c.name == 'b'))", unknwn, unknwn},
		{all("c.image == 'x'") + " || " + all("c.image != 'x'"), unknwn, unknwn},
		{all("object.spec.containers.all(d, c.image == d.image)"), unknwn, unknwn},
		{"object.spec.containers == []", unknwn, unknwn},
		{"dyn(object).spec.containers.size() > 0", unknwn, unknwn},

		// Any kind of container.
		{"!has(object.spec.initContainers)", unknwn, unknwn},
		{"!has(object.spec.initContainers) || object.spec.initContainers.all(c, c.image.startsWith('registry.local/'))", holds, unknwn},
		{"!has(object.spec.initContainers) || object.spec.initContainers.all(c, c.image.startsWith('other/'))", unknwn, unknwn},
		{"object.spec.?initContainers.orValue([]).all(c, c.image.startsWith('registry.local/'))", holds, unknwn},
		{"(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : []) + " +
			"(has(object.spec.ephemeralContainers) ? object.spec.ephemeralContainers : [])).all(c, c.image.startsWith('other/'))", refuses, unknwn},
		{"(object.spec.containers + object.spec.?initContainers.orValue([])).all(c, c.image.startsWith('registry.local/'))", holds, unknwn},
		{"[object.spec.?containers, object.spec.?initContainers].all(l, true)", unknwn, unknwn},

		// Volumes are those that the container mounts.
		{"!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.hostPath))", holds, unknwn},
		{"object.spec.?volumes.orValue([]).size() < 3", unknwn, unknwn},

		// The runtime's own words.
		{"oci.process.cwd == '/'", holds, holds},
		{"node.engine == 'containerd' && node.name == 'here'", holds, holds},
		{"node.runtimeHandler == 'runc'", unknwn, unknwn},

		// Errors stay errors.
		{"object.metadata.nonsense == 'x'", fails, fails},
	} {
		t.Run("", func(t *testing.T) {
			for bundle, want := range map[string]string{aContainer: c.container, aSandbox: c.sandbox} {
				in, raw := intent(t, bundle)
				got, said := verdict(t, rule(c.expression, "", ""), &Input{Intent: in, Spec: raw, Node: Node{"here", "6.1"}})
				if got != want {
					t.Errorf("%s\n%s: got %s, want %s (%s)", c.expression, filepath.Base(bundle), got, want, said)
				}
			}
		})
	}
}
