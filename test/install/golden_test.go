// Package install puts nodeadmit in front of engines as they are configured by
// their packages and by admins, and takes it out again.
//
// testdata has one image per case, with its configuration only. CRI-O's and
// docker's are written after their packages and documentation: neither can be run
// here. containerd's are given to real containerds as well.
package install

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodeadmit/nodeadmit/internal/install"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

var update = flag.Bool("update", false, "write the golden files anew")

// images are the cases and the programs that each image has.
var images = []struct {
	name     string
	programs string
	options  install.Options
}{
	{name: "containerd-1.6-debian", programs: "/usr/bin/containerd /usr/sbin/runc"},
	{name: "containerd-1.6-default", programs: "/usr/bin/containerd /usr/sbin/runc"},
	{name: "containerd-1.7-gpu", programs: "/usr/bin/containerd /usr/sbin/runc /usr/bin/nvidia-container-runtime"},
	{name: "containerd-2.4-default", programs: "/usr/bin/containerd /usr/sbin/runc"},
	{name: "containerd-missing", programs: "/usr/bin/containerd /usr/sbin/runc", options: install.Options{KubeletRoots: []string{"/data/kubelet"}}},
	{name: "containerd-docker", programs: "/usr/bin/containerd /usr/bin/runc /usr/bin/dockerd"},
	{name: "containerd-inline", programs: "/usr/bin/containerd /usr/sbin/runc"},
	{name: "k3s", programs: "/usr/bin/crun /usr/sbin/runc"},
	{name: "crio-package", programs: "/usr/bin/crio /usr/libexec/crio/crun /usr/libexec/crio/runc /usr/bin/containerd-shim-kata-v2"},
	{name: "crio-bare", programs: "/usr/bin/crio /usr/bin/crun"},
	{name: "podman", programs: "/usr/bin/podman /usr/bin/crun /usr/sbin/runc /usr/bin/runsc"},
	{name: "docker-empty", programs: "/usr/bin/dockerd /usr/bin/runc"},
	{name: "docker", programs: "/usr/bin/dockerd /usr/bin/runc /usr/bin/crun"},
	{name: "docker-line", programs: "/usr/bin/dockerd /usr/bin/runc"},
}

// image lays an image out in a directory: the case's files, its programs, and
// nodeadmit's package.
func image(t *testing.T, name, programs string) string {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS(filepath.Join("testdata", name))); err != nil {
		t.Fatal(err)
	}
	put := func(path string, data []byte, mode fs.FileMode) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, mode); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range strings.Fields(programs + " /usr/lib/nodeadmit/runtime-wrapper /usr/lib/nodeadmit/runtime-judge /usr/lib/nodeadmit/oci-hook") {
		put(p, nil, 0o755)
	}
	for from, to := range map[string]string{
		"../../packaging/config.yaml":            "/usr/share/nodeadmit/config.yaml",
		"../../hooks.d/00-nodeadmit-crio.json":   "/usr/share/nodeadmit/hooks.d/00-nodeadmit-crio.json",
		"../../hooks.d/00-nodeadmit-podman.json": "/usr/share/nodeadmit/hooks.d/00-nodeadmit-podman.json",
		"../../packaging/policies/baseline.yaml": "/etc/nodeadmit/policies.d/baseline.yaml",
	} {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		put(to, data, 0o644)
	}
	return root
}

// snapshot is all files and links of an image.
func snapshot(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, root)
		switch {
		case err != nil || d.IsDir() || strings.HasPrefix(name, "/var/lib/nodeadmit/"):
			return err
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			out[name] = "-> " + target
			return err
		}
		data, err := os.ReadFile(path)
		out[name] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestImages(t *testing.T) {
	for _, c := range images {
		t.Run(c.name, func(t *testing.T) {
			root := image(t, c.name, c.programs)
			before := snapshot(t, root)
			c.options.Root = root
			plan, err := install.NewPlan(c.options)
			var got bytes.Buffer
			if err != nil {
				fmt.Fprintf(&got, "error: %s\n", strings.ReplaceAll(err.Error(), root, ""))
			} else {
				describe(t, &got, plan)
			}
			golden(t, c.name, strings.ReplaceAll(got.String(), root, ""))
			if diff := cmp.Diff(before, snapshot(t, root)); diff != "" {
				t.Fatalf("planning changed something:\n%s", diff)
			}
			if err != nil {
				return
			}
			if _, err := plan.CheckPolicy(); err != nil {
				t.Fatal(err)
			}
			apply(t, plan)
			again, err := install.NewPlan(c.options)
			if err != nil {
				t.Fatal(err)
			}
			if !again.Empty() {
				var diff bytes.Buffer
				_ = again.Diff(&diff)
				t.Errorf("a second installation would do something:\n%s", &diff)
			}
			remove(t, c.options)
			if diff := cmp.Diff(before, snapshot(t, root)); diff != "" {
				t.Errorf("uninstall left a difference:\n%s", diff)
			}
		})
	}
}

