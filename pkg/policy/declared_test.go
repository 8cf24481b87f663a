package policy

import (
	"strings"
	"testing"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

func TestBasisWithoutAPod(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spec    string
		kind    spec.Kind
		allowed bool
	}{
		"Declared judges the bundle where no pod is at hand": {"{basis: Declared}", spec.KindContainer, true},
		"or refuses it":            {"{basis: Declared, onSourceUnavailable: Deny}", spec.KindContainer, false},
		"at the sandbox already":   {"{basis: Declared, onSourceUnavailable: Deny}", spec.KindSandbox, false},
		"but not what is no pod's": {"{basis: Declared, onSourceUnavailable: Deny}", spec.KindUnmanaged, true},
		"Audit says so":            {"{basis: Declared, onSourceUnavailable: Deny, mode: Audit}", spec.KindSandbox, true},
		"Effective needs no pod":   {"{basis: Effective}", spec.KindContainer, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			policies, err := Parse("p", []byte("apiVersion: nodeadmit.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: p}\nspec: "+c.spec+"\n"))
			if err != nil {
				t.Fatal(err)
			}
			d := (&Set{Policies: policies}).Evaluate(&spec.Intent{Kind: c.kind})
			if d.Allowed != c.allowed {
				t.Errorf("allowed is %v, want %v: %v", d.Allowed, c.allowed, d.Violations)
			}
		})
	}
}

func TestBasisFaults(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{
		"{basis: Declred}":                                   "want Effective or Declared",
		"{onSourceUnavailable: Deny}":                        "basis Declared",
		"{basis: Declared, onSourceUnavailable: Refuse}":     "onSourceUnavailable",
		"{basis: Effective, onSourceUnavailable: Effective}": "basis Declared",
	} {
		_, err := Parse("p", []byte("apiVersion: nodeadmit.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: p}\nspec: "+spec+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q in it", spec, err, want)
		}
	}
}
