// Package plugin asks real plugins, good and bad ones, in each of the ways a plugin
// can be asked. It needs root, since only root's programs and sockets are used.
package plugin

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodeadmit/nodeadmit/pkg/plugin"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

var program string

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			fmt.Println("want root: only root's plugins are used")
			os.Exit(1)
		}
		fmt.Println("skipped: needs root, since only root's plugins are used")
		os.Exit(0)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "nodeadmit-plugin-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	program = filepath.Join(dir, "testplugin")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", program, "./testplugin").CombinedOutput(); err != nil {
		fmt.Printf("%v: %s", err, out)
		return 1
	}
	return m.Run()
}

// set loads plugins of specs, of which the first is called p0.
func set(t *testing.T, specs ...string) (*plugin.Set, error) {
	t.Helper()
	dir := t.TempDir()
	for i, s := range specs {
		text := fmt.Sprintf("apiVersion: nodeadmit.dev/v1alpha1\nkind: Plugin\nmetadata: {name: p%d}\nspec: {%s}\n", i, s)
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	sources, err := policy.ReadSources(dir, policy.LoadOptions{RequireRoot: true})
	if err != nil {
		t.Fatal(err)
	}
	return plugin.Load(sources)
}

func mustLoad(t *testing.T, specs ...string) *plugin.Set {
	t.Helper()
	s, err := set(t, specs...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// question is about a bundle that a real containerd wrote.
func question(t *testing.T, bundle, moment string) *plugin.Question {
	t.Helper()
	doc, err := spec.ReadFile("../testdata/containerd/2.4.2/" + bundle + ".config.json")
	if err != nil {
		t.Fatal(err)
	}
	in, err := spec.Map(doc, spec.Options{Engine: spec.NewEngine(spec.Containerd)})
	if err != nil {
		t.Fatal(err)
	}
	return &plugin.Question{Moment: moment, Intent: in, Spec: doc.Raw, Digest: doc.Digest, Node: "here"}
}

// said is all that came of a review.
func said(r *plugin.Result) string {
	var out []string
	for _, v := range r.Violations {
		out = append(out, string(v.Mode)+": "+v.Control+": "+v.Message)
	}
	return strings.Join(append(out, r.Notes...), " | ")
}

func execSpec(behaviour string) string {
	return fmt.Sprintf("type: exec, command: %s, args: [exec, \"%s\"], timeout: 400ms", program, behaviour)
}

// serve starts a plugin that listens on a socket, and returns its specification.
func serve(t *testing.T, kind, behaviour string) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "p.sock")
	startServer(t, kind, socket, behaviour)
	s := fmt.Sprintf("type: %s, socket: %s, timeout: 400ms", kind, socket)
	if kind == "webhook" {
		s += ", url: \"http://plugin/validate\""
	}
	return s
}

func startServer(t *testing.T, kind, socket, behaviour string) *exec.Cmd {
	t.Helper()
	c := exec.Command(program, kind, socket, behaviour)
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	for range 500 {
		if conn, err := net.Dial("unix", socket); err == nil {
			_ = conn.Close()
			return c
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("the plugin doesn't listen")
	return nil
}

// TestPlugins asks each type of plugin in each way it may behave. want is part of what
// is said; "" is that it allows and says nothing.
func TestPlugins(t *testing.T) {
	const late = "p0: can't be asked: gave no answer within 400ms"
	for _, c := range []struct{ kind, behaviour, want string }{
		{"exec", "allow", ""},
		{"exec", "deny", `plugin: p0: "never"`},
		{"exec", "bad", ""},
		{"exec", "unknown", `p0: "labels are unknown"`},
		{"exec", "env", ""},
		{"exec", "slow", ""},
		{"exec", "child", ""},
		{"exec", "warn", `plugin p0 warns: "beware\nof the dog" | audit annotation p0/k: "v"`},
		{"exec", "hang", late},
		{"exec", "hangchild", late},
		{"exec", "flood", late},
		{"exec", "crash", `signal: killed: "Segmentation fault\n"`},
		{"exec", "half", "its answer is no JSON"},
		{"exec", "nothing", "its answer is no JSON"},
		{"exec", "exit", "exit status 3"},
		{"exec", "error", `p0: can't be asked: error 101: "the list is\nempty": "d"`},
		{"exec", "silent", "doesn't say whether it allows"},
		{"exec", "null", "doesn't say whether it allows"},
		{"exec", "string", "its answer is no JSON"},
		{"exec", "other", "its answer is to another question"},
		{"exec", "old", `apiVersion "plugin.nodeadmit.dev/v0": want plugin.nodeadmit.dev/v1`},

		{"webhook", "allow", ""},
		{"webhook", "deny", `plugin: p0: "never"`},
		{"webhook", "unknown", `p0: "labels are unknown"`},
		{"webhook", "warn", `plugin p0 warns: "beware\nof the dog" | audit annotation p0/k: "v"`},
		{"webhook", "hang", late},
		{"webhook", "flood", "said more than"},
		{"webhook", "half", "unexpected EOF"},
		{"webhook", "500", "answers with HTTP status 500"},
		{"webhook", "redirect", "it redirects"},
		{"webhook", "html", "content type"},
		{"webhook", "silent", "doesn't say whether it allows"},
		{"webhook", "empty", "its answer has no response"},
		{"webhook", "other", "its answer is to another question"},
		{"webhook", "old", "want admission.k8s.io/v1 AdmissionReview"},
		{"webhook", "patch", "it wants to change the pod, and nodeadmit changes nothing"},

		{"grpc", "allow", ""},
		{"grpc", "deny", `plugin: p0: "never"`},
		{"grpc", "unknown", `p0: "labels are unknown"`},
		{"grpc", "warn", `plugin p0 warns: "beware\nof the dog" | audit annotation p0/k: "v"`},
		{"grpc", "hang", late},
		{"grpc", "crash", "Unavailable"},
		{"grpc", "error", `Unknown: "the list is\nempty"`},
		{"grpc", "silent", "its answer has no verdict"},
		{"grpc", "flood", "ResourceExhausted"},
		{"grpc", "other", "its answer is to another question"},
	} {
		t.Run(c.kind+" "+c.behaviour, func(t *testing.T) {
			t.Parallel()
			of := execSpec
			if c.kind != "exec" {
				s := serve(t, c.kind, c.behaviour)
				of = func(string) string { return s }
			}
			q := question(t, "plain/container", "container")
			closed := mustLoad(t, of(c.behaviour))
			began := time.Now()
			r := closed.Review(context.Background(), q)
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("it took %s", took)
			}
			got := said(r)
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			failed := strings.Contains(got, "can't be asked")
			if strings.Contains(c.want, "p0: ") == (len(r.Violations) == 0) && !failed {
				t.Errorf("violations: %+v", r.Violations)
			}
			if !failed {
				return
			}
			if !strings.HasPrefix(got, "Enforce: plugin: p0: can't be asked: ") || strings.Contains(got, "\n") {
				t.Errorf("it isn't refused with the plugin's name on one line: %s", got)
			}
			open := mustLoad(t, of(c.behaviour)+", failureMode: Open")
			if c.kind == "grpc" && c.behaviour == "crash" {
				return // it is gone
			}
			if r := open.Review(context.Background(), q); len(r.Violations) != 0 || !strings.HasPrefix(said(r), "plugin p0 failed and is failureMode Open: ") {
				t.Errorf("failureMode Open: %s", said(r))
			}
		})
	}
}

// TestNothingIsLeftOfAnExecPlugin: its children are killed with it.
func TestNothingIsLeftOfAnExecPlugin(t *testing.T) {
	for _, behaviour := range []string{"child", "hangchild"} {
		mustLoad(t, execSpec(behaviour)).Review(context.Background(), question(t, "plain/container", "container"))
	}
	time.Sleep(50 * time.Millisecond)
	commands, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range commands {
		data, _ := os.ReadFile(c)
		if s := string(data); s == "/bin/sleep\x003600\x00" || s == "/bin/sleep\x003601\x00" {
			t.Errorf("%s is left", c)
		}
	}
}

func TestOrderMomentsAndMatch(t *testing.T) {
	sandbox, container := question(t, "host-network/sandbox", "sandbox"), question(t, "plain/container", "container")
	late := question(t, "plain/container", "lateCheck")
	for _, c := range []struct {
		name  string
		specs []string
		q     *plugin.Question
		want  string
	}{
		{"an allow after a deny", []string{execSpec("deny"), execSpec("allow")}, container, `Enforce: plugin: p0: "never"`},
		{"a deny after an allow", []string{execSpec("allow"), execSpec("deny")}, container, `Enforce: plugin: p1: "never"`},
		{"the first deny is the last asked", []string{execSpec("deny"), execSpec("warn")}, container, `Enforce: plugin: p0: "never"`},
		{"Audit", []string{execSpec("deny") + ", mode: Audit", execSpec("deny")}, container, `Audit: plugin: p0: "never" | Enforce: plugin: p1: "never"`},
		{"what a sandbox shows", []string{execSpec("net")}, sandbox, `Enforce: plugin: p0: "the pod uses the node's network"`},
		{"not at the late check", []string{execSpec("deny")}, late, ""},
		{"at the late check", []string{execSpec("deny") + ", moments: [lateCheck]"}, late, `Enforce: plugin: p0: "never"`},
		{"only at sandboxes", []string{execSpec("deny") + ", moments: [sandbox]"}, container, ""},
		{"its namespace", []string{execSpec("deny") + ", match: {namespaces: [team-a]}"}, container, `Enforce: plugin: p0: "never"`},
		{"another namespace", []string{execSpec("deny") + ", match: {namespaces: [team-b]}"}, container, ""},
		{"all namespaces but its own", []string{execSpec("deny") + ", match: {exceptNamespaces: [team-a]}"}, container, ""},
		{"its image", []string{execSpec("deny") + ", match: {images: [\"registry.local/*\"]}"}, container, `Enforce: plugin: p0: "never"`},
		{"another image", []string{execSpec("deny") + ", match: {images: [registry.local/app]}"}, container, ""},
		{"an image that isn't known", []string{execSpec("deny") + ", match: {images: [registry.local/app]}"}, sandbox, `Enforce: plugin: p0: "never"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := said(mustLoad(t, c.specs...).Review(context.Background(), c.q)); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestWhatIsNotTrusted: programs and sockets of others than root.
func TestWhatIsNotTrusted(t *testing.T) {
	review := func(t *testing.T, s string) string {
		t.Helper()
		return said(mustLoad(t, s).Review(context.Background(), question(t, "plain/container", "container")))
	}
	copied := func(t *testing.T) string {
		t.Helper()
		data, err := os.ReadFile(program)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), "p")
		if err := os.WriteFile(name, data, 0o755); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for name, spoil := range map[string]func(string) error{
		"a program that others may write":   func(p string) error { return os.Chmod(p, 0o777) },
		"another user's program":            func(p string) error { return os.Chown(p, 1000, 0) },
		"a directory that others may write": func(p string) error { return os.Chmod(filepath.Dir(p), 0o777) },
		"no program":                        os.Remove,
		"a program that can't be executed":  func(p string) error { return os.Chmod(p, 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			p := copied(t)
			if err := spoil(p); err != nil {
				t.Fatal(err)
			}
			if got := review(t, fmt.Sprintf("type: exec, command: %s, args: [exec, allow]", p)); !strings.HasPrefix(got, "Enforce: plugin: p0: can't be asked: ") {
				t.Errorf("it was used: %s", got)
			}
		})
	}
	for _, kind := range []string{"webhook", "grpc"} {
		for name, spoil := range map[string]func(t *testing.T, socket string){
			"a socket that others may write": func(t *testing.T, s string) { os.Chmod(s, 0o777) },
			"another user's socket":          func(t *testing.T, s string) { os.Chown(s, 1000, 0) },
			"a file in the socket's place":   func(t *testing.T, s string) { os.Remove(s); os.WriteFile(s, nil, 0o600) },
			"a link in the socket's place":   func(t *testing.T, s string) { os.Rename(s, s+".x"); os.Symlink(s+".x", s) },
			"no socket":                      func(t *testing.T, s string) { os.Remove(s) },
			"another user who listens at root's socket": func(t *testing.T, s string) {
				os.Chmod(filepath.Dir(s), 0o777)
				os.Remove(s)
				c := exec.Command(program, kind, s, "allow")
				c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
				os.Chmod(filepath.Dir(filepath.Dir(s)), 0o755)
				os.Chmod(filepath.Dir(program), 0o755)
				if err := c.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { c.Process.Kill(); c.Wait() })
				for range 500 {
					if _, err := os.Lstat(s); err == nil {
						break
					}
					time.Sleep(5 * time.Millisecond)
				}
				os.Chown(s, 0, 0)
				os.Chmod(s, 0o600)
				os.Chmod(filepath.Dir(s), 0o755)
			},
		} {
			t.Run(kind+": "+name, func(t *testing.T) {
				s := serve(t, kind, "allow")
				_, socket, _ := strings.Cut(s, "socket: ")
				socket, _, _ = strings.Cut(socket, ",")
				spoil(t, socket)
				got := review(t, s)
				if !strings.HasPrefix(got, "Enforce: plugin: p0: can't be asked: ") {
					t.Errorf("it was used: %s", got)
				}
				t.Log(got)
			})
		}
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct{ kind, behaviour, want string }{
		{"exec", "allow", ""}, {"exec", "old", "want plugin.nodeadmit.dev/v1"}, {"exec", "unhappy", `error 7: "no configuration": "/etc/x"`},
		{"grpc", "allow", ""}, {"grpc", "unhappy", "NOT_SERVING"}, {"webhook", "allow", ""},
	} {
		s := ""
		if c.kind == "exec" {
			s = execSpec(c.behaviour)
		} else {
			s = serve(t, c.kind, c.behaviour)
		}
		err := mustLoad(t, s).Check(context.Background())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want %s", c.kind, c.behaviour, err, c.want)
		}
	}
}

func TestAPluginThatIsRestarted(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "p.sock")
	c := startServer(t, "grpc", socket, "allow")
	s := mustLoad(t, "type: grpc, socket: "+socket)
	q := question(t, "plain/container", "container")
	if got := said(s.Review(context.Background(), q)); got != "" {
		t.Error(got)
	}
	_ = c.Process.Kill()
	_ = c.Wait()
	if got := said(s.Review(context.Background(), q)); !strings.Contains(got, "can't be asked") {
		t.Error(got)
	}
	startServer(t, "grpc", socket, "allow")
	if got := said(s.Review(context.Background(), q)); got != "" {
		t.Errorf("restarted: %s", got)
	}
}

func TestWhatDoesNotLoad(t *testing.T) {
	for spec, want := range map[string]string{
		"":                                                "want exec, webhook or grpc",
		"type: exec":                                      "want command",
		"type: exec, command: relative":                   "want an absolute path",
		"type: exec, command: /a/../b":                    "want an absolute path",
		"type: exec, command: /x, url: a":                 "want command and args",
		"type: exec, command: /x, tiemout: 1s":            `did you mean "timeout"?`,
		"type: exec, command: /x, timeout: 1m":            "want a time up to 4s",
		"type: exec, command: /x, moments: [x]":           "want sandbox, container, lateCheck or unmanaged",
		"type: webhook, url: \"http://x/\"":               "want https",
		"type: webhook, url: \"https://x/\"":              "want caBundle or caFile",
		"type: webhook, url: \"https://x/\", caBundle: x": "no certificate in PEM",
		"type: grpc":                                      "want socket, or address",
		"type: grpc, address: \"10.0.0.1:1\"":             "want an address of this machine",
		"type: grpc, address: \"127.0.0.1:1\"":            "want caFile, certFile and keyFile",
	} {
		if _, err := set(t, spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", spec, err, want)
		}
	}
}
