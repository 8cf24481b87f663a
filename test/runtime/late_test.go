package runtime

import (
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

// bind adds a bind mount to the bundle.
func (n *node) bind(source, destination string) {
	n.t.Helper()
	n.edit(func(c map[string]any) {
		c["mounts"] = append(c["mounts"].([]any), map[string]any{
			"destination": destination, "type": "bind", "source": source, "options": []string{"rbind"},
		})
	})
}

// before has a program run between the wrapper and the real runtime.
func (n *node) before(script string) {
	n.t.Helper()
	n.write("between", "#!/bin/sh\n"+script+"\nexec "+n.real+" \"$@\"\n")
	n.must(os.Chmod(n.path("between"), 0o755))
	n.must(os.Remove(n.wrapper + ".real"))
	n.must(os.Symlink(n.path("between"), n.wrapper+".real"))
}

// lateRefused asserts that the hook, and not the wrapper, refused a start.
func (n *node) lateRefused(r result, want string) {
	n.t.Helper()
	if r.code == 0 || r.code == 7 {
		n.t.Errorf("it ran: exit code %d", r.code)
	}
	last := n.decisions()[len(n.decisions())-1]
	if last.Moment != "hook" || last.Decision != "Deny" || !strings.Contains(last.Message, want) {
		n.t.Errorf("decision log: %+v, want %q; stderr %s", last, want, r.stderr)
	}
	if out := n.run("/", nil, n.real, "--root", n.root, "state", n.id); out.code == 0 {
		n.t.Errorf("the container exists: %s", out.stdout)
	}
}

// A hook of somebody else's runs before ours and mounts the host's /etc over
// what was judged.
func TestAMountThatAnotherHookMadeIsRefusedByOurs(t *testing.T) {
	for _, stage := range []string{"prestart", "createRuntime"} {
		t.Run(stage, func(t *testing.T) {
			n := newNode(t, "runc", "")
			n.bind(n.allowLink()+"/dir", "/data")
			n.write("other", "#!/bin/sh\npid=$(sed 's/.*\"pid\":\\([0-9]*\\).*/\\1/')\nexec nsenter -t $pid -m mount --bind /etc "+n.bundle+"/rootfs/data\n")
			n.must(os.Chmod(n.path("other"), 0o755))
			n.edit(func(c map[string]any) {
				c["hooks"] = map[string]any{stage: []any{map[string]any{"path": n.path("other"), "env": []string{"PATH=" + os.Getenv("PATH")}}}}
			})
			r := n.start()
			n.lateRefused(r, "/data is mounted from /etc")
			if !strings.Contains(r.stderr, "hostPaths: /data is mounted from /etc") {
				t.Errorf("runc says %s", r.stderr)
			}
		})
	}
}

// A mount point's name may hold white space that the kernel doesn't escape. It
// must not be taken for a shorter name, at which the bundle declares a tmpfs.
func TestANoBreakSpaceHidesNoMount(t *testing.T) {
	n := newNode(t, "runc", "")
	allowed := n.allowLink()
	secret := n.path("secret")
	n.must(os.Mkdir(secret, 0o700))
	n.must(syscall.Mount("secret", secret, "tmpfs", 0, ""))
	t.Cleanup(func() { _ = syscall.Unmount(secret, syscall.MNT_DETACH) })
	n.bind(allowed+"/link", "/dev/shm\u00a0x")
	if r := n.start(); r.code != 7 {
		t.Fatalf("the link as it was: exit code %d: %s", r.code, r.stderr)
	}
	n.turnAndBack(allowed, secret)
	n.lateRefused(n.start(), "is mounted from "+secret)
}

// turnAndBack has the link of allowLink lead elsewhere just while the runtime
// makes the container's mounts.
func (n *node) turnAndBack(allowed, elsewhere string) {
	n.t.Helper()
	n.before(fmt.Sprintf("rm %[1]s/link; ln -s %[2]s %[1]s/link", allowed, elsewhere))
	n.write("back", fmt.Sprintf("#!/bin/sh\nrm %[1]s/link; ln -s dir %[1]s/link\n", allowed))
	n.must(os.Chmod(n.path("back"), 0o755))
	n.edit(func(c map[string]any) {
		c["hooks"] = map[string]any{"createRuntime": []any{map[string]any{"path": n.path("back"), "env": []string{"PATH=" + os.Getenv("PATH")}}}}
	})
}

// By the time of our hook the link is what it was: only the mount table tells.
func TestALinkThatWasTurnedAndTurnedBackIsRefused(t *testing.T) {
	bothRuntimes(t, func(t *testing.T, grammar string) {
		n := newNode(t, grammar, "")
		allowed := n.allowLink()
		n.bind(allowed+"/link", "/data")
		n.turnAndBack(allowed, "/etc")
		n.lateRefused(n.start(), "/data is mounted from /etc")
	})
}

// The kernel's mount table has the real path, whatever the bundle is called by.
// runc takes no bundle behind a link.
func TestTheLateCheckSeesMountsOfABundleBehindALink(t *testing.T) {
	n := newNode(t, "crun", "")
	allowed := n.allowLink()
	n.bind(allowed+"/link", "/data")
	link := n.path("by-link")
	n.must(os.Symlink(n.bundle, link))
	n.bundle = link
	if r := n.start(); r.code != 7 {
		t.Fatalf("the link as it was: exit code %d: %s", r.code, r.stderr)
	}
	n.before(fmt.Sprintf("rm %[1]s/link; ln -s /etc %[1]s/link", allowed))
	n.lateRefused(n.start(), "/data is mounted from /etc")
}

// What the wrapper judged is only what it read: whoever changes config.json
// behind it is judged again, in full, and told of in the decision log.
func TestAConfigurationThatChangedSinceIsJudgedAgain(t *testing.T) {
	n := newNode(t, "runc", "")
	n.before("sed -i 's/exit 7/exit 8/' " + n.config())
	if r := n.start(); r.code != 8 {
		t.Errorf("a harmless change: exit code %d: %s", r.code, r.stderr)
	}
	last := n.decisions()[len(n.decisions())-1]
	if last.Moment != "hook" || len(last.Notes) != 1 || !strings.Contains(last.Notes[0], "config.json changed since") {
		t.Errorf("%+v", last)
	}
	n.before(`sed -i 's/{"type":"network"}/{"type":"network","path":"\/proc\/self\/ns\/net"}/' ` + n.config())
	n.lateRefused(n.start(), "hostNetwork")
}

func TestASourceThatGoesUpBehindALinkIsRefused(t *testing.T) {
	bothRuntimes(t, func(t *testing.T, grammar string) {
		n := newNode(t, grammar, "lateCheck: false\n")
		allowed := n.allowLink()
		n.must(os.Mkdir(filepath.Join(allowed, "passwd"), 0o755))
		n.must(os.Mkdir(n.path("elsewhere"), 0o755))
		n.must(os.Mkdir(n.path("elsewhere/deep"), 0o755))
		n.must(os.Symlink(n.path("elsewhere/deep"), filepath.Join(allowed, "away")))
		// By its text this is allowed/dir; the kernel goes to elsewhere/dir.
		n.must(os.Mkdir(n.path("elsewhere/dir"), 0o755))
		n.bind(allowed+"/away/../dir", "/data")
		n.refused(n.start(), "hostPaths: /data is mounted from "+n.path("elsewhere/dir"), `".." behind a symbolic link`)
		n.edit(func(c map[string]any) {
			m := c["mounts"].([]any)
			m[len(m)-1].(map[string]any)["source"] = allowed + "/dir/../dir"
		})
		if r := n.start(); r.code != 7 {
			t.Errorf("one that leads where it says: exit code %d: %s", r.code, r.stderr)
		}
	})
}

func TestOwnerAndModeOfTheBundlesConfigurationAreKept(t *testing.T) {
	n := newNode(t, "runc", "")
	n.must(os.Chown(n.config(), 1000, 1001))
	n.must(os.Chmod(n.config(), 0o640))
	if r := n.start(); r.code != 7 {
		t.Fatalf("exit code %d: %s", r.code, r.stderr)
	}
	info, err := os.Stat(n.config())
	n.must(err)
	if st := info.Sys().(*syscall.Stat_t); st.Uid != 1000 || st.Gid != 1001 || info.Mode().Perm() != 0o640 {
		t.Errorf("uid %d, gid %d, mode %v", st.Uid, st.Gid, info.Mode())
	}
	entries, err := os.ReadDir(n.bundle)
	n.must(err)
	if len(entries) != 2 {
		t.Errorf("left behind: %v", entries)
	}
}

// containerd's bundles: the refusal names the pod, in the wrapper and the hook.
func TestAPodsContainerIsCalledByItsNames(t *testing.T) {
	n := newNodeOf(t, "containerd", "runc", "")
	allowed := n.allowLink()
	n.edit(func(c map[string]any) {
		a := map[string]any{}
		for k, v := range map[string]string{
			"container-type": "container", "sandbox-id": "s", "sandbox-name": "web", "sandbox-namespace": "team-a", "sandbox-uid": "u1", "container-name": "app",
		} {
			a["io.kubernetes.cri."+k] = v
		}
		c["annotations"] = a
	})
	n.bind(allowed+"/link", "/data")
	if r := n.start(); r.code != 7 {
		t.Fatalf("exit code %d: %s", r.code, r.stderr)
	}
	n.before(fmt.Sprintf("rm %[1]s/link; ln -s /etc %[1]s/link", allowed))
	r := n.start()
	n.lateRefused(r, "nodeadmit: pod team-a/web, container app: hostPaths: /data is mounted from /etc")
	n.bind("/etc", "/host-etc")
	n.refused(n.start(), "nodeadmit: pod team-a/web, container app: hostPaths: /data is mounted from /etc")
	data, err := os.ReadFile(n.path("decisions.jsonl"))
	n.must(err)
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	var e struct {
		Pod struct{ Namespace, Name, UID, Container string }
		ID  string
	}
	n.must(json.Unmarshal([]byte(lines[len(lines)-1]), &e))
	if e.Pod.Namespace != "team-a" || e.Pod.Name != "web" || e.Pod.UID != "u1" || e.Pod.Container != "app" || e.ID != n.id {
		t.Errorf("%+v", e)
	}
}

func TestTheHookReadsAllOfItsState(t *testing.T) {
	n := newNode(t, "runc", "")
	c := exec.Command(n.path("oci-hook"), "--config", n.path("config.yaml"), "--runtime", "r")
	in, err := c.StdinPipe()
	n.must(err)
	n.must(c.Start())
	if _, err := in.Write(make([]byte, 40<<20)); err != nil {
		t.Errorf("not drained: %v", err)
	}
	n.must(in.Close())
	_ = c.Wait()
	if code := c.ProcessState.ExitCode(); code != 11 {
		t.Errorf("exit code %d", code)
	}
}

// hungFUSE mounts a filesystem whose server says hello and then nothing.
func hungFUSE(t *testing.T, point string) {
	t.Helper()
	if err := os.MkdirAll(point, 0o755); err != nil {
		t.Fatal(err)
	}
	fd, err := syscall.Open("/dev/fuse", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("no FUSE here:", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)
	if err := syscall.Mount("hung", point, "fuse", 0, options); err != nil {
		syscall.Close(fd)
		t.Skip("no FUSE here:", err)
	}
	t.Cleanup(func() {
		syscall.Close(fd) // ends all that wait for it
		_ = syscall.Unmount(point, syscall.MNT_DETACH)
	})
}

func TestAPathThatNeverAnswersIsRefusedInTime(t *testing.T) {
	for name, spoil := range map[string]func(n *node) string{
		"a namespace that is a pipe": func(n *node) string {
			n.must(syscall.Mkfifo(n.path("pipe"), 0o600))
			n.edit(func(c map[string]any) {
				for _, ns := range c["linux"].(map[string]any)["namespaces"].([]any) {
					if ns.(map[string]any)["type"] == "network" {
						ns.(map[string]any)["path"] = n.path("pipe")
					}
				}
			})
			return "hostNetwork"
		},
		"a namespace on a filesystem that hangs": func(n *node) string {
			hungFUSE(n.t, n.path("hung"))
			n.edit(func(c map[string]any) {
				for _, ns := range c["linux"].(map[string]any)["namespaces"].([]any) {
					if ns.(map[string]any)["type"] == "network" {
						ns.(map[string]any)["path"] = n.path("hung/net")
					}
				}
			})
			return "took longer than 500ms"
		},
		"a host path on one": func(n *node) string {
			hungFUSE(n.t, n.path("hung"))
			n.bind(n.path("hung/dir"), "/data")
			return "took longer than 500ms"
		},
		"a bundle on one": func(n *node) string {
			hungFUSE(n.t, n.path("hung"))
			n.bundle = n.path("hung/bundle")
			return "took longer than 500ms"
		},
		"policy on one": func(n *node) string {
			hungFUSE(n.t, n.path("policies.d/hung"))
			n.must(os.Remove(n.path("policies.d/baseline.yaml")))
			n.must(os.Symlink("hung/p.yaml", n.path("policies.d/p.yaml")))
			return ""
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "runc", "deadline: 500ms\n")
			want := spoil(n)
			began := time.Now()
			n.refused(n.runFrom("/"), want)
			if took := time.Since(began); took > 4*time.Second {
				t.Errorf("after %v", took)
			}
		})
	}
}
