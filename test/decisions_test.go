package test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	yaml "go.yaml.in/yaml/v3"

	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// expected is one case of testdata/decisions.yaml.
type expected struct {
	Why       string              `yaml:"why"`
	Sandbox   []string            `yaml:"sandbox"`
	Container map[string][]string `yaml:"container"`
	V1620     *expected           `yaml:"1.6.20"`
}

// of returns the controls that a bundle must violate.
func (e *expected) of(version, file, preset string) []string {
	if version == "1.6.20" && e.V1620 != nil {
		o := *e.V1620
		if o.Container == nil {
			o.Container = e.Container
		}
		e = &o
	}
	switch {
	case preset == "privileged":
		return nil
	case file == "sandbox":
		return e.Sandbox
	}
	return e.Container[preset]
}

func preset(t *testing.T, name string) *policy.Set {
	t.Helper()
	policies, err := policy.Parse(name, []byte("apiVersion: nodeadmit.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: "+name+"}\nspec: {preset: "+name+"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return &policy.Set{Policies: policies}
}

func TestEveryContainerdBundleIsDecidedAsWrittenDown(t *testing.T) {
	data, err := os.ReadFile("testdata/decisions.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]*expected
	if err := yaml.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	sets := map[string]*policy.Set{}
	for _, p := range []string{"privileged", "baseline", "restricted"} {
		sets[p] = preset(t, p)
	}
	files, err := filepath.Glob("testdata/containerd/*/*/*.config.json")
	if err != nil || len(files) < 180 {
		t.Fatalf("found %d bundles: %v", len(files), err)
	}
	seen := map[string]bool{}
	for _, name := range files {
		parts := strings.Split(name, "/")
		version, c, file := parts[2], parts[3], strings.TrimSuffix(parts[4], ".config.json")
		e := want[c]
		if e == nil || e.Why == "" {
			t.Errorf("%s: no decision is written down, or no reason for it", name)
			continue
		}
		seen[c] = true
		doc, err := spec.ReadFile(name)
		if err != nil {
			t.Error(err)
			continue
		}
		in, err := spec.Map(doc, spec.Options{Engine: spec.NewEngine(spec.Containerd)})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for p, set := range sets {
			t.Run(version+" "+c+" "+file+" under "+p, func(t *testing.T) {
				d := set.Evaluate(in)
				got := []string{}
				for _, v := range d.Violations {
					got = append(got, v.Control)
				}
				slices.Sort(got)
				controls := append([]string{}, e.of(version, file, p)...)
				slices.Sort(controls)
				if diff := cmp.Diff(controls, slices.Compact(got)); diff != "" {
					t.Errorf("%s: violated controls (-want +got): %s", e.Why, diff)
				}
				if d.Allowed != (len(controls) == 0) {
					t.Errorf("allowed: %v", d.Allowed)
				}
			})
		}
	}
	for c := range want {
		if !seen[c] {
			t.Errorf("%s: a decision for no bundle", c)
		}
	}
}
