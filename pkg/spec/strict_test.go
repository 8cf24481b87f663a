package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
)

func TestParseRefusesWhatRuntimesCouldReadDifferently(t *testing.T) {
	deep := func(n int) string { return `{"x":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + `}` }
	tests := []struct {
		name string
		in   string
		want string // the whole message
	}{
		// Not one JSON object.
		{"an empty file", "", "line 1, column 1: the file is empty; want a JSON object"},
		{"white space only", " \n\t", "line 1, column 1: the file is empty; want a JSON object"},
		{"a byte order mark", "\xef\xbb\xbf{}", "line 1, column 1: the file starts with a byte order mark; want plain UTF-8 without one"},
		{"a file in UTF-16", "\xff\xfe{\x00}\x00", "line 1, column 1: not UTF-8; want JSON in UTF-8"},
		{"a binary file", "\x7fELF\x02\x01\x00\x00", "line 1, column 1: not JSON: invalid character '\\x7f' at start of value"},
		{"a NUL byte in the text", "{\"hostname\":\"a\x00b\"}", "line 1, column 15: hostname: not JSON: a NUL byte; is this a binary file?"},
		{"text that is no JSON", "hostname: x", "line 1, column 1: not JSON: invalid character 'h' at start of value"},
		{"a comment, which yajl allows", "{/* */}", "line 1, column 2: not JSON: invalid character '/' at start of value"},
		{"a trailing comma", `{"a":1,}`, "line 1, column 7: not JSON: invalid character ',' at start of value"},
		{"single quotes", `{'a':1}`, "line 1, column 2: not JSON: invalid character '\\'' at start of value"},
		{"a word that starts like true", `{"process":{"terminal":trux}}`, "line 1, column 27: process.terminal: not JSON: invalid character 'x' in literal true (expecting 'e')"},
		{"a word that starts like null", `{"process":nul}`, "line 1, column 15: process: not JSON: invalid character '}' in literal null (expecting 'l')"},
		{"a number with a leading zero, octal to strtoull", `{"process":{"user":{"uid":010}}}`, "line 1, column 28: process.user: not JSON: invalid character '1' after object value (expecting ',' or '}')"},
		{"a hexadecimal number", `{"process":{"user":{"uid":0x10}}}`, "line 1, column 28: process.user: not JSON: invalid character 'x' after object value (expecting ',' or '}')"},
		{"an array at the top", `[]`, "line 1, column 1: found an array; want a JSON object"},
		{"null at the top", `null`, "line 1, column 1: found null; want a JSON object"},
		{"a second document", "{}\n{\"hostname\":\"x\"}", "line 2, column 1: a second JSON document follows the first (an object); want one"},
		{"text after the document", "{} x", "line 1, column 4: something follows the JSON object; want only white space after it"},
		{"a brace too many", "{}}", "line 1, column 3: something follows the JSON object; want only white space after it"},
		{"a NUL after the document", "{}\x00", "line 1, column 3: something follows the JSON object; want only white space after it"},
		{"truncated in an object", "{\n \"process\": {\"args\": [\"sh\"", "line 2, column 27: process.args[0]: the file ends inside the JSON object; is it truncated?"},
		{"truncated in a string", `{"hostname":"ab`, "line 1, column 16: hostname: the file ends inside the JSON object; is it truncated?"},
		{"truncated after a key", `{"hostname"`, "line 1, column 12: hostname: the file ends inside the JSON object; is it truncated?"},
		{"truncated in a word", `{"root":{"readonly":tr`, "line 1, column 23: root.readonly: the file ends inside the JSON object; is it truncated?"},
		{"nesting that ends nowhere", strings.Repeat(`{"x":`, 100000), "line 1, column 161: x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x.x: objects and arrays are nested more than 32 deep"},
		{"nesting one too deep", deep(33), "line 1, column 37: x" + strings.Repeat("[0]", 31) + ": objects and arrays are nested more than 32 deep"},

		// Strings.
		{"invalid UTF-8 in a string", "{\"hostname\":\"a\xffb\"}", "line 1, column 15: hostname: not UTF-8; want JSON in UTF-8"},
		{"invalid UTF-8 in a key", "{\"a\xff\":1}", "line 1, column 4: not UTF-8; want JSON in UTF-8"},
		{"an overlong encoding", "{\"hostname\":\"\xc0\xaf\"}", "line 1, column 14: hostname: not UTF-8; want JSON in UTF-8"},
		{"a lone surrogate, U+FFFD to Go and ? to yajl", `{"hostname":"\ud800"}`, "line 1, column 14: hostname: not JSON: invalid surrogate pair `\\ud800\"}` in string"},
		{"a NUL at the end of a path", `{"root":{"path":"/x\u0000y"}}`, `line 1, column 17: root.path: a NUL character (\u0000), at which crun ends a string and runc doesn't; want none`},
		{"a NUL in a key", `{"mounts\u0000":[]}`, `line 1, column 2: a NUL character (\u0000), at which crun ends a string and runc doesn't; want none`},
		{"a NUL in an annotation", `{"annotations":{"a":"\u0000"}}`, `line 1, column 21: annotations.a: a NUL character (\u0000), at which crun ends a string and runc doesn't; want none`},
		{"a NUL in an annotation's key", `{"annotations":{"a\u0000":""}}`, `line 1, column 17: annotations: a NUL character (\u0000), at which crun ends a string and runc doesn't; want none`},
		{"a NUL in an argument", `{"process":{"args":["sh","-c\u0000"]}}`, `line 1, column 26: process.args[1]: a NUL character (\u0000), at which crun ends a string and runc doesn't; want none`},
		{"a NUL below an unknown key", `{"x":[{"y":"\u0000"}]}`, `line 1, column 12: x[0].y: a NUL character (\u0000), at which crun ends a string and runc doesn't; want none`},

		// Keys.
		{"a duplicate key", "{\"hostname\":\"a\",\n \"hostname\":\"b\"}", `line 2, column 2: duplicate key "hostname", of which runc takes the last and crun the first; want it once`},
		{"a duplicate key, once with an escape", `{"mounts":[],"\u006dounts":[]}`, `line 1, column 14: duplicate key "mounts", of which runc takes the last and crun the first; want it once`},
		{"a duplicate key deep inside", `{"linux":{"seccomp":{"defaultAction":"A","defaultAction":"B"}}}`, `line 1, column 42: linux.seccomp: duplicate key "defaultAction", of which runc takes the last and crun the first; want it once`},
		{"a duplicate annotation", `{"annotations":{"a/b":"1","a/b":"2"}}`, `line 1, column 27: annotations: duplicate key "a/b", of which runc takes the last and crun the first; want it once`},
		{"a duplicate sysctl", `{"linux":{"sysctl":{"a":"1","a":"2"}}}`, `line 1, column 29: linux.sysctl: duplicate key "a", of which runc takes the last and crun the first; want it once`},
		{"a duplicate unknown key", `{"x":{"a":1,"a":2}}`, `line 1, column 13: x: duplicate key "a", of which runc takes the last and crun the first; want it once`},
		{"a known key in another case", `{"HostName":"x"}`, `line 1, column 2: key "HostName" differs from "hostname" only in case, so that runc reads it and crun doesn't; want "hostname"`},
		{"a known key in another case, beside the right one", `{"process":{"args":["a"],"Args":["b"]}}`, `line 1, column 26: process: key "Args" differs from "args" only in case, so that runc reads it and crun doesn't; want "args"`},
		{"a known key in another case, by an escape", `{"\u004dounts":[]}`, `line 1, column 2: key "Mounts" differs from "mounts" only in case, so that runc reads it and crun doesn't; want "mounts"`},
		{"a known key with a long s (U+017F)", `{"mountſ":[]}`, `line 1, column 2: key "mount\u017f" differs from "mounts" only in case, so that runc reads it and crun doesn't; want "mounts"`},
		{"a known key with a Kelvin sign (U+212A)", "{\"hoo\u212as\":{}}", `line 1, column 2: key "hoo\u212as" differs from "hooks" only in case, so that runc reads it and crun doesn't; want "hooks"`},
		{"a known key in another case, in an embedded struct", `{"linux":{"resources":{"blockIO":{"weightDevice":[{"Major":8}]}}}}`, `line 1, column 52: linux.resources.blockIO.weightDevice[0]: key "Major" differs from "major" only in case, so that runc reads it and crun doesn't; want "major"`},
		{"a known key in another case, in a map's value", `{"linux":{"netDevices":{"eth0":{"Name":"x"}}}}`, `line 1, column 33: linux.netDevices.eth0: key "Name" differs from "name" only in case, so that runc reads it and crun doesn't; want "name"`},
		{"a known key in another case, on another platform", `{"windows":{"Servicing":true}}`, `line 1, column 13: windows: key "Servicing" differs from "servicing" only in case, so that runc reads it and crun doesn't; want "servicing"`},

		// Types. crun takes a value of a wrong type as absent.
		{"a number for a string", `{"hostname":5}`, "line 1, column 13: hostname: found a number; want a string"},
		{"a string for a number", `{"process":{"user":{"uid":"0"}}}`, "line 1, column 27: process.user.uid: found a string; want a whole number"},
		{"a string for a boolean", `{"root":{"path":"r","readonly":"true"}}`, "line 1, column 32: root.readonly: found a string; want true or false"},
		{"a number for a boolean", `{"process":{"noNewPrivileges":1}}`, "line 1, column 31: process.noNewPrivileges: found a number; want true or false"},
		{"a string for an array", `{"process":{"args":"sh"}}`, "line 1, column 20: process.args: found a string; want an array"},
		{"an object for an array", `{"mounts":{}}`, "line 1, column 11: mounts: found an object; want an array"},
		{"an array for an object", `{"process":[]}`, "line 1, column 12: process: found an array; want an object"},
		{"capabilities as an array, as of old", `{"process":{"capabilities":["CAP_KILL"]}}`, "line 1, column 28: process.capabilities: found an array; want an object"},
		{"a number in an array of strings", `{"process":{"env":["a",1]}}`, "line 1, column 24: process.env[1]: found a number; want a string"},
		{"a number for an annotation", `{"annotations":{"a/b": 1}}`, `line 1, column 24: annotations["a/b"]: found a number; want a string`},
		{"a number for a hook", `{"hooks":{"prestart":[1]}}`, "line 1, column 23: hooks.prestart[0]: found a number; want an object"},
		{"null among arguments, empty to Go", `{"process":{"args":["sh",null]}}`, "line 1, column 26: process.args[1]: found null, which runtimes read differently here; want a string"},
		{"null among mounts, a mount of nothing to Go", `{"mounts":[null]}`, "line 1, column 12: mounts[0]: found null, which runtimes read differently here; want an object"},
		{"null among architectures", `{"linux":{"seccomp":{"architectures":[null]}}}`, "line 1, column 39: linux.seccomp.architectures[0]: found null, which runtimes read differently here; want a string"},
		{"null among groups", `{"process":{"user":{"additionalGids":[null]}}}`, "line 1, column 39: process.user.additionalGids[0]: found null, which runtimes read differently here; want a whole number"},
		{"null for an annotation, empty to Go", `{"annotations":{"a":null}}`, "line 1, column 21: annotations.a: found null, which runtimes read differently here; want a string"},
		{"null for a network device", `{"linux":{"netDevices":{"eth0":null}}}`, "line 1, column 32: linux.netDevices.eth0: found null, which runtimes read differently here; want an object"},

		// Numbers.
		{"an exponent", `{"process":{"user":{"uid":1e2}}}`, "line 1, column 27: process.user.uid: found the number 1e2; want a whole number, written with digits only"},
		{"a fraction of nothing", `{"process":{"user":{"uid":1.0}}}`, "line 1, column 27: process.user.uid: found the number 1.0; want a whole number, written with digits only"},
		{"a negative user, wrapped by strtoull", `{"process":{"user":{"uid":-1}}}`, "line 1, column 27: process.user.uid: the number -1 does not fit; want 0 to 4294967295"},
		{"minus zero for an unsigned number", `{"process":{"user":{"uid":-0}}}`, "line 1, column 27: process.user.uid: the number -0 does not fit; want 0 to 4294967295"},
		{"a user beyond 32 bits", `{"process":{"user":{"uid":4294967296}}}`, "line 1, column 27: process.user.uid: the number 4294967296 does not fit; want 0 to 4294967295"},
		{"a weight beyond 16 bits", `{"linux":{"resources":{"blockIO":{"weight":65536}}}}`, "line 1, column 44: linux.resources.blockIO.weight: the number 65536 does not fit; want 0 to 65535"},
		{"a C int beyond 32 bits", `{"process":{"oomScoreAdj":4294966296}}`, "line 1, column 27: process.oomScoreAdj: the number 4294966296 does not fit; want -2147483648 to 2147483647"},
		{"a C unsigned int beyond 32 bits", `{"linux":{"seccomp":{"defaultErrnoRet":4294967297}}}`, "line 1, column 40: linux.seccomp.defaultErrnoRet: the number 4294967297 does not fit; want 0 to 4294967295"},
		{"a limit beyond 64 bits", `{"process":{"rlimits":[{"hard":18446744073709551616}]}}`, "line 1, column 32: process.rlimits[0].hard: the number 18446744073709551616 does not fit; want 0 to 18446744073709551615"},
		{"a signed number beyond 64 bits", `{"linux":{"resources":{"memory":{"limit":9223372036854775808}}}}`, "line 1, column 42: linux.resources.memory.limit: the number 9223372036854775808 does not fit; want -9223372036854775808 to 9223372036854775807"},
		{"a number of a thousand digits", `{"process":{"user":{"uid":` + strings.Repeat("9", 1000) + `}}}`, "line 1, column 27: process.user.uid: the number " + strings.Repeat("9", 32) + "... does not fit; want 0 to 4294967295"},
		{"a float that doesn't fit, where any value may stand", `{"windows":{"credentialSpec":[1e999]}}`, "line 1, column 31: windows.credentialSpec[0]: the number does not fit; want at most 64 bits of floating point"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Parse([]byte(tt.in))
			var ie *InputError
			if !errors.As(err, &ie) {
				t.Fatalf("got %v, want an InputError", err)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
		})
	}
}

