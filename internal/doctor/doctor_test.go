package doctor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

func TestKnownEscapes(t *testing.T) {
	for version, want := range map[string]int{
		"1.1.5": 2, "1.1.11": 2, "1.1.12": 1, "1.2.7": 1, "1.2.8": 0, "1.3.2": 1, "1.3.3": 0, "1.4.0-rc.1": 1, "1.4.0": 0, "1.5.3": 0, "1.0.0-rc93": 2, "1.6.0-rc.1": 0,
	} {
		m := versionPattern.FindStringSubmatch("runc version " + version + "\nspec: 1.2.0\n")
		if m == nil {
			t.Fatalf("%s: not read", version)
		}
		got := 0
		for _, e := range runcEscapes {
			if e.in(m[1:4], m[4]) {
				got++
			}
		}
		if got != want {
			t.Errorf("%s has %d known escapes, want %d", version, got, want)
		}
	}
}

func TestCheckHook(t *testing.T) {
	program := filepath.Join(t.TempDir(), "oci-hook")
	if err := os.WriteFile(program, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	good := `{"version":"1.0.0","hook":{"path":"` + program + `","env":["PATH=/bin"]},"when":{"always":true},"stages":["createRuntime"]}`
	if err := checkHook("f", []byte(good)); err != nil {
		t.Error(err)
	}
	for was, is := range map[string]string{program: "/nonexistent", `:true`: `:"true"`, `"PATH=/bin"`: ``, "createRuntime": "createContainer", "{\"version\"": "{{"} {
		if err := checkHook("f", []byte(strings.Replace(good, was, is, 1))); err == nil {
			t.Errorf("with %s it passes", is)
		}
	}
}

// A container that asks for nothing is allowed by every preset, in every
// dialect, or doctor's proof would fail on a healthy node.
func TestPlainContainer(t *testing.T) {
	for _, d := range []spec.Dialect{spec.Containerd, spec.CRIO} {
		for _, preset := range []string{"baseline", "restricted"} {
			set, err := policy.Load("../../packaging/policies/"+preset+".yaml", policy.LoadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			in, err := plainContainer(spec.NewEngine(d))
			if err != nil {
				t.Fatal(err)
			}
			if got := set.Evaluate(in); !got.Allowed {
				t.Errorf("%s, %s: %s", d, preset, got.Refusal(in))
			}
		}
	}
}
