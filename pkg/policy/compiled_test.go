package policy

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
)

const twoPolicies = `apiVersion: nodeadmit.dev/v1alpha1
kind: NodePolicy
metadata: {name: one}
spec:
  preset: baseline
  controls:
    hostPaths: {allow: &logs [{pathPrefix: /var/log, readOnly: true}]}
---
apiVersion: nodeadmit.dev/v1alpha1
kind: NodePolicy
metadata: {name: two}
spec:
  mode: Audit
  controls:
    hostPaths: {allow: [{pathPrefix: /srv}]}
`

func compile(t testing.TB, text string) []byte {
	t.Helper()
	s := &Sources{Name: "x", Files: []Source{{"x.yaml", []byte(text)}}, Digest: "sha256:d"}
	_, docs, err := s.Parse()
	if err != nil {
		t.Fatal(err)
	}
	data, err := Compile(s.Digest, docs)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestACompiledPolicyIsTheSamePolicy(t *testing.T) {
	want, _, err := (&Sources{Name: "x", Files: []Source{{"x.yaml", []byte(twoPolicies)}}, Digest: "sha256:d"}).Parse()
	if err != nil {
		t.Fatal(err)
	}
	got, err := FromCompiled("copy", compile(t, twoPolicies))
	if err != nil {
		t.Fatal(err)
	}
	if got.Digest != "sha256:d" || len(got.Policies) != 2 {
		t.Fatalf("got digest %q and %d policies", got.Digest, len(got.Policies))
	}
	for i, p := range got.Policies {
		w := want.Policies[i]
		if p.Name != w.Name || p.File != w.File || p.Mode != w.Mode || p.Preset != w.Preset || len(p.active) != len(w.active) {
			t.Errorf("policy %d is %+v, want %+v", i, p, w)
		}
		for j := range p.active {
			if diff := cmp.Diff(w.active[j].rule, p.active[j].rule, cmp.Exporter(func(reflect.Type) bool { return true }), cmp.Comparer(func(a, b namespaceFact) bool { return (a == nil) == (b == nil) })); diff != "" {
				t.Errorf("policy %d, control %s: %s", i, p.active[j].control.Name, diff)
			}
		}
	}
}

func TestAnythingElseThanACompiledPolicyIsAnError(t *testing.T) {
	data := compile(t, twoPolicies)
	for i := range data {
		if _, err := FromCompiled("copy", data[:i]); err == nil {
			t.Fatalf("the first %d of %d bytes are taken", i, len(data))
		}
	}
	if _, err := FromCompiled("copy", append(data, 0)); err == nil {
		t.Error("a byte too much is taken")
	}
}

func TestDocumentsThatAliasesBlowUpAreNotCompiled(t *testing.T) {
	bomb := "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		p := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [*" + p + ",*" + p + ",*" + p + ",*" + p + ",*" + p + ",*" + p + ",*" + p + ",*" + p + "]\n"
	}
	_, nodes := strictyaml.Documents("bomb", []byte(bomb))
	if _, err := Compile("", []Documents{{"bomb", nodes}}); err == nil {
		t.Error("compiled")
	}
}

func FuzzFromCompiled(f *testing.F) {
	f.Add(compile(f, twoPolicies))
	f.Fuzz(func(t *testing.T, data []byte) {
		set, err := FromCompiled("copy", data)
		if err == nil && len(set.Policies) == 0 {
			t.Error("a copy without policies is taken")
		}
	})
}