// accepted are documents that look odd and that every runtime reads alike.
var accepted = []struct{ name, in string }{
	{"an empty object", `{}`},
	{"white space around", " \r\n\t{ } \n"},
	{"null for members is as if they were absent", `{"process":{"user":null,"args":null,"terminal":null,"oomScoreAdj":null,"cwd":null},"mounts":null,"linux":null,"annotations":null,"hostname":null}`},
	{"empty arrays and objects", `{"process":{"args":[],"capabilities":{"bounding":[]}},"mounts":[],"hooks":{},"annotations":{},"linux":{"namespaces":[],"sysctl":{}}}`},
	{"escapes in keys", `{"\u0068ostname":"a","\u0070rocess":{"\u0061rgs":["sh"]}}`},
	{"escapes in strings", `{"hostname":"\u0061\/\\\"\n\ud83d\ude00 é"}`},
	{"the text \\u0000, escaped", `{"hostname":"a\\u0000"}`},
	{"annotations that differ in case", `{"annotations":{"a":"1","A":"2","":"3"}}`},
	{"unknown keys that differ in case", `{"newThing":1,"NewThing":1e999,"":[null,{"a":null}]}`},
	{"the largest numbers", `{"process":{"user":{"uid":4294967295},"oomScoreAdj":-1000,"rlimits":[{"type":"RLIMIT_CORE","hard":18446744073709551615,"soft":18446744073709551615}]},"linux":{"resources":{"memory":{"limit":-9223372036854775808}}}}`},
	{"minus zero for a signed number", `{"process":{"oomScoreAdj":-0}}`},
	{"embedded structs", `{"linux":{"resources":{"blockIO":{"weightDevice":[{"major":8,"minor":16,"weight":500}]}}}}`},
	{"maps of structs", `{"linux":{"resources":{"rdma":{"mlx5_1":{"hcaHandles":3}}},"timeOffsets":{"monotonic":{"secs":-1}}}}`},
	{"any value in a credentialSpec", `{"windows":{"layerFolders":["a"],"credentialSpec":{"a":[1,2.5,null,true,"x",{}]}}}`},
	{"nesting as deep as allowed", `{"x":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}`},
}

