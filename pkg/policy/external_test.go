package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const admissionPolicy = `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: p}
spec: {paramKind: {apiVersion: v1, kind: ConfigMap}}
`

// loadText loads a directory of one file.
func loadText(t *testing.T, text string) (*Set, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return Load(dir, LoadOptions{})
}

func TestKubernetesPoliciesAreLeftToTheEvaluator(t *testing.T) {
	param := "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
	binding := strings.Replace(admissionPolicy, "Policy\n", "PolicyBinding\n", 1)
	for _, c := range []struct {
		name, text string
		want       string // kinds, or part of the error
	}{
		{"a policy", admissionPolicy, "ValidatingAdmissionPolicy"},
		{"with its binding, parameters and a namespace", admissionPolicy + "---\n" + binding + param + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: n}\n",
			"ValidatingAdmissionPolicy ValidatingAdmissionPolicyBinding ConfigMap Namespace"},
		{"a list", `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"p"}}]}`, "ValidatingAdmissionPolicy"},
		{"a list of something else", `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"nodeadmit.dev/v1alpha1","kind":"NodePolicy"}]}`, `an item of a list is of kind "NodePolicy"`},
		{"parameters of no policy", strings.Replace(admissionPolicy, "ConfigMap", "Other", 1) + param, `a.yaml:6:1: kind is "ConfigMap" of "v1"`},
		{"a namespace alone", "apiVersion: v1\nkind: Namespace\nmetadata: {name: n}\n", "holds no policy"},
		{"an older version", strings.Replace(admissionPolicy, "k8s.io/v1", "k8s.io/v1beta1", 1), "want admissionregistration.k8s.io/v1"},
		{"a mutating policy", strings.Replace(admissionPolicy, "Validating", "Mutating", 1), "nodeadmit changes nothing"},
		{"a webhook", strings.Replace(admissionPolicy, "ValidatingAdmissionPolicy", "ValidatingWebhookConfiguration", 1), "plugins.d"},
		{"the same twice", admissionPolicy + "---\n" + admissionPolicy, `ValidatingAdmissionPolicy "p" is already defined in`},
		{"a NodePolicy of another version", "apiVersion: nodeadmit.dev/v2\nkind: NodePolicy\n", "want NodePolicy of nodeadmit.dev/v1alpha1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, err := loadText(t, c.text)
			if err != nil {
				if !strings.Contains(err.Error(), c.want) {
					t.Errorf("got  %v\nwant %s", err, c.want)
				}
				return
			}
			var kinds []string
			for _, e := range set.External {
				kinds = append(kinds, e.Kind)
			}
			if got := strings.Join(kinds, " "); got != c.want || !set.NeedsEvaluator() {
				t.Errorf("got %s, needs the evaluator: %v; want %s", got, set.NeedsEvaluator(), c.want)
			}
		})
	}
}