// An admin edits a file after the installation: what was edited stays, what was
// ours goes.
func TestEditedSince(t *testing.T) {
	for _, c := range images {
		t.Run(c.name, func(t *testing.T) {
			root := image(t, c.name, c.programs)
			c.options.Root = root
			plan, err := install.NewPlan(c.options)
			if err != nil {
				t.Skip("can't be installed")
			}
			apply(t, plan)
			want := snapshot(t, root)
			for _, change := range plan.Changes {
				path := filepath.Join(root, change.Path)
				if !change.Existed || strings.HasSuffix(path, ".json") {
					continue
				}
				data := append([]byte("# an admin's first line\n"), change.After...)
				data = append(data, "# an admin's last line\n"...)
				if err := errors.Join(os.WriteFile(path, data, 0o640), os.Chmod(path, 0o640)); err != nil {
					t.Fatal(err)
				}
				want[change.Path] = "# an admin's first line\n" + string(change.Before) + "# an admin's last line\n"
			}
			again, err := install.NewPlan(c.options)
			if err != nil {
				t.Fatal(err)
			}
			if !again.Empty() {
				t.Error("a second installation undoes the edit")
			}
			remove(t, c.options)
			got := snapshot(t, root)
			for _, change := range plan.Changes {
				if !change.Existed || strings.HasSuffix(change.Path, ".json") {
					continue
				}
				// An empty line between tables may stay.
				if squeeze(got[change.Path]) != squeeze(want[change.Path]) {
					t.Errorf("%s:\n%s", change.Path, cmp.Diff(want[change.Path], got[change.Path]))
				}
				info, err := os.Stat(filepath.Join(root, change.Path))
				if err != nil || info.Mode().Perm() != 0o640 && strings.Contains(want[change.Path], "admin's") {
					t.Errorf("%s: mode %v, %v", change.Path, info.Mode(), err)
				}
			}
		})
	}
}

func squeeze(s string) string {
	for strings.Contains(s, "\n\n") {
		s = strings.ReplaceAll(s, "\n\n", "\n")
	}
	return s
}

func apply(t *testing.T, plan *install.Plan) {
	t.Helper()
	if err := plan.Apply(); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, o install.Options) {
	t.Helper()
	u, err := install.NewRemoval(o)
	if err != nil {
		t.Fatal(err)
	}
	if u == nil {
		t.Fatal("nothing is recorded")
	}
	if err := u.Apply(); err != nil {
		t.Fatal(err)
	}
	if u, err = install.NewRemoval(o); u != nil || err != nil {
		t.Errorf("something is still installed: %v, %v", u, err)
	}
}

func describe(t *testing.T, w *bytes.Buffer, plan *install.Plan) {
	t.Helper()
	for _, h := range plan.Handlers {
		fmt.Fprintf(w, "wrapped: %s %s -> %s (%s)", h.Engine, h.Handler, h.Real, h.Grammar)
		if h.Via != "" {
			fmt.Fprintf(w, ", called by %s", h.Via)
		}
		fmt.Fprintln(w)
	}
	for _, u := range plan.Uncovered {
		fmt.Fprintf(w, "not covered: %s %s: %s\n", u.Engine, u.Handler, u.Reason)
	}
	for _, text := range plan.Warnings {
		fmt.Fprintf(w, "warning: %s\n", text)
	}
	fmt.Fprintln(w)
	if err := plan.Diff(w); err != nil {
		t.Fatal(err)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update writes it anew):\n%s", file, diff)
	}
}