func TestParseReadsWhatRuncReads(t *testing.T) {
	check := func(t *testing.T, data []byte) {
		t.Helper()
		doc, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		var want specs.Spec
		if err := json.Unmarshal(data, &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&want, doc.Spec); diff != "" {
			t.Errorf("spec (-encoding/json +ours):\n%s", diff)
		}
		if !bytes.Equal(doc.Raw, data) {
			t.Error("Raw is not the input")
		}
	}
	for _, tt := range accepted {
		t.Run(tt.name, func(t *testing.T) { check(t, []byte(tt.in)) })
	}
	for _, path := range fixtures(t) {
		t.Run(path, func(t *testing.T) { check(t, readTestFile(t, path)) })
	}
	t.Run("a spec with every field of the runtime-spec filled", func(t *testing.T) {
		data := marshal(t, filledSpec())
		check(t, data)
		doc, _ := Parse(data)
		if len(doc.UnknownKeys) > 0 {
			t.Errorf("unknown keys: %q", doc.UnknownKeys)
		}
	})
}

func TestParseListsUnknownKeys(t *testing.T) {
	tests := []struct {
		name string
		in   string
		want []string
	}{
		{"none", `{"ociVersion":"1.2.0","process":{"cwd":"/"}}`, nil},
		{"at the top", `{"newThing":{"x":1},"zz":2}`, []string{"newThing", "zz"}},
		{
			"below process, linux, mounts, hooks, root and user",
			`{"process":{"n":1,"user":{"n":1}},"linux":{"n":1,"seccomp":{"syscalls":[{"n":1}]}},"mounts":[{},{"n":1}],"hooks":{"n":[],"prestart":[{"n":1}]},"root":{"n":1}}`,
			[]string{"process.n", "process.user.n", "linux.n", "linux.seccomp.syscalls[0].n", "mounts[1].n", "hooks.n", "hooks.prestart[0].n", "root.n"},
		},
		{"not of free-form maps", `{"annotations":{"n":"1"},"linux":{"sysctl":{"n":"1"},"resources":{"unified":{"n":"1"},"rdma":{"n":{}}},"netDevices":{"n":{}},"timeOffsets":{"n":{}}}}`, nil},
		{"in the values of free-form maps", `{"linux":{"netDevices":{"eth0.1":{"n":1}}}}`, []string{`linux.netDevices["eth0.1"].n`}},
		{"not of other platforms and intelRdt", `{"windows":{"n":1},"solaris":{"n":1},"vm":{"n":1},"zos":{"n":1},"freebsd":{"n":1},"linux":{"intelRdt":{"enableCMT":true},"n":1}}`, []string{"linux.n"}},
		{"with odd names quoted", `{"linux":{"a b":1,"":2,"x.y":3,"z\n":4}}`, []string{`linux["a b"]`, `linux[""]`, `linux["x.y"]`, `linux["z\n"]`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			doc, err := Parse([]byte(tt.in))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, doc.UnknownKeys); diff != "" {
				t.Errorf("unknown keys (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("below a long free key, which is cut", func(t *testing.T) {
		doc, err := Parse(specWithUnknownKeys(strings.Repeat("k", 1<<20), 2))
		if err != nil {
			t.Fatal(err)
		}
		device := "linux.netDevices[\"" + strings.Repeat("k", 64) + "...\"]"
		want := []string{device + `.x`, device + `["unknown-0"]`, device + `["unknown-1"]`}
		if diff := cmp.Diff(want, doc.UnknownKeys); diff != "" {
			t.Errorf("unknown keys (-want +got):\n%s", diff)
		}
	})
}

func TestParseSetsTheDigest(t *testing.T) {
	doc, err := Parse([]byte(`{}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"; doc.Digest != want {
		t.Errorf("got %s, want %s", doc.Digest, want)
	}
}

func TestParseTakesTimeInProportionToSize(t *testing.T) {
	took := func(data []byte) time.Duration {
		best := time.Hour
		for range 5 {
			start := time.Now()
			if _, err := Parse(data); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(start))
		}
		return best
	}
	for name, build := range map[string]func(n int) []byte{
		"mounts":       func(n int) []byte { return specWithMounts(t, 300*n) },
		"environment":  func(n int) []byte { return specWithEnv(t, n*200<<10) },
		"annotations":  func(n int) []byte { return specWithAnnotations(t, 1000*n) },
		"unknown keys": func(n int) []byte { return specWithUnknownKeys("x", 1000*n) },
		"unknown keys below a key as long as they are many": func(n int) []byte {
			return specWithUnknownKeys(strings.Repeat("x", 20000*n), 1000*n)
		},
	} {
		t.Run(name, func(t *testing.T) {
			one, ten := took(build(1)), took(build(10))
			if ten > 40*one+10*time.Millisecond { // quadratic would be 100
				t.Errorf("ten times as much took %v instead of %v", ten, one)
			}
		})
	}
}

// FuzzParse: what Parse accepts, runc's reader decodes to the same spec.
func FuzzParse(f *testing.F) {
	for _, path := range fixtures(f) {
		f.Add(readTestFile(f, path))
	}
	for _, tt := range accepted {
		f.Add([]byte(tt.in))
	}
	f.Add(marshal(f, filledSpec()))
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := Parse(data)
		if err != nil {
			var ie *InputError
			if !errors.As(err, &ie) || ie.Line < 1 || ie.Column < 1 {
				t.Fatalf("not an InputError with a place: %v", err)
			}
			return
		}
		var want specs.Spec
		dec := json.NewDecoder(bytes.NewReader(data))
		if err := dec.Decode(&want); err != nil {
			t.Fatalf("accepted, but encoding/json says: %v", err)
		}
		if dec.More() {
			t.Fatal("accepted, but something follows")
		}
		if !reflect.DeepEqual(&want, doc.Spec) {
			t.Fatalf("spec (-encoding/json +ours):\n%s", cmp.Diff(&want, doc.Spec))
		}
	})
}

func BenchmarkParse30KB(b *testing.B) {
	benchmarkParse(b, spec30KB(b))
}

func BenchmarkParse3000Mounts(b *testing.B) {
	benchmarkParse(b, specWithMounts(b, 3000))
}

func BenchmarkParse2MiBEnv(b *testing.B) {
	benchmarkParse(b, specWithEnv(b, 2<<20))
}

func benchmarkParse(b *testing.B, data []byte) {
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncodingJSON30KB is what runc's reader takes for the same document.
func BenchmarkEncodingJSON30KB(b *testing.B) {
	data := spec30KB(b)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if err := json.Unmarshal(data, new(specs.Spec)); err != nil {
			b.Fatal(err)
		}
	}
}

// spec30KB is a sandbox's spec with a seccomp profile about twice as long.
func spec30KB(tb testing.TB) []byte {
	tb.Helper()
	doc, err := Parse(readTestFile(tb, "testdata/read/containerd-sandbox.json"))
	if err != nil {
		tb.Fatal(err)
	}
	rules := &doc.Spec.Linux.Seccomp.Syscalls
	names := (*rules)[0].Names
	var data []byte
	for len(data) < 30000 {
		n := len(*rules) % (len(names) - 10)
		*rules = append(*rules, specs.LinuxSyscall{Names: names[n : n+10], Action: specs.ActAllow})
		data = marshal(tb, doc.Spec)
	}
	return data
}

func specWithMounts(tb testing.TB, n int) []byte {
	s := specs.Spec{Version: "1.2.0"}
	for i := range n {
		s.Mounts = append(s.Mounts, specs.Mount{
			Destination: fmt.Sprintf("/mnt/%d", i), Type: "bind", Source: fmt.Sprintf("/var/lib/kubelet/pods/x/volumes/%d", i),
			Options: []string{"rbind", "rprivate", "rw"},
		})
	}
	return marshal(tb, &s)
}

func specWithEnv(tb testing.TB, size int) []byte {
	s := specs.Spec{Version: "1.2.0", Process: &specs.Process{Cwd: "/"}}
	for i := 0; size > 0; i++ {
		v := fmt.Sprintf("VARIABLE_%d=%s", i, strings.Repeat("x", 80))
		s.Process.Env, size = append(s.Process.Env, v), size-len(v)
	}
	return marshal(tb, &s)
}

func specWithAnnotations(tb testing.TB, n int) []byte {
	s := specs.Spec{Version: "1.2.0", Annotations: map[string]string{}}
	for i := range n {
		s.Annotations[fmt.Sprintf("example.com/key-%d", i)] = "value"
	}
	return marshal(tb, &s)
}

func specWithUnknownKeys(device string, n int) []byte {
	b := []byte(`{"linux":{"netDevices":{"` + device + `":{"x":0`)
	for i := range n {
		b = fmt.Appendf(b, `,"unknown-%d":{"a":1}`, i)
	}
	return append(b, "}}}}"...)
}

// filledSpec has a value in every field of every type.
func filledSpec() *specs.Spec {
	s := new(specs.Spec)
	fill(reflect.ValueOf(s).Elem())
	return s
}

func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0))
		fill(v.Index(1))
	case reflect.Map:
		elem := reflect.New(v.Type().Elem()).Elem()
		fill(elem)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("key").Convert(v.Type().Key()), elem)
	case reflect.Interface:
		v.Set(reflect.ValueOf(map[string]any{"a": []any{1.5, nil}}))
	case reflect.String:
		v.SetString("text <é>")
	case reflect.Bool:
		v.SetBool(true)
	default:
		if v.CanInt() {
			v.SetInt(-7)
		} else {
			v.SetUint(7)
		}
	}
}

// fixtures are the config.json files to test on: a few here, and those of the
// end-to-end tests where they are.
func fixtures(tb testing.TB) []string {
	tb.Helper()
	paths, err := filepath.Glob("testdata/read/*.json")
	if err != nil || len(paths) == 0 {
		tb.Fatal("no fixtures in testdata/read", err)
	}
	if _, fuzz := tb.(*testing.F); fuzz {
		return paths
	}
	err = filepath.WalkDir("../../test/testdata", func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "config.json") {
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return paths
}

func readTestFile(tb testing.TB, path string) []byte {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func marshal(tb testing.TB, s *specs.Spec) []byte {
	tb.Helper()
	data, err := json.Marshal(s)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}
