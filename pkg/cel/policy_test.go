package cel

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

const (
	always = `  matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]}` + "\n"
	falsy  = `  validations: [{expression: "false", message: "no"}]` + "\n"
)

// policyText is a policy of that spec and a binding of that spec.
func policyText(spec, binding string) string {
	if binding == "" {
		binding = "  validationActions: [Deny]\n"
	}
	return "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p}\nspec:\n" + spec +
		"---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\nmetadata: {name: b}\nspec:\n  policyName: p\n" + binding
}

// TestPolicies evaluates whole policies on a container in namespace team-a whose
// image is registry.local/app:1. want is what is said, in parts; "" is nothing.
func TestPolicies(t *testing.T) {
	deny := "Enforce " + `policy "p": `
	for _, c := range []struct {
		name, spec, binding, more string
		want                      []string
	}{
		{"message", always + falsy, "", "", []string{deny + "no"}},
		{"no message", always + "  validations: [{expression: \"false\"}]\n", "", "", []string{deny + "failed expression: false"}},
		{"message expression, quoted", always + `  validations: [{expression: "false", messageExpression: "'image ' + object.spec.containers[0].image"}]` + "\n", "", "",
			[]string{deny + `"image registry.local/app:1"`}},
		{"message expression that fails, or depends on what isn't known", always +
			`  validations: [{expression: "false", messageExpression: "string(object.metadata.labels['x'])", message: plain}, {expression: "false", messageExpression: "string(object.spec.containers[7].name)", message: text}]` + "\n",
			"", "", []string{deny + "plain", deny + "text"}},
		{"a message of several lines is one", always + `  validations: [{expression: "false", messageExpression: "'a\\nb'", message: "c\nd"}]` + "\n", "", "", []string{deny + "c d"}},
		{"Audit", always + falsy, "  validationActions: [Audit]\n", "", []string{`Audit policy "p": no`}},
		{"Warn", always + falsy, "  validationActions: [Warn, Audit]\n", "", []string{`Audit policy "p": no`, `note warning: policy "p": no`}},
		{"variables", always + `  variables: [{name: spec, expression: object.spec}, {name: all, expression: "variables.spec.containers + (has(variables.spec.initContainers) ? variables.spec.initContainers : [])"}]
  validations: [{expression: "variables.all.all(c, c.image.startsWith('registry.local/'))"}, {expression: "variables.all.size() == 1", message: size}]` + "\n", "", "",
			[]string{deny + "spec.validations[1] can't be decided on a node: it depends on"}},
		{"a variable that fails", always + `  variables: [{name: v, expression: object.metadata.nonsense}]
  validations: [{expression: "variables.v == 'x'"}]` + "\n", "", "", []string{deny + `expression 'variables.v == 'x'' resulted in error: composited variable "v" fails to evaluate`}},
		{"failurePolicy Ignore", "  failurePolicy: Ignore\n" + always + `  validations: [{expression: "object.nonsense == 'x'"}, {expression: "false", message: no}]` + "\n", "", "", []string{deny + "no"}},
		{"failurePolicy Ignore doesn't cover what isn't known", "  failurePolicy: Ignore\n" + always + `  validations: [{expression: "has(object.metadata.labels)"}]` + "\n", "", "",
			[]string{deny + "spec.validations[0] can't be decided on a node: it depends on object.metadata.labels"}},

		{"a match condition that doesn't hold", always + `  matchConditions: [{name: m, expression: "request.namespace == 'other'"}]` + "\n" + falsy, "", "", nil},
		{"one that holds", always + `  matchConditions: [{name: m, expression: "request.namespace == 'team-a'"}]` + "\n" + falsy, "", "", []string{deny + "no"}},
		{"one that depends on what isn't known", always + `  matchConditions: [{name: m, expression: "!('system:nodes' in request.userInfo.groups)"}]` + "\n" + falsy, "", "",
			[]string{deny + `no, but whether match condition "m" holds depends on request.userInfo`}},
		{"which doesn't matter where all holds", always + `  matchConditions: [{name: m, expression: "!('system:nodes' in request.userInfo.groups)"}]
  validations: [{expression: "true"}]` + "\n", "", "", nil},
		{"false beats an error", always + `  matchConditions: [{name: e, expression: "object.nonsense == 'x'"}, {name: m, expression: "false"}]` + "\n" + falsy, "", "", nil},
		{"an error of a match condition", always + `  matchConditions: [{name: e, expression: "object.nonsense == 'x'"}]` + "\n" + falsy, "", "", []string{deny + "expression 'object.nonsense == 'x'' resulted in error"}},
		{"other containers count for a match condition", always + `  matchConditions: [{name: m, expression: "object.spec.containers.all(c, c.name != 'proxy')"}]` + "\n" + falsy, "", "",
			[]string{deny + `no, but whether match condition "m" holds depends on object.spec.containers`}},

		{"not about pods", strings.Replace(always, "pods", "deployments", 1) + falsy, "", "", nil},
		{"about everything", strings.NewReplacer(`[""]`, `["*"]`, "[v1]", `["*"]`, "[pods]", `["*"]`, "[CREATE]", `["*"]`).Replace(always) + falsy, "", "", []string{deny + "no"}},
		{"about updates", strings.Replace(always, "CREATE", "UPDATE", 1) + falsy, "", "", nil},
		{"about ephemeral containers, which look like all others", strings.NewReplacer("CREATE", "UPDATE", "pods", "pods/ephemeralcontainers").Replace(always) + falsy, "", "", []string{deny + "no"}},
		{"about exec", strings.NewReplacer("CREATE", "CONNECT", "pods", "pods/exec").Replace(always) + falsy, "", "", nil},
		{"with an exception", strings.Replace(always, "}]}", "}], excludeResourceRules: [{apiGroups: [\"\"], apiVersions: [v1], operations: [\"*\"], resources: [pods]}]}", 1) + falsy, "", "", nil},
		{"namespace by name", always + falsy, "  validationActions: [Deny]\n  matchResources: {namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [team-a]}]}}\n", "", nil},
		{"namespace by a label that isn't known", always + falsy, "  validationActions: [Deny]\n  matchResources: {namespaceSelector: {matchLabels: {env: prod}}}\n", "",
			[]string{deny + "no, but whether the policy is for this pod depends on the labels of namespace team-a"}},
		{"namespace by a label of the directory's", always + falsy, "  validationActions: [Deny]\n  matchResources: {namespaceSelector: {matchLabels: {env: prod}}}\n",
			"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team-a, labels: {env: prod}}\n", []string{deny + "no"}},
		{"another label", always + falsy, "  validationActions: [Deny]\n  matchResources: {namespaceSelector: {matchLabels: {env: prod}}}\n",
			"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team-a, labels: {env: test}}\n", nil},
		{"a pod's label", always + falsy, "  validationActions: [Deny]\n  matchResources: {objectSelector: {matchLabels: {app: x}}}\n", "",
			[]string{deny + "no, but whether the policy is for this pod depends on the pod's labels"}},
		{"namespaceObject", always + `  validations: [{expression: "namespaceObject.metadata.labels['env'] == 'test'", messageExpression: "namespaceObject.metadata.labels['env']"}]` + "\n", "",
			"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team-a, labels: {env: prod}}\n", []string{deny + `"prod"`}},

		{"parameters by name", "  paramKind: {apiVersion: v1, kind: ConfigMap}\n" + always + `  validations: [{expression: "object.spec.containers.all(c, c.image.startsWith(params.data.registry))", messageExpression: "string(params.data.registry)"}]` + "\n",
			"  validationActions: [Deny]\n  paramRef: {name: c, namespace: default, parameterNotFoundAction: Deny}\n",
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\ndata: {registry: other/}\n", []string{deny + `"other/"`}},
		{"parameters of the pod's namespace", "  paramKind: {apiVersion: v1, kind: ConfigMap}\n" + always + `  validations: [{expression: "params.data.n == '1'", messageExpression: "string(params.data.n)"}]` + "\n",
			"  validationActions: [Deny]\n  paramRef: {selector: {}, parameterNotFoundAction: Deny}\n",
			"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: team-a}\ndata: {n: \"1\"}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: d, namespace: team-a}\ndata: {n: \"2\"}\n" +
				"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: other}\ndata: {n: \"3\"}\n", []string{deny + `"2"`}},
		{"no parameters, Deny", "  paramKind: {apiVersion: v1, kind: ConfigMap}\n" + always + falsy, "  validationActions: [Deny]\n  paramRef: {name: c, parameterNotFoundAction: Deny}\n", "",
			[]string{deny + `no parameters found for binding "b"`}},
		{"no parameters, Allow", "  paramKind: {apiVersion: v1, kind: ConfigMap}\n" + always + falsy, "  validationActions: [Deny]\n  paramRef: {name: c, parameterNotFoundAction: Allow}\n", "", nil},

		{"audit annotations", always + `  auditAnnotations: [{key: k, valueExpression: "'image ' + object.spec.containers.map(c, c.image)[0]"}, {key: n, valueExpression: "null"}, {key: ns, valueExpression: "string(object.metadata.namespace)"}]` + "\n", "", "",
			[]string{`note audit annotation p/ns: "team-a"`}},
		{"the cost of one expression", always + `  validations: [{expression: "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, a+b+c+d+e > 0)))))"}]` + "\n", "", "",
			[]string{"cost limit exceeded"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ps, err := load(t, policyText(c.spec, c.binding)+c.more)
			if err != nil {
				t.Fatal(err)
			}
			in, raw := intent(t, aContainer)
			r, err := ps.Evaluate(context.Background(), &Input{Intent: in, Spec: raw})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, v := range r.Violations {
				got = append(got, string(v.Mode)+" "+v.Message)
			}
			for _, n := range r.Undetermined {
				got = append(got, "undetermined "+n.Message)
			}
			for _, n := range r.Notes {
				got = append(got, "note "+n)
			}
			if len(got) != len(c.want) {
				t.Fatalf("got  %q\nwant %q", got, c.want)
			}
			for i := range got {
				if !strings.Contains(got[i], c.want[i]) {
					t.Errorf("got  %q\nwant %q", got[i], c.want[i])
				}
			}
		})
	}
}

func TestOnUndetermined(t *testing.T) {
	in, raw := intent(t, aContainer)
	for annotation, want := range map[string]bool{"": true, OnUndetermined + ": Deny": true, OnUndetermined + ": Allow": false} {
		ps, err := load(t, rule("has(object.metadata.labels)", "", annotation))
		if err != nil {
			t.Fatal(err)
		}
		r, err := ps.Evaluate(context.Background(), &Input{Intent: in, Spec: raw})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(r.Violations) == 1; got != want || len(r.Violations)+len(r.Undetermined) != 1 {
			t.Errorf("%q: %+v", annotation, r)
		}
	}
	if _, err := load(t, rule("true", "", OnUndetermined+": Maybe")); err == nil || !strings.Contains(err.Error(), "want Deny or Allow") {
		t.Error(err)
	}
}

// TestSysctls: what only the sandbox's bundle shows is decided there, unless it is
// mixed with what only a container's shows.
func TestSysctls(t *testing.T) {
	const none = "object.spec.?securityContext.?sysctls.orValue([]).all(s, s.name != 'kernel.msgmax')"
	for expression, want := range map[string]string{
		none: holds, none + " || object.spec.containers.all(c, c.name != 'x')": unknwn + " or " + holds, none + " && object.spec.containers.all(c, c.image != '')": unknwn,
	} {
		in, raw := intent(t, aContainer)
		got, said := verdict(t, rule(expression, "", ""), &Input{Intent: in, Spec: raw})
		if !strings.Contains(want, got) {
			t.Errorf("%s: got %s (%s), want %s", expression, got, said, want)
		}
		in, raw = intent(t, aSandbox)
		if got, said := verdict(t, rule(none, "", ""), &Input{Intent: in, Spec: raw}); got != holds {
			t.Errorf("sandbox: %s (%s)", got, said)
		}
	}
}

func TestWhatDoesNotLoad(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"no binding's policy", strings.Replace(policyText(always+falsy, ""), "policyName: p", "policyName: q", 1), `there is no such policy`},
		{"an unknown field", policyText(always+falsy+"  nonsense: 1\n", ""), `unknown field "spec.nonsense"`},
		{"an expression that doesn't compile", policyText(always+`  validations: [{expression: "object.x ="}]`+"\n", ""), "spec.validations[0]: doesn't compile"},
		{"an expression of another type", policyText(always+`  validations: [{expression: "'x'"}]`+"\n", ""), "gives string: want bool"},
		{"an expression of no known type", policyText(always+`  validations: [{expression: "object.x"}]`+"\n", ""), "gives dyn: want bool"},
		{"an unknown function", policyText(always+`  validations: [{expression: "object.metadata.name.startWith('x')"}]`+"\n", ""), "undeclared reference"},
		{"an unknown variable", policyText(always+`  variables: [{name: a, expression: "1"}]
  validations: [{expression: "variables.b == 1"}]`+"\n", ""), "undefined field 'b'"},
		{"a parameter without a paramKind", policyText(always+`  validations: [{expression: "params.x"}]`+"\n", ""), "undeclared reference to 'params'"},
		{"no paramRef", policyText("  paramKind: {apiVersion: v1, kind: ConfigMap}\n"+always+falsy, ""), "paramRef is missing"},
		{"no matchConstraints", policyText(falsy, ""), "want resourceRules"},
		{"another action", policyText(always+falsy, "  validationActions: [Block]\n"), `"Block": want Deny, Warn or Audit`},
		{"a repeated key", policyText(always+falsy+falsy, ""), "already defined"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := load(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "a.yaml") {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func BenchmarkLoad50(b *testing.B) {
	text := ""
	for i := range 50 {
		text += strings.NewReplacer("{name: p,", fmt.Sprintf("{name: p%d,", i), "{name: b}", fmt.Sprintf("{name: b%d}", i), "policyName: p,", fmt.Sprintf("policyName: p%d,", i)).
			Replace(rule("object.spec.containers.all(c, c.image.startsWith('registry.local/'))", "", "")) + "---\n"
	}
	for b.Loop() {
		if _, err := load(b, text); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEvaluate(b *testing.B) {
	ps := ruleFor(b, "object.spec.containers.all(c, c.image.startsWith('registry.local/'))")
	in, raw := intent(b, aContainer)
	for b.Loop() {
		if _, err := ps.Evaluate(context.Background(), &Input{Intent: in, Spec: raw}); err != nil {
			b.Fatal(err)
		}
	}
}
