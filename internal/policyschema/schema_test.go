package policyschema

import (
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

var update = flag.Bool("update", false, "write the schema anew")

const shipped = "../../packaging/schema/nodepolicy-v1alpha1.json"

func TestTheShippedSchemaIsThatOfTheTypes(t *testing.T) {
	want, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(shipped, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(shipped)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("run go test ./internal/policyschema -update: %s", diff)
	}
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func parse(spec string) error {
	_, err := policy.Parse("p", []byte("apiVersion: nodeadmit.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: p}\nspec: "+spec+"\n"))
	return err
}

func TestTheTypesHaveEveryControl(t *testing.T) {
	var got []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Controls]()) {
		got = append(got, jsonName(f))
	}
	if diff := cmp.Diff(policy.ControlNames(), got); diff != "" {
		t.Error(diff)
	}
}

func TestThePolicyReaderTakesEverySettingOfTheTypes(t *testing.T) {
	for _, c := range reflect.VisibleFields(reflect.TypeFor[Controls]()) {
		for _, f := range reflect.VisibleFields(c.Type.Elem()) {
			if f.Anonymous {
				continue
			}
			example := f.Tag.Get("example")
			if enum := f.Tag.Get("enum"); example == "" && enum != "" {
				example, _, _ = strings.Cut(enum, ",")
			}
			if example == "" {
				t.Errorf("%s.%s has no example", jsonName(c), jsonName(f))
				continue
			}
			if err := parse(fmt.Sprintf("{controls: {%s: {%s: %s}}}", jsonName(c), jsonName(f), example)); err != nil {
				t.Errorf("%s.%s: %v", jsonName(c), jsonName(f), err)
			}
		}
	}
}

// The reader names all settings that it knows when one is nothing like them.
func TestTheTypesHaveEverySettingThatThePolicyReaderTakes(t *testing.T) {
	for _, c := range reflect.VisibleFields(reflect.TypeFor[Controls]()) {
		err := parse(fmt.Sprintf("{controls: {%s: {zzzzzzzzzzzzzzzz: 1}}}", jsonName(c)))
		if err == nil {
			t.Errorf("%s takes a field that there is not", jsonName(c))
			continue
		}
		_, list, ok := strings.Cut(err.Error(), ": want ")
		if !ok {
			t.Errorf("%s: %v", jsonName(c), err)
			continue
		}
		want := strings.FieldsFunc(strings.ReplaceAll(list, " or ", ", "), func(r rune) bool { return r == ',' || r == ' ' })
		var got []string
		for _, f := range reflect.VisibleFields(c.Type.Elem()) {
			if !f.Anonymous && jsonName(f) != "mode" && jsonName(f) != "onUndetermined" {
				got = append(got, jsonName(f))
			}
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", jsonName(c), diff)
		}
	}
}
