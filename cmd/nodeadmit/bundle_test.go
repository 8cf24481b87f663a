package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// As openssl wrote them.
const (
	privateKey = `-----BEGIN PRIVATE KEY-----
MC4CAQAwBQYDK2VwBCIEIEC7+ybc1FcyFipDDAJYt0W2emrNh/gxc6zKWzmQUIuy
-----END PRIVATE KEY-----
`
	publicKey = `-----BEGIN PUBLIC KEY-----
MCowBQYDK2VwAyEAzHynECB8tup0ONQktf+RMDGyovfWRMBQv4waE6E7HK8=
-----END PUBLIC KEY-----
`
)

func TestABundleIsMadePulledAndInForce(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root's keys are used")
	}
	base := t.TempDir()
	if err := os.Chmod(base, 0o755); err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(base, name) }
	for name, text := range map[string]string{
		"key": privateKey, "pub": publicKey, "from/p.yaml": "apiVersion: nodeadmit.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: p}\nspec: {preset: baseline}\n",
		"bad/p.yaml": "kind: NodePolicy\n", "config.yaml": "apiVersion: nodeadmit.dev/v1alpha1\nkind: NodeConfig\npolicyDir: " + at("policies.d") + "\nstateDir: " + at("state") + "\nruntimes: {r: {engine: none, grammar: runc}}\n",
	} {
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	call := func(want int, args ...string) string {
		t.Helper()
		var out bytes.Buffer
		if code := run(args, nil, &out, &out); code != want {
			t.Fatalf("%v: exit %d, want %d: %s", args, code, want, out.String())
		}
		return out.String()
	}
	if got := call(2, "policy", "bundle", at("bad"), "--key", at("key"), "--version", "1", "--out", at("b")); !strings.Contains(got, "bad/p.yaml:1:") {
		t.Errorf("a policy with a fault: %s", got)
	}
	if _, err := os.Stat(at("b")); err == nil {
		t.Error("a bundle of it was written")
	}
	call(0, "policy", "bundle", at("from"), "--key", at("key"), "--version", "5", "--out", at("b"))
	pull := []string{"policy", "pull", at("b"), "--public-key", at("pub"), "--config", at("config.yaml")}
	if got := call(0, append(pull, "--dry-run")...); got != "version 5 would be put in place: 1 files in "+at("policies.d")+"\n" {
		t.Error(got)
	}
	if _, err := os.Stat(at("policies.d")); err == nil {
		t.Error("a dry run put it in place")
	}
	if got := call(0, pull...); got != "version 5 is in place: 1 files in "+at("policies.d")+"\n" {
		t.Error(got)
	}
	var r map[string]any
	if err := json.Unmarshal([]byte(call(0, append(pull, "-o", "json")...)), &r); err != nil || r["changed"] != false || r["version"] != 5.0 {
		t.Errorf("once more: %v, %v", r, err)
	}
	call(0, "check", "--policy", at("policies.d"))
	if err := os.Chmod(at("pub"), 0o666); err != nil {
		t.Fatal(err)
	}
	if got := call(2, pull...); !strings.Contains(got, "lets others write") {
		t.Errorf("a key that others may write: %s", got)
	}
}
