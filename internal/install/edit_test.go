package install

import (
	"strings"
	"testing"
)

func TestTomlSet(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a value is replaced where it stands", "[a.b] # c\n  x = 'old' # why\n", "[a.b] # c\n  x = \"new\" # why\n"},
		{"a key goes under its table's header", "[a.b]\n\ty = 1\n[c]\n", "[a.b]\n\tx = \"new\"\n\ty = 1\n[c]\n"},
		{"a table goes to the end", "v = 2", "v = 2\n\n[a.b]\n  x = \"new\"\n"},
		{"a dotted key is a table's key", "[a]\nb.x = \"old\"\n", "[a]\nb.x = \"new\"\n"},
		{"a header in a string is none", "s = \"\"\"\n[a.b]\n\"\"\"\n", "s = \"\"\"\n[a.b]\n\"\"\"\n\n[a.b]\n  x = \"new\"\n"},
		{"what is there already stays", "a = {b = {x = \"new\"}}\n", "a = {b = {x = \"new\"}}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := tomlSet("f", []byte(c.text), []string{"a", "b"}, "x", "new")
			if err != nil || string(got) != c.want {
				t.Errorf("got %q, %v\nwant %q", got, err, c.want)
			}
		})
	}
	if _, err := tomlSet("f", []byte("a = {b = {x = \"old\"}}\n"), []string{"a", "b"}, "x", "new"); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("an inline table: %v, want an error", err)
	}
}

func TestJSONSet(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"an empty object", "{}", "{\n  \"a\": {\n    \"b\": \"new\"\n  }\n}"},
		{"a value is replaced where it stands", `{"a": {"b":"old", "c":1}}`, `{"a": {"b":"new", "c":1}}`},
		{"order and indentation stay", "{\n\t\"z\": 1,\n\t\"a\": {\n\t\t\"c\": 2\n\t}\n}\n", "{\n\t\"z\": 1,\n\t\"a\": {\n\t\t\"b\": \"new\",\n\t\t\"c\": 2\n\t}\n}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := jsonSet("f", []byte(c.text), []string{"a", "b"}, "new")
			if err != nil || string(got) != c.want {
				t.Errorf("got %q, %v\nwant %q", got, err, c.want)
			}
		})
	}
}

func TestTakeBack(t *testing.T) {
	const before, after = "a\nb\nc\n", "a\nB\nc\nours\n"
	for _, c := range []struct{ name, now, want, left string }{
		{"untouched", after, before, ""},
		{"lines of others stay", "top\na\nB\nmid\nc\nours\nend\n", "top\na\nb\nmid\nc\nend\n", ""},
		{"a line of ours that was changed is told", "a\nB2\nc\nours\n", "a\nB2\nc\n", "b\nB\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, left := takeBack([]byte(before), []byte(after), []byte(c.now))
			if string(got) != c.want || strings.Join(left, "") != c.left {
				t.Errorf("got %q, left %q", got, left)
			}
		})
	}
}

func TestAddRuntime(t *testing.T) {
	const line = "n: {engine: containerd}"
	for _, c := range []struct{ name, text, want string }{
		{"after the last entry", "a: 1\nruntimes:\n  # why\n  m: {engine: crio} # c\nb: 2\n", "a: 1\nruntimes:\n  # why\n  m: {engine: crio} # c\n  " + line + "\nb: 2\n"},
		{"none", "a: 1\n", "a: 1\nruntimes:\n  " + line + "\n"},
		{"empty", "runtimes: {}\nb: 2\n", "runtimes:\n  " + line + "\nb: 2\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := addRuntime([]byte(c.text), line)
			if err != nil || string(got) != c.want {
				t.Errorf("got %q, %v\nwant %q", got, err, c.want)
			}
		})
	}
}
