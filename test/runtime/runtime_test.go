package runtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func bothRuntimes(t *testing.T, f func(t *testing.T, grammar string)) {
	for _, grammar := range []string{"runc", "crun"} {
		t.Run(grammar, func(t *testing.T) { f(t, grammar) })
	}
}

func TestAnAllowedContainerRunsAndItsExitCodeComesBack(t *testing.T) {
	bothRuntimes(t, func(t *testing.T, grammar string) {
		n := newNode(t, grammar, "")
		before, _ := os.ReadFile(n.config())
		if r := n.start(); r.code != 7 {
			t.Errorf("exit code %d, want the container's 7: %s", r.code, r.stderr)
		}
		if got := n.moments(); got != "Allow run, Allow hook" {
			t.Errorf("decisions: %s; want the wrapper's and then the hook's", got)
		}
		after, _ := os.ReadFile(n.config())
		var hooked struct {
			Hooks map[string][]map[string]any `json:"hooks"`
		}
		if err := json.Unmarshal(after, &hooked); err != nil || len(hooked.Hooks["createRuntime"]) != 1 {
			t.Errorf("hooks are %v: %v", hooked.Hooks, err)
		}
		if !bytes.Contains(after, before[1:len(before)-1]) {
			t.Error("the rest of config.json is not byte for byte what it was")
		}
		if r := n.start(); r.code != 7 {
			t.Errorf("the second time: exit code %d: %s", r.code, r.stderr)
		}
		if again, _ := os.ReadFile(n.config()); !bytes.Equal(again, after) {
			t.Error("the hook was added a second time")
		}
	})
}

func TestWithoutLateCheckTheBundleStaysAsItIs(t *testing.T) {
	n := newNode(t, "runc", "lateCheck: false\n")
	before, _ := os.ReadFile(n.config())
	if r := n.start(); r.code != 7 {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	if after, _ := os.ReadFile(n.config()); !bytes.Equal(before, after) {
		t.Error("config.json was changed")
	}
	if got := n.moments(); got != "Allow run" {
		t.Errorf("decisions: %s", got)
	}
}

func TestWhatCanNotBeJudgedIsRefused(t *testing.T) {
	config := func(text string) func(*node) {
		return func(n *node) { n.must(os.WriteFile(n.config(), []byte(text), 0o644)) }
	}
	for name, c := range map[string]struct {
		spoil func(*node)
		want  string
	}{
		"no config.json":        {func(n *node) { os.Remove(n.config()) }, "the directory has no config.json"},
		"an empty config.json":  {config(""), "config.json"},
		"a truncated one":       {config(`{"ociVersion":"1.0.2","process":{`), "config.json"},
		"a binary one":          {config("\x7fELF\x02\x01\x01\x00\x00\x00"), "config.json"},
		"one of 50 MiB":         {config(strings.Repeat(" ", 50<<20)), "16"},
		"a second document":     {config(`{"ociVersion":"1.0.2"} {"ociVersion":"1.0.2"}`), "config.json"},
		"a duplicate key":       {func(n *node) { n.double(`"process"`) }, "process"},
		"a key in another case": {func(n *node) { n.double(`"Process"`) }, "Process"},
		"a symbolic link for a config.json": {func(n *node) {
			n.must(os.Rename(n.config(), n.config()+".x"))
			n.must(os.Symlink("config.json.x", n.config()))
		}, "is a symlink"},
		"a pipe for a config.json": {func(n *node) {
			n.must(os.Remove(n.config()))
			n.must(syscall.Mkfifo(n.config(), 0o644))
		}, "config.json"},
		"a dangling link for a bundle": {func(n *node) {
			n.must(os.RemoveAll(n.bundle))
			n.must(os.Symlink("nowhere", n.bundle))
		}, "bundle"},
		"two namespaces of one type": {func(n *node) {
			n.edit(func(c map[string]any) {
				l := c["linux"].(map[string]any)
				l["namespaces"] = append(l["namespaces"].([]any), map[string]any{"type": "pid", "path": "/proc/1/ns/pid"})
			})
		}, "linux.namespaces"},
		"an empty policy directory":   {func(n *node) { os.Remove(n.path("policies.d/baseline.yaml")) }, "holds no policy"},
		"no policy directory":         {func(n *node) { os.RemoveAll(n.path("policies.d")) }, "policies.d"},
		"half a policy":               {func(n *node) { n.write("policies.d/x.yaml", "apiVersion: nodeadmit.dev/v1alpha1\nkind: [") }, "policies.d/x.yaml"},
		"a policy that others write":  {func(n *node) { os.Chmod(n.path("policies.d/baseline.yaml"), 0o666) }, "lets others write"},
		"a directory that others do":  {func(n *node) { os.Chmod(n.path("policies.d"), 0o777) }, "lets others write"},
		"another user's policy":       {func(n *node) { os.Chown(n.path("policies.d/baseline.yaml"), 1000, 1000) }, "belongs to uid 1000"},
		"a pipe for a policy":         {func(n *node) { n.must(syscall.Mkfifo(n.path("policies.d/x.yaml"), 0o644)) }, "no regular file"},
		"no configuration":            {func(n *node) { os.Remove(n.path("config.yaml")) }, "configuration"},
		"a broken configuration":      {func(n *node) { n.write("config.yaml", "kind: [") }, "config.yaml"},
		"another runtime's":           {func(n *node) { n.write("config.yaml", "apiVersion: nodeadmit.dev/v1alpha1\nkind: NodeConfig\n") }, `no "r"`},
		"a runtime that is not there": {func(n *node) { os.Remove(n.wrapper + ".real"); os.Symlink("/no/such/runc", n.wrapper+".real") }, "/no/such/runc"},
		"one that is no program": {func(n *node) {
			n.write("text", "no program")
			os.Remove(n.wrapper + ".real")
			os.Symlink(n.path("text"), n.wrapper+".real")
		}, "text"},
		"no runtime at all":  {func(n *node) { os.Remove(n.wrapper + ".real") }, ".real"},
		"a relative runtime": {func(n *node) { os.Remove(n.wrapper + ".real"); os.Symlink("runc", n.wrapper+".real") }, "absolute path"},
		"itself for a runtime": {func(n *node) {
			os.Remove(n.wrapper + ".real")
			os.Symlink(n.wrapper, n.wrapper+".real")
		}, "this wrapper again"},
		"a second wrapper": {func(n *node) {
			n.must(os.Symlink("../runtime-wrapper", n.path("runtimes/s")))
			n.must(os.Symlink(n.real, n.path("runtimes/s.real")))
			os.Remove(n.wrapper + ".real")
			os.Symlink(n.path("runtimes/s"), n.wrapper+".real")
		}, "this wrapper again"},
		"no judge": {func(n *node) { os.Remove(n.path("runtime-judge")) }, "runtime-judge"},
		"no hook":  {func(n *node) { os.Remove(n.path("oci-hook")) }, "oci-hook"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "runc", "")
			c.spoil(n)
			n.refused(n.runFrom("/"), c.want)
		})
	}
}

