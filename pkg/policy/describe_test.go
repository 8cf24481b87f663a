package policy

import (
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAPolicyIsDescribedWithThePlaceOfEachSetting(t *testing.T) {
	policies, err := Parse("p.yaml", []byte(`apiVersion: nodeadmit.dev/v1alpha1
kind: NodePolicy
metadata: {name: p}
spec:
  preset: baseline
  version: v1.20
  controls:
    hostPaths:
      mode: Audit
      allow: [{pathPrefix: /var/log, readOnly: true}]
    readOnlyRootFilesystem: {}
`))
	if err != nil {
		t.Fatal(err)
	}
	active := map[string]ActiveControl{}
	for _, c := range policies[0].Active() {
		active[c.Name] = c
	}
	for name, want := range map[string]ActiveControl{
		"hostPID": {
			Name: "hostPID", Mode: Enforce, OnUndetermined: "Deny", From: "preset baseline v1.20",
			Settings: []Setting{{"allow", false, "preset baseline v1.20"}},
		},
		"hostPaths": {
			Name: "hostPaths", Mode: Audit, OnUndetermined: "Deny", From: "p.yaml",
			Settings: []Setting{{"allow", []any{map[string]any{"pathPrefix": "/var/log", "readOnly": true}}, "p.yaml:10"}},
		},
		"readOnlyRootFilesystem": {
			Name: "readOnlyRootFilesystem", Mode: Enforce, OnUndetermined: "Deny", From: "p.yaml",
			Settings: []Setting{{"required", true, "default"}},
		},
		"hostPorts": {
			Name: "hostPorts", Mode: Enforce, OnUndetermined: "Allow", From: "preset baseline v1.20",
			Settings: []Setting{{"allow", []any{}, "preset baseline v1.20"}},
		},
	} {
		if diff := cmp.Diff(want, active[name]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	if _, ok := active["volumes"]; ok {
		t.Error("volumes is not in baseline")
	}
}

func TestEveryOtherNameIsOfAFieldThatThereIs(t *testing.T) {
	have := map[string]bool{}
	for _, c := range Controls() {
		r := c.preset(Restricted, Version{latest: true})
		if r == nil {
			continue
		}
		typ := reflect.TypeOf(r)
		for i := range typ.NumField() {
			have[typ.Name()+"."+typ.Field(i).Name] = true
		}
	}
	have["writable.sys"] = true // of no preset
	for name := range yamlNames {
		if !have[name] {
			t.Errorf("%s is no field of a rule", name)
		}
	}
}