func TestNoPolicy(t *testing.T) {
	root := image(t, "containerd-1.6-debian", "/usr/bin/containerd /usr/sbin/runc")
	policy := filepath.Join(root, "etc/nodeadmit/policies.d/baseline.yaml")
	if err := os.WriteFile(policy, []byte("kind: NodePolicy\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	plan, err := install.NewPlan(install.Options{Root: root, Engines: []spec.Dialect{spec.Containerd}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = plan.CheckPolicy()
	if err == nil || !strings.Contains(err.Error(), "nodeadmit check --policy /etc/nodeadmit/policies.d") {
		t.Errorf("got %v, want what to do", err)
	}
}

// Lines of ours that were changed since can't be told from an admin's: the names
// become the real runtimes' paths, and the file stays whole.
func TestLineChangedSince(t *testing.T) {
	for _, c := range []struct{ name, image, programs, file, was, is, want string }{
		{
			"a line in an edited file", "containerd-1.6-debian", "/usr/bin/containerd /usr/sbin/runc", "etc/containerd/config.toml",
			"  BinaryName = \"/usr/lib/nodeadmit/runtimes/containerd-runc\"\n", "  SystemdCgroup = true\n  BinaryName = '/usr/lib/nodeadmit/runtimes/containerd-runc' # mine\n",
			"[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n  SystemdCgroup = true\n  BinaryName = '/usr/sbin/runc' # mine\n",
		},
		{
			"a line in a drop-in of ours", "crio-bare", "/usr/bin/crio /usr/bin/crun", "etc/crio/crio.conf.d/zz-nodeadmit.conf",
			"  runtime_root", "  no_pivot = true\n  runtime_root",
			"  runtime_path = \"/usr/bin/crun\"\n  no_pivot = true\n",
		},
		{
			"daemon.json made pretty", "docker-line", "/usr/bin/dockerd /usr/bin/runc", "etc/docker/daemon.json",
			"    \"nodeadmit\": {\n", "    \"nodeadmit\":\n    {\n", "\"path\": \"/usr/bin/runc\"",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := image(t, c.image, c.programs)
			o := install.Options{Root: root}
			plan, err := install.NewPlan(o)
			if err != nil {
				t.Fatal(err)
			}
			apply(t, plan)
			file := filepath.Join(root, c.file)
			text := read(t, file)
			edited := strings.Replace(text, c.was, c.is, 1)
			if edited == text {
				t.Fatalf("the case changes nothing in\n%s", text)
			}
			if err := os.WriteFile(file, []byte(edited), 0o644); err != nil {
				t.Fatal(err)
			}
			remove(t, o)
			if got := read(t, file); !strings.Contains(got, c.want) || strings.Contains(got, "/usr/lib/nodeadmit/runtimes") {
				t.Errorf("got\n%s\nwant in it\n%s", got, c.want)
			}
		})
	}
}

// Who took all of it out by hand before is left in peace.
func TestTakenOutByHand(t *testing.T) {
	root := image(t, "containerd-1.6-debian", "/usr/bin/containerd /usr/sbin/runc")
	o := install.Options{Root: root}
	plan, err := install.NewPlan(o)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, plan)
	file := filepath.Join(root, "etc/containerd/config.toml")
	const mine = "version = 2\n"
	if err := os.WriteFile(file, []byte(mine), 0o644); err != nil {
		t.Fatal(err)
	}
	remove(t, o)
	if got := read(t, file); got != mine {
		t.Errorf("got\n%s", got)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Without the record nothing is known of what was there, but no engine may be left
// with a name that leads nowhere.
func TestRecordLost(t *testing.T) {
	root := image(t, "containerd-1.6-debian", "/usr/bin/containerd /usr/sbin/runc")
	o := install.Options{Root: root}
	plan, err := install.NewPlan(o)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, plan)
	if err := os.RemoveAll(filepath.Join(root, "var/lib/nodeadmit")); err != nil {
		t.Fatal(err)
	}
	remove(t, o)
	if got, err := os.Readlink(filepath.Join(root, "usr/lib/nodeadmit/runtimes/containerd-runc")); got != "/usr/sbin/runc" {
		t.Errorf("the engine's name leads to %q, %v: want the real runtime", got, err)
	}
}

// An engine that understands its new configuration otherwise than meant: all is
// put back.
func TestRollback(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root: policy and record are root's")
	}
	base := t.TempDir()
	put := func(name, text string, mode fs.FileMode) string {
		name = filepath.Join(base, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), mode)); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for _, p := range []string{"runtime-wrapper", "runtime-judge", "oci-hook"} {
		put("lib/"+p, "", 0o755)
	}
	runtime := put("bin/runc", "#!/bin/sh\n", 0o755)
	put("share/config.yaml", "apiVersion: nodeadmit.dev/v1alpha1\nkind: NodeConfig\n", 0o644)
	config := put("engine/config.toml", "version = 2\n", 0o600)
	// A containerd that always says the same.
	binary := put("bin/containerd", "#!/bin/sh\n[ \"$1\" = --version ] && echo containerd v1.6.20 && exit\ncat <<END\nversion = 2\n"+
		"[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\nruntime_type = \"io.containerd.runc.v2\"\noptions = {BinaryName = \""+runtime+"\"}\nEND\n", 0o755)
	before := snapshot(t, base)
	plan, err := install.NewPlan(install.Options{
		LibDir: base + "/lib", ShareDir: base + "/share", StateDir: base + "/state", Config: base + "/etc/config.yaml",
		Engines: []spec.Dialect{spec.Containerd}, EngineConfig: config, EngineBinary: binary,
	})
	if err != nil {
		t.Fatal(err)
	}
	err = plan.Apply()
	if err == nil || !strings.Contains(err.Error(), "another file overrides it") {
		t.Errorf("got %v, want what is wrong", err)
	}
	after := snapshot(t, base)
	for name := range after {
		if strings.HasPrefix(name, "/state/backup/") {
			delete(after, name)
		}
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("something is left:\n%s", diff)
	}
}
