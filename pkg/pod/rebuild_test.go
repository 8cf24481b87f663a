package pod_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/nodeadmit/nodeadmit/pkg/pod"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

var update = flag.Bool("update", false, "write golden files")

// bundles are the config.json files that real engines wrote.
const bundles = "../../test/testdata"

// fixtures returns the intents of one engine's bundles, by name.
func fixtures(t *testing.T, engine string) map[string]*spec.Intent {
	t.Helper()
	dialect, err := spec.ParseDialect(strings.Split(engine, "/")[0])
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(bundles, engine, "*", "*config.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no bundles: %v", engine, err)
	}
	out := map[string]*spec.Intent{}
	for _, file := range files {
		doc, err := spec.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		in, err := spec.Map(doc, spec.Options{Engine: spec.NewEngine(dialect)})
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		rel, _ := filepath.Rel(filepath.Join(bundles, engine), file)
		out[strings.TrimSuffix(rel, ".json")] = in
	}
	return out
}

// TestRebuildFixtures holds the pods that all real bundles come to. The unknown
// fields that all of one kind have in common stand once, at the top.
func TestRebuildFixtures(t *testing.T) {
	for _, engine := range []string{"containerd/1.6.20", "containerd/2.4.2", "crio/1.37.0", "podman/4.3.1"} {
		t.Run(engine, func(t *testing.T) {
			in := fixtures(t, engine)
			common := map[spec.Kind]map[string]int{}
			count := map[spec.Kind]int{}
			var text strings.Builder
			for _, i := range in {
				_, unknown := pod.Rebuild(i)
				count[i.Kind]++
				if common[i.Kind] == nil {
					common[i.Kind] = map[string]int{}
				}
				for _, u := range unknown {
					common[i.Kind][u]++
				}
			}
			for _, kind := range slices.Sorted(maps.Keys(common)) {
				maps.DeleteFunc(common[kind], func(_ string, n int) bool { return n < count[kind] })
				fmt.Fprintf(&text, "# unknown for every %s:\n#   %s\n", kind, strings.Join(slices.Sorted(maps.Keys(common[kind])), "\n#   "))
			}
			for _, name := range slices.Sorted(maps.Keys(in)) {
				p, list := pod.Rebuild(in[name])
				data, err := yaml.Marshal(p)
				if err != nil {
					t.Fatal(err)
				}
				// The API server's.
				body := strings.ReplaceAll(strings.ReplaceAll(string(data), "status: {}\n", ""), "  creationTimestamp: null\n", "")
				list = slices.DeleteFunc(list, func(u string) bool { return common[in[name].Kind][u] > 0 })
				fmt.Fprintf(&text, "---\n# %s\n%s", name, body)
				if len(list) > 0 {
					fmt.Fprintf(&text, "# unknown: %s\n", strings.Join(list, " "))
				}
			}
			golden := filepath.Join("testdata", strings.ReplaceAll(engine, "/", "-")+".yaml")
			if *update {
				if err := os.MkdirAll("testdata", 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