// runFrom starts the bundle from another working directory.
func (n *node) runFrom(dir string) result {
	return n.run(dir, nil, n.wrapper, "--root", n.root, "--log", n.log, "--log-format", "json", "run", "--bundle", n.bundle, n.id)
}

// double adds a second key, which says what must not run.
func (n *node) double(key string) {
	n.t.Helper()
	data, err := os.ReadFile(n.config())
	n.must(err)
	text := strings.TrimSuffix(strings.TrimSpace(string(data)), "}") + `,` + key + `:{"args":["/bin/sh","-c","exit 9"],"cwd":"/","user":{}}}`
	n.must(os.WriteFile(n.config(), []byte(text), 0o644))
}

func TestAKeyOfANewerSpecIsNoReasonToRefuse(t *testing.T) {
	n := newNode(t, "runc", "")
	n.edit(func(c map[string]any) { c["somethingNew"] = map[string]any{"x": 1} })
	if r := n.start(); r.code != 7 {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
}

func TestAKeyOfANewerSpecWhereControlsReadIsUndetermined(t *testing.T) {
	n := newNode(t, "runc", "")
	n.edit(func(c map[string]any) { c["linux"].(map[string]any)["somethingNew"] = true })
	n.refused(n.start(), "linux.somethingNew")
}

// The good bundle lies in ok and the bad one, which uses the host's network, in
// bad. Whatever way the bundle is named, what runs is what was judged.
func TestTheBundleIsFoundByEveryFormOfTheCommandLine(t *testing.T) {
	n := newNode(t, "runc", "lateCheck: false\n")
	good := n.bundle
	bad := n.path("bad")
	n.must(exec.Command("cp", "-a", good, bad).Run())
	n.bundle = bad
	n.edit(func(c map[string]any) {
		var kept []any
		for _, ns := range c["linux"].(map[string]any)["namespaces"].([]any) {
			if ns.(map[string]any)["type"] != "network" {
				kept = append(kept, ns)
			}
		}
		c["linux"].(map[string]any)["namespaces"] = kept
	})
	n.must(os.Symlink(bad, n.path("link")))
	n.must(exec.Command("cp", "-a", bad, n.path("a=b")).Run())
	for _, c := range []struct {
		dir  string
		args []string
	}{
		{bad, []string{"ID"}},
		{good, []string{"--bundle", bad, "ID"}},
		{good, []string{"--bundle=" + bad, "ID"}},
		{good, []string{"-bundle", bad, "ID"}},
		{good, []string{"-b", bad, "ID"}},
		{good, []string{"-b=" + bad, "ID"}},
		{good, []string{"--bundle", "../bad", "ID"}},
		{good, []string{"--bundle", good, "--bundle", bad, "ID"}},
		{good, []string{"ID", "--bundle", bad}},
		{good, []string{"--bundle", n.path("link"), "ID"}},
		{good, []string{"--bundle", n.path("a=b"), "ID"}},
		{bad, []string{"--bundle=", "ID"}},
	} {
		for _, command := range []string{"run", "create"} {
			args := append([]string{"--root", n.root, "--log", n.log, "--log-format", "json", command}, c.args...)
			for i := range args {
				args[i] = strings.Replace(args[i], "ID", n.id, 1)
			}
			t.Run(strings.Join(args[6:], " "), func(t *testing.T) {
				m := *n
				m.t = t
				os.Remove(m.log)
				m.refused(m.run(c.dir, nil, m.wrapper, args...), "hostNetwork")
			})
		}
	}
	// And the other way round: an allowed one is not mistaken for the bad one.
	for _, args := range [][]string{{n.id}, {"--bundle", bad, "--bundle", good, n.id}} {
		r := n.run(good, nil, n.wrapper, append([]string{"--root", n.root, "run"}, args...)...)
		if r.code != 7 {
			t.Errorf("%v: exit code %d: %s", args, r.code, r.stderr)
		}
	}
}

func TestALogThatCanNotBeWrittenChangesNothing(t *testing.T) {
	n := newNode(t, "runc", "")
	n.edit(func(c map[string]any) { delete(c["linux"].(map[string]any), "namespaces") })
	r := n.call("--root", n.root, "--log", n.path("no/such/dir/log.json"), "--log-format", "json", "run", "--bundle", n.bundle, n.id)
	if r.code != 1 || !strings.Contains(r.stderr, "hostNetwork") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	n = newNode(t, "runc", "decisionLog: {path: /proc/no/such/log}\n")
	data, err := os.ReadFile(n.path("config.yaml"))
	n.must(err)
	n.write("config.yaml", strings.Replace(string(data), "decisionLog: {path: "+n.dir+"/decisions.jsonl}\n", "", 1))
	if r := n.start(); r.code != 7 {
		t.Errorf("a decision log that can't be written: exit code %d: %s", r.code, r.stderr)
	}
}

func TestTheRuntimesLogIsWrittenAsTheRuntimeWould(t *testing.T) {
	n := newNode(t, "runc", "")
	n.edit(func(c map[string]any) { delete(c["linux"].(map[string]any), "namespaces") })
	n.call("--root", n.root, "--log", n.log, "--log-format", "text", "run", "--bundle", n.bundle, n.id)
	text, err := os.ReadFile(n.log)
	n.must(err)
	if !strings.HasPrefix(string(text), `time="`) || !strings.Contains(string(text), ` level=error msg="nodeadmit: `) {
		t.Errorf("%s", text)
	}
}

func TestEveryOtherCommandGoesThroughWhateverIsBroken(t *testing.T) {
	bothRuntimes(t, func(t *testing.T, grammar string) {
		n := newNode(t, grammar, "")
		n.edit(func(c map[string]any) {
			c["process"].(map[string]any)["args"] = []string{"/bin/sleep", "100"}
		})
		if r := n.detached("create"); r.code != 0 {
			t.Fatalf("create: exit code %d", r.code)
		}
		n.must(os.Remove(n.path("config.yaml")))
		n.must(os.RemoveAll(n.path("policies.d")))
		n.must(os.Remove(n.path("runtime-judge")))
		for _, args := range [][]string{
			{"--version"}, {"--help"}, {"list"}, {"state", n.id}, {"start", n.id}, {"ps", n.id}, {"exec", n.id, "/bin/id"},
			{"pause", n.id}, {"resume", n.id}, {"kill", n.id, "KILL"},
		} {
			if args[0] == "exec" {
				continue // judged, see the tests of exec
			}
			if r := n.call(append([]string{"--root", n.root}, args...)...); r.code != 0 {
				t.Errorf("%v: exit code %d: %s", args, r.code, r.stderr)
			}
		}
		for range 100 { // until the kernel has the process down
			if r := n.call("--root", n.root, "delete", n.id); r.code == 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if r := n.call("--root", n.root, "state", n.id); r.code == 0 {
			t.Errorf("not deleted: %s", r.stdout)
		}
		if r := n.call("--root", n.root, "delete", "--force", "never-seen"); r.code != n.run("/", nil, n.real, "--root", n.root, "delete", "--force", "never-seen").code {
			t.Errorf("delete --force of what never was: exit code %d", r.code)
		}
	})
}

// detached runs a command that leaves a container behind, which keeps the
// descriptors that it gets.
func (n *node) detached(command string) result {
	n.t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	n.must(err)
	defer null.Close()
	c := exec.Command(n.wrapper, "--root", n.root, "--log", n.log, "--log-format", "json", command, "--bundle", n.bundle, n.id)
	c.Stdin, c.Stdout, c.Stderr = null, null, null
	_ = c.Run()
	return result{code: c.ProcessState.ExitCode(), stderr: n.logged()}
}

func TestNoDescriptorOfOursIsOpenInTheContainer(t *testing.T) {
	bothRuntimes(t, func(t *testing.T, grammar string) {
		n := newNode(t, grammar, "")
		n.edit(func(c map[string]any) {
			c["process"].(map[string]any)["args"] = []string{"/bin/sh", "-c", "ls /proc/self/fd"}
		})
		bare := n.run(n.bundle, nil, n.real, "--root", n.root, "run", "--bundle", n.bundle, n.id)
		if r := n.start(); r.code != 0 || r.stdout != bare.stdout {
			t.Errorf("exit code %d, descriptors %q, and %q with the bare runtime: %s", r.code, r.stdout, bare.stdout, r.stderr)
		}
	})
}

func TestTheEnvironmentChangesNothing(t *testing.T) {
	n := newNode(t, "runc", "")
	n.edit(func(c map[string]any) { delete(c["linux"].(map[string]any), "namespaces") })
	for name, env := range map[string][]string{
		"an empty one":  {"X=1"},
		"a hostile one": {"PATH=/tmp", "HOME=/nowhere", "LD_PRELOAD=/tmp/x.so", "GODEBUG=http2debug=2", "XDG_CONFIG_HOME=/tmp", "NODEADMIT_CONFIG=/tmp/x", "TMPDIR=/nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			m := *n
			m.t = t
			os.Remove(m.log)
			m.refused(m.run("/", env, m.wrapper, "--root", m.root, "--log", m.log, "--log-format", "json", "run", "--bundle", m.bundle, m.id), "hostNetwork")
		})
	}
}

func TestRestoreIsJudged(t *testing.T) {
	n := newNode(t, "runc", "")
	n.edit(func(c map[string]any) { delete(c["linux"].(map[string]any), "namespaces") })
	n.refused(n.call("--root", n.root, "--log", n.log, "--log-format", "json", "restore", "--bundle", n.bundle, "--image-path", n.dir, n.id), "hostNetwork")
}

// allowLink is a policy that allows one host path, which the tests make lead
// elsewhere between the wrapper's look and the runtime's.
func (n *node) allowLink() string {
	allowed := n.path("allowed")
	n.must(os.MkdirAll(filepath.Join(allowed, "dir"), 0o755))
	n.must(os.Symlink("dir", filepath.Join(allowed, "link")))
	n.write("policies.d/baseline.yaml", strings.Replace(baseline, "preset: baseline", "preset: baseline, controls: {hostPaths: {allow: [{pathPrefix: "+allowed+"}]}}", 1))
	return allowed
}

func TestALinkThatIsTurnedAfterTheWrapperIsRefusedByTheHook(t *testing.T) {
	bothRuntimes(t, func(t *testing.T, grammar string) {
		n := newNode(t, grammar, "")
		allowed := n.allowLink()
		n.edit(func(c map[string]any) {
			c["mounts"] = append(c["mounts"].([]any), map[string]any{
				"destination": "/data", "type": "bind", "source": filepath.Join(allowed, "link"), "options": []string{"rbind"},
			})
		})
		if r := n.start(); r.code != 7 {
			t.Fatalf("the link as it was: exit code %d: %s", r.code, r.stderr)
		}
		// The real runtime is started by a program that turns the link first.
		turn := n.path("turn")
		n.write("turn", fmt.Sprintf("#!/bin/sh\nrm %[1]s/link; ln -s /etc %[1]s/link; exec %[2]s \"$@\"\n", allowed, n.real))
		n.must(os.Chmod(turn, 0o755))
		n.must(os.Remove(n.wrapper + ".real"))
		n.must(os.Symlink(turn, n.wrapper+".real"))
		r := n.start()
		if r.code == 0 || r.code == 7 {
			t.Fatalf("it ran: exit code %d", r.code)
		}
		if grammar == "runc" {
			if !strings.Contains(r.stderr, "hostPaths: /data is mounted from /etc") {
				t.Errorf("runc's words: %s", r.stderr)
			}
		} else if !strings.Contains(r.stderr, "exit code: 25") {
			t.Errorf("crun's words: %s, want our exit code 25", r.stderr)
		}
		last := n.decisions()[len(n.decisions())-1]
		if last.Moment != "hook" || last.Decision != "Deny" || !strings.Contains(last.Message, "/data is mounted from /etc") {
			t.Errorf("decision log: %+v", last)
		}
		if out := n.run("/", nil, n.real, "--root", n.root, "state", n.id); out.code == 0 {
			t.Errorf("the container exists: %s", out.stdout)
		}
	})
}

func TestANamespaceThatIsTurnedAfterTheWrapperIsRefusedByTheHook(t *testing.T) {
	n := newNode(t, "runc", "")
	// A network namespace of its own, held by a process, behind a link.
	holder := exec.Command("unshare", "--net", "sleep", "100")
	n.must(holder.Start())
	defer func() { holder.Process.Kill(); holder.Wait() }()
	own := fmt.Sprintf("/proc/%d/ns/net", holder.Process.Pid)
	host, err := os.Readlink("/proc/self/ns/net")
	n.must(err)
	for range 100 {
		if now, err := os.Readlink(own); err == nil && now != host {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	link := n.path("net")
	n.must(os.Symlink(own, link))
	n.edit(func(c map[string]any) {
		for _, ns := range c["linux"].(map[string]any)["namespaces"].([]any) {
			if ns.(map[string]any)["type"] == "network" {
				ns.(map[string]any)["path"] = link
			}
		}
	})
	if r := n.start(); r.code != 7 {
		t.Fatalf("the namespace as it was: exit code %d: %s", r.code, r.stderr)
	}
	turn := n.path("turn")
	n.write("turn", fmt.Sprintf("#!/bin/sh\nrm %[1]s; ln -s /proc/self/ns/net %[1]s; exec %[2]s \"$@\"\n", link, n.real))
	n.must(os.Chmod(turn, 0o755))
	n.must(os.Remove(n.wrapper + ".real"))
	n.must(os.Symlink(turn, n.wrapper+".real"))
	if r := n.start(); r.code == 7 || !strings.Contains(r.stderr, "hostNetwork") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
}

func TestAPodAuthorsWordsAreNotWrittenByTheHookUnderCrun(t *testing.T) {
	n := newNode(t, "crun", "")
	allowed := n.allowLink()
	target := n.path("stolen")
	n.write("policies.d/baseline.yaml", strings.Replace(baseline, "preset: baseline", "preset: baseline, controls: {runtimeAnnotations: {allow: ['*']}, hostPaths: {allow: [{pathPrefix: "+allowed+"}]}}", 1))
	n.edit(func(c map[string]any) {
		c["annotations"] = map[string]any{"run.oci.hooks.stderr": target}
		c["mounts"] = append(c["mounts"].([]any), map[string]any{
			"destination": "/SECRET-WORDS", "type": "bind", "source": filepath.Join(allowed, "link"), "options": []string{"rbind"},
		})
	})
	turn := n.path("turn")
	n.write("turn", fmt.Sprintf("#!/bin/sh\nrm %[1]s/link; ln -s /etc %[1]s/link; exec %[2]s \"$@\"\n", allowed, n.real))
	n.must(os.Chmod(turn, 0o755))
	n.must(os.Remove(n.wrapper + ".real"))
	n.must(os.Symlink(turn, n.wrapper+".real"))
	if r := n.start(); r.code == 7 {
		t.Fatal("it ran")
	}
	if got, err := os.ReadFile(target); err != nil || strings.Contains(string(got), "SECRET") || !strings.Contains(string(got), "reason 25") {
		t.Errorf("the hook wrote %q: %v", got, err)
	}
}

// The hook by itself, with the state that a runtime would give.
func TestAStateThatCanNotBeJudgedIsRefused(t *testing.T) {
	n := newNode(t, "runc", "")
	hook := func(state string, args ...string) result {
		n.t.Helper()
		c := exec.Command(n.path("oci-hook"), args...)
		var stderr bytes.Buffer
		c.Stdin, c.Stderr, c.Dir = strings.NewReader(state), &stderr, "/"
		_ = c.Run()
		return result{code: c.ProcessState.ExitCode(), stderr: stderr.String()}
	}
	good := []string{"--config", n.path("config.yaml"), "--runtime", "r"}
	for name, c := range map[string]struct {
		state string
		args  []string
		code  int
		want  string
	}{
		"an empty state":         {"", good, 11, "state on stdin"},
		"no JSON":                {"hello", good, 11, "state on stdin"},
		"no bundle":              {`{"ociVersion":"1.0.2","id":"x","pid":5}`, good, 11, "bundle is missing"},
		"a relative bundle":      {`{"bundle":"b","pid":5}`, good, 11, "absolute"},
		"no pid":                 {`{"bundle":"/b"}`, good, 11, "pid"},
		"a huge one":             {`{"x":"` + strings.Repeat("x", 17<<20) + `"}`, good, 11, "larger than"},
		"a bundle that isn't":    {`{"bundle":"/no/such","pid":5}`, good, 11, "/no/such"},
		"no configuration":       {`{"bundle":"/b","pid":5}`, []string{"--config", "/no/such", "--runtime", "r"}, 12, "/no/such"},
		"no runtime and engine":  {`{"bundle":"/b","pid":5}`, []string{"--config", n.path("config.yaml")}, 12, "--runtime"},
		"an unknown runtime":     {`{"bundle":"/b","pid":5}`, []string{"--config", n.path("config.yaml"), "--runtime", "z"}, 12, `"z"`},
		"an unknown flag":        {`{"bundle":"/b","pid":5}`, append([]string{"--nonsense"}, good...), 12, "nonsense"},
		"a relative config path": {`{"bundle":"/b","pid":5}`, []string{"--config", "c.yaml", "--runtime", "r"}, 12, "absolute"},
	} {
		t.Run(name, func(t *testing.T) {
			r := hook(c.state, c.args...)
			if r.code != c.code || !strings.Contains(r.stderr, c.want) {
				t.Errorf("exit code %d, want %d: %s", r.code, c.code, r.stderr)
			}
		})
	}
}

func TestADecisionThatTakesTooLongIsRefused(t *testing.T) {
	n := newNode(t, "runc", "deadline: 300ms\n")
	// A FUSE mount that never answers would be the real thing; a pipe in the
	// place of the state's end does for the hook, which waits for stdin.
	c := exec.Command(n.path("oci-hook"), "--config", n.path("config.yaml"), "--runtime", "r")
	in, err := c.StdinPipe()
	n.must(err)
	defer in.Close()
	start := time.Now()
	_ = c.Run()
	if took := time.Since(start); took > 8*time.Second || c.ProcessState.ExitCode() != 14 {
		t.Errorf("exit code %d after %v, want 14 within 5 s", c.ProcessState.ExitCode(), took)
	}
}

func TestUnknownFlagsFollowTheRule(t *testing.T) {
	n := newNode(t, "runc", "lateCheck: false\n")
	r := n.call("--root", n.root, "--log", n.log, "--log-format", "json", "run", "--bundle", n.bundle, "--brand-new", n.id)
	n.refused(r, "unknown flag", "brand-new")
}
