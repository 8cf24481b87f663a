package cel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nodeadmit/nodeadmit/test/engine"
)

const (
	named       = `cel: policy "registry.static.k8s.io": "a container is called bad"`
	hostNetwork = `nodeadmit: pod team-a/net: cel: policy "registry.static.k8s.io": the node's network is the node's`
)

func TestPoliciesInCEL(t *testing.T) {
	for _, f := range engine.Flavours {
		t.Run(string(f), func(t *testing.T) {
			n := start(t, f, map[string]string{"loose.yaml": loose, "registry.yaml": registryPolicy})
			check := func(t *testing.T, passedOver bool) {
				t.Helper()
				before := len(n.Decisions())
				if line, _, _ := n.run(t, engine.Pod{Name: "good"}); line != "" {
					t.Errorf("refused: %s", line)
				}
				line, step, pulls := n.run(t, engine.Pod{Name: "web", Containers: []engine.Container{{Name: "bad"}}})
				if want := "nodeadmit: pod team-a/web, container bad: " + named; line != want || step != engine.StepStart {
					t.Errorf("got  %s at %s\nwant %s", line, step, want)
				}
				line, step, pulls = n.run(t, engine.Pod{Name: "net", HostNetwork: true})
				if line != hostNetwork || step != engine.StepSandbox || pulls != 0 {
					t.Errorf("got  %s at %s after %d pulls\nwant %s", line, step, pulls, hostNetwork)
				}
				said := strings.Join(n.Decisions()[before:], "\n")
				if got := strings.Contains(said, "was passed over"); got != passedOver {
					t.Errorf("a resident evaluator was passed over: %v, want %v", got, passedOver)
				}
			}
			t.Run("an evaluator is started for each question", func(t *testing.T) { check(t, false) })
			t.Run("a resident one answers", func(t *testing.T) {
				c := n.resident(t)
				check(t, false)
				t.Run("which is stopped, and hangs", func(t *testing.T) {
					if err := c.Process.Signal(stop); err != nil {
						t.Fatal(err)
					}
					check(t, true)
				})
				t.Run("and killed: its socket is still there", func(t *testing.T) {
					if err := c.Process.Kill(); err != nil {
						t.Fatal(err)
					}
					_ = c.Wait()
					if _, err := os.Lstat(n.socket); err != nil {
						t.Fatal(err)
					}
					check(t, true)
				})
				t.Run("and started again", func(t *testing.T) {
					n.resident(t)
					check(t, false)
				})
			})
			t.Run("killed in the middle of starting pods", func(t *testing.T) {
				done := make(chan struct{})
				go func() {
					defer close(done)
					for i := range 6 {
						if line, _, _ := n.run(t, engine.Pod{Name: "good"}); line != "" {
							t.Errorf("pod %d refused: %s", i, line)
						}
						if line, _, _ := n.run(t, engine.Pod{Name: "net", HostNetwork: true}); line != hostNetwork {
							t.Errorf("pod %d: %s", i, line)
						}
					}
				}()
				for {
					os.Remove(n.socket)
					c := n.resident(t)
					select {
					case <-done:
						return
					case <-time.After(70 * time.Millisecond):
						_ = c.Process.Kill()
						_ = c.Wait()
					}
				}
			})
			t.Run("no evaluator at all: nothing is started, and the text says why", func(t *testing.T) {
				os.Remove(n.socket)
				program := filepath.Join(n.Dir, "nodeadmit")
				if err := os.Chmod(program, 0o600); err != nil {
					t.Fatal(err)
				}
				defer os.Chmod(program, 0o755)
				line, step, _ := n.run(t, engine.Pod{Name: "good"})
				if !strings.HasPrefix(line, "nodeadmit: pod team-a/good: refused: the evaluator can't decide: ") || !strings.Contains(line, "permission denied") || step != engine.StepSandbox {
					t.Errorf("%s at %s", line, step)
				}
			})
			t.Run("a policy that doesn't compile", func(t *testing.T) {
				file := filepath.Join(n.PolicyDir, "zz.yaml")
				text := strings.NewReplacer("registry.static", "other.static", "c.name.startsWith", "c.name.beginsWith").Replace(registryPolicy)
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				defer os.Remove(file)
				line, _, _ := n.run(t, engine.Pod{Name: "good"})
				if !strings.Contains(line, "zz.yaml") || !strings.Contains(line, "doesn't compile") {
					t.Error(line)
				}
			})
		})
	}
}
