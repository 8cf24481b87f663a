package test

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

var update = flag.Bool("update", false, "write the golden intents anew")

// bundles are all bundles of all engines, with the engine.
func bundles(t testing.TB) map[string]spec.Dialect {
	t.Helper()
	out := map[string]spec.Dialect{}
	for _, d := range []spec.Dialect{spec.Containerd, spec.CRIO, spec.Podman} {
		files, err := filepath.Glob("testdata/" + string(d) + "/*/*/*config.json")
		if err != nil || len(files) == 0 {
			t.Fatalf("no bundles of %s: %v", d, err)
		}
		for _, f := range files {
			out[f] = d
		}
	}
	return out
}

func intent(t testing.TB, data []byte, d spec.Dialect) *spec.Intent {
	t.Helper()
	doc, err := spec.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	in, err := spec.Map(doc, spec.Options{Engine: spec.NewEngine(d)})
	if err != nil {
		t.Fatal(err)
	}
	return in
}

// The intent of every bundle, fact by fact, as testdata/intent has it.
func TestTheIntentOfEveryBundleIsTheGoldenOne(t *testing.T) {
	for name, d := range bundles(t) {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			in := intent(t, data, d)
			got, err := json.MarshalIndent(map[string]any{"kind": in.Kind, "facts": lines(in), "ignored": in.Ignored}, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			golden := strings.Replace(name, "testdata/", "testdata/intent/", 1)
			if *update {
				if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// lines are the facts, one text each: a change shows as one line.
func lines(in *spec.Intent) []string {
	var out []string
	for _, f := range in.Facts() {
		text := f.Name + " = " + f.Text() + " (" + f.Certainty + ", " + f.Source + ")"
		if f.Forgeable {
			text += " by author"
		}
		out = append(out, text)
	}
	return out
}

// shuffled returns the document with its keys and mounts in another order and
// with annotations of another engine and of nobody.
func shuffled(t testing.TB, data []byte, d spec.Dialect, r *rand.Rand) []byte {
	t.Helper()
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	var mounts []json.RawMessage
	if err := json.Unmarshal(doc["mounts"], &mounts); err != nil {
		t.Fatal(err)
	}
	r.Shuffle(len(mounts), func(i, j int) { mounts[i], mounts[j] = mounts[j], mounts[i] })
	annotations := map[string]string{}
	if raw, ok := doc["annotations"]; ok {
		if err := json.Unmarshal(raw, &annotations); err != nil {
			t.Fatal(err)
		}
	}
	foreign := map[string]string{
		"example.com/anything":                               "x",
		"io.podman.annotations.privileged":                   "FALSE",
		"io.kubernetes.cri-o.ContainerType":                  "sandbox",
		"io.kubernetes.cri-o.Namespace":                      "kube-system",
		"io.kubernetes.cri-o.PrivilegedRuntime":              "false",
		"io.kubernetes.cri-o.HostNetwork":                    "false",
		"io.kubernetes.docker.type":                          "podsandbox",
		"io.container.manager":                               "nobody",
		"io.kubernetes.cri.sandbox-log-directory":            "/x",
		"io.kubernetes.cri.sandbox-memory":                   "1",
		"nodeadmit.dev/exempt":                               "true",
		"container.apparmor.security.beta.kubernetes.io/app": "unconfined",
	}
	if d != spec.Containerd {
		// Of containerd, whose keys mean nothing elsewhere.
		for k, v := range map[string]string{
			"container-type": "sandbox", "sandbox-id": "x", "sandbox-name": "x", "sandbox-namespace": "kube-system", "sandbox-uid": "x",
		} {
			foreign["io.kubernetes.cri."+k] = v
		}
	}
	for k, v := range foreign {
		if r.IntN(2) == 0 {
			if _, own := annotations[k]; !own {
				annotations[k] = v
			}
		}
	}
	doc["mounts"], _ = json.Marshal(mounts)
	doc["annotations"], _ = json.Marshal(annotations)
	keys := make([]string, 0, len(doc))
	for k := range doc {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	var b strings.Builder
	for i, k := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		name, _ := json.Marshal(k)
		b.Write(name)
		b.WriteByte(':')
		b.Write(doc[k])
	}
	return []byte("{" + b.String() + "}")
}

func TestOrderAndForeignAnnotationsNeverTurnADenyIntoAnAllow(t *testing.T) {
	const seed = 20261201
	r := rand.New(rand.NewPCG(seed, seed))
	sets := []*policy.Set{preset(t, "baseline"), preset(t, "restricted")}
	all := bundles(t)
	names := make([]string, 0, len(all))
	for n := range all {
		names = append(names, n)
	}
	slices.Sort(names)
	denied := 0
	for _, name := range names {
		d := all[name]
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		in := intent(t, data, d)
		for range 8 {
			other := intent(t, shuffled(t, data, d, r), d)
			if other.Kind != in.Kind || other.Pod.Namespace != in.Pod.Namespace {
				t.Errorf("%s: a %s of %q became a %s of %q", name, in.Kind, in.Pod.Namespace.Value, other.Kind, other.Pod.Namespace.Value)
			}
			for _, set := range sets {
				was, is := set.Evaluate(in), set.Evaluate(other)
				if !was.Allowed {
					denied++
				}
				if !was.Allowed && is.Allowed {
					t.Errorf("%s: denied, and allowed when shuffled: %s", name, was.Refusal(in))
				}
			}
		}
	}
	if denied < 500 {
		t.Errorf("only %d of the cases were denials", denied)
	}
}

func FuzzMap(f *testing.F) {
	for name := range bundles(f) {
		if data, err := os.ReadFile(name); err == nil && strings.Contains(name, "plain") {
			f.Add(data, "io.kubernetes.cri.container-type", "sandbox")
		}
	}
	policies, err := policy.Parse("p", []byte("apiVersion: nodeadmit.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: p}\nspec: {preset: restricted}\n"))
	if err != nil {
		f.Fatal(err)
	}
	set := &policy.Set{Policies: policies}
	f.Fuzz(func(t *testing.T, data []byte, key, value string) {
		doc, err := spec.Parse(data)
		if err != nil {
			return
		}
		if doc.Spec.Annotations == nil {
			doc.Spec.Annotations = map[string]string{}
		}
		doc.Spec.Annotations[key] = value
		for _, d := range spec.Dialects {
			in, err := spec.Map(doc, spec.Options{Engine: spec.NewEngine(d)})
			if err != nil {
				continue
			}
			decision := set.Evaluate(in)
			line := decision.Refusal(in)
			if len(line) > 800 || strings.ContainsAny(line, "\n\r\x1b") {
				t.Errorf("refusal of %d bytes: %q", len(line), line)
			}
			in.Facts()
		}
	})
}
