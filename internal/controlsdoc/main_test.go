package main

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

func TestTheDocumentIsCurrent(t *testing.T) {
	want, err := generate("../..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../" + output)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("run go run ./internal/controlsdoc:\n%s", diff)
	}
}

func TestEverySettingOfAControlIsInItsComment(t *testing.T) {
	docs, err := read("../../pkg/policy")
	if err != nil {
		t.Fatal(err)
	}
	// A field that no control has makes the reader list those it has.
	for _, name := range policy.ControlNames() {
		_, err := policy.Parse("p", []byte("apiVersion: nodeadmit.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: p}\nspec: {controls: {"+name+": {xxxxxxxxxxxx: 1}}}\n"))
		_, known, ok := strings.Cut(err.Error(), ": want ")
		if !ok {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, word := range strings.FieldsFunc(strings.ReplaceAll(known, " or ", ", "), func(r rune) bool { return r == ',' || r == ' ' }) {
			if !strings.Contains(docs[name].parts["Settings"], word) {
				t.Errorf("%s: setting %s is not in the comment", name, word)
			}
		}
	}
}

func TestACommentHasAllPartsInOrder(t *testing.T) {
	const good = "\nWhat.\n\nReads: a\nb.\nKnown: c.\nSettings: d.\nCan't see: e.\nUpstream: f.\n"
	d := &document{parts: map[string]string{}}
	if err := d.parse(good); err != nil {
		t.Fatal(err)
	}
	if d.summary != "What." || d.parts["Reads"] != "a b." || d.parts["Upstream"] != "f." {
		t.Errorf("%+v", d)
	}
	for name, bad := range map[string]string{
		"a part that is missing is an error":      strings.Replace(good, "Known: c.\n", "", 1),
		"a part in another's place is an error":   strings.Replace(good, "Known: c.\n", "Settings: d.\n", 1),
		"a part that occurs twice is an error":    good + "Upstream: g.\n",
		"a comment that says nothing is an error": strings.Replace(good, "What.", "", 1),
	} {
		t.Run(name, func(t *testing.T) {
			if err := (&document{parts: map[string]string{}}).parse(bad); err == nil {
				t.Error("it is taken")
			}
		})
	}
}
