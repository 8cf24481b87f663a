package spec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// probe is what a process (testdata/read/probe) sees of the config.json it was
// started by.
type probe struct {
	Hostname string
	Args     []string
	Cwd      string
	Env      string
	UID      int
}

// TestRuntimesReadWhatParseReads starts odd documents with real runtimes. Those
// that Parse accepts must come out as Parse read them, with every runtime.
func TestRuntimesReadWhatParseReads(t *testing.T) {
	if os.Getuid() != 0 || testing.Short() {
		t.Skip("needs root, and takes a second")
	}
	runtimes := map[string][]string{}
	for name, args := range map[string][]string{"runc": nil, "crun": {"--cgroup-manager=disabled"}} {
		if path, err := exec.LookPath(name); err == nil {
			runtimes[name] = append([]string{path}, args...)
		}
	}
	if len(runtimes) == 0 {
		t.Skip("neither runc nor crun is installed")
	}
	bundle := t.TempDir()
	if err := os.Chmod(bundle, 0o711); err != nil {
		t.Fatal(err)
	}
	buildProbe(t, filepath.Join(bundle, "rootfs"))

	const process = `"process":{"args":["/probe","x"],"env":["PROBE=e"],"cwd":"/"}`
	tests := []struct {
		name, in string
		refused  bool
	}{
		{"a plain document", process + `,"hostname":"one"`, false},
		{"escapes in keys", `"\u0070rocess":{"\u0061rgs":["/probe","x"],"\u0065nv":["PROBE=e"],"cwd":"/"},"\u0068ostname":"one"`, false},
		{"escapes in strings", `"process":{"args":["\/probe","\u0061\\u0000\t\ud83d\ude00\u00e9 \u2028"],"env":["PROBE=\"\\"],"cwd":"\u002f"},"hostname":"\u006fne"`, false},
		{"null for members", `"process":{"user":null,"args":["/probe"],"terminal":null,"noNewPrivileges":null,"oomScoreAdj":null,"rlimits":null,"capabilities":null,"cwd":"/"},"hostname":"one","annotations":null,"hooks":null`, false},
		{"empty arrays and objects", `"process":{"args":["/probe"],"env":[],"rlimits":[],"cwd":"/"},"hostname":"one","annotations":{},"hooks":{}`, false},
		{"empty arguments", `"process":{"args":["/probe","","\u0020",""],"cwd":"/"},"hostname":"one"`, false},
		{"unknown keys", process + `,"hostname":"one","hostnames":"two","host":{"hostname":"three"},"":[1e999,{"hostname":"four"}]`, false},
		{"unknown keys that start with a known one", `"process":{"args":["/probe"],"argsx":["/bad"],"cwd":"/","cwd/":"/bad"},"hostname":"one","process/args":["/bad"]`, false},
		{"the largest user id that runc takes", `"process":{"user":{"uid":2147483647,"gid":0},"args":["/probe"],"cwd":"/"},"hostname":"one"`, false},
		{"minus zero for a signed number", `"process":{"args":["/probe"],"cwd":"/","oomScoreAdj":-0},"hostname":"one"`, false},
		{"a duplicate key", process + `,"hostname":"one","hostname":"two"`, true},
		{"a duplicate key by an escape", process + `,"hostname":"one","\u0068ostname":"two"`, true},
		{"a key in another case", process + `,"hostname":"one","Hostname":"two"`, true},
		{"a NUL in an argument", `"process":{"args":["/probe","a\u0000b"],"cwd":"/"},"hostname":"one"`, true},
		{"a NUL in a hostname", process + `,"hostname":"one\u0000two"`, true},
		{"a wrong type", process + `,"hostname":["one"]`, true},
		{"null among the arguments", `"process":{"args":["/probe",null],"cwd":"/"},"hostname":"one"`, true},
		{"a user id with exponent", `"process":{"user":{"uid":1e2,"gid":0},"args":["/probe"],"cwd":"/"},"hostname":"one"`, true},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			data := []byte(`{"ociVersion":"1.0.2",` + tt.in + `,"root":{"path":"rootfs"},"mounts":[{"destination":"/proc","type":"proc","source":"proc"}],` +
				`"linux":{"namespaces":[{"type":"pid"},{"type":"mount"},{"type":"uts"},{"type":"ipc"}]}}`)
			if err := os.WriteFile(filepath.Join(bundle, ConfigName), data, 0o600); err != nil {
				t.Fatal(err)
			}
			doc, err := ReadBundle(bundle)
			if tt.refused != (err != nil) {
				t.Fatalf("refused: %v, error: %v", tt.refused, err)
			}
			for name, argv := range runtimes {
				got, err := runProbe(t, argv, bundle, fmt.Sprintf("nodeadmit-test-%d-%d", os.Getpid(), i))
				if tt.refused { // nothing to compare with; show why
					t.Logf("%s: %+v %v", name, got, err)
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", name, err)
					continue
				}
				want := probe{Hostname: doc.Spec.Hostname, Args: doc.Spec.Process.Args, Cwd: doc.Spec.Process.Cwd, UID: int(doc.Spec.Process.User.UID)}
				for _, v := range doc.Spec.Process.Env {
					want.Env = strings.TrimPrefix(v, "PROBE=")
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("-Parse +%s:\n%s", name, diff)
				}
			}
		})
	}
}

// runProbe runs a bundle. crun wants a pure cgroup hierarchy, of whatever
// version, so it gets one of its own.
func runProbe(t *testing.T, argv []string, bundle, id string) (probe, error) {
	t.Helper()
	const script = `umount -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup; exec "$@"`
	args := []string{"--mount", "--propagation=private", "--", "sh", "-c", script, "sh"}
	args = append(args, argv...)
	args = append(args, "--root", t.TempDir(), "run", "--bundle", bundle, id)
	cmd := exec.Command("unshare", args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return probe{}, fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	var p probe
	err := json.Unmarshal(stdout.Bytes(), &p)
	return p, err
}

func buildProbe(t *testing.T, rootfs string) {
	t.Helper()
	for _, dir := range []string{"", "proc", "dev", "sys"} {
		must(t, os.Mkdir(filepath.Join(rootfs, dir), 0o755))
	}
	cmd := exec.Command("go", "build", "-o", filepath.Join(rootfs, "probe"), "testdata/read/probe/main.go")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // static: the root holds nothing else
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
