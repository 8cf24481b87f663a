package conformance

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

var (
	pods = flag.Int("pods", 3000, "how many random pods TestRandomPods looks at")
	seed = flag.Uint64("seed", 1, "the first random pod's seed; each has the next number")
)

// TestRandomPods looks at random pods on a random node, at baseline and
// restricted of a random version. A pod is found again by its seed:
//
//	go test ./test/conformance -run TestRandomPods -seed N -pods 1 -v
func TestRandomPods(t *testing.T) {
	var (
		next, faults atomic.Int64
		mu           sync.Mutex
		count        = map[string]int{}
		wait         sync.WaitGroup
		start        = time.Now()
	)
	for range runtime.GOMAXPROCS(0) {
		wait.Go(func() {
			own := map[string]int{}
			for i := next.Add(1) - 1; i < int64(*pods) && faults.Load() < 20; i = next.Add(1) - 1 {
				if bad := randomLook(*seed+uint64(i), own); bad != "" {
					faults.Add(1)
					t.Errorf("seed %d: %s", *seed+uint64(i), bad)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			for k, n := range own {
				count[k] += n
			}
		})
	}
	wait.Wait()
	var lines []string
	for _, k := range sortedKeys(count) {
		lines = append(lines, fmt.Sprintf("%8d %s", count[k], k))
	}
	t.Logf("%d random pods, 2 verdicts each, in %v:\n%s", *pods, time.Since(start).Round(time.Second), strings.Join(lines, "\n"))
}

// randomLook makes a pod of a seed and looks at it. It returns what is not
// explained.
func randomLook(seed uint64, count map[string]int) (bad string) {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0))}
	p := randomPod(g.Rand)
	nodes := views()[:6]
	v := nodes[g.IntN(len(nodes))]
	defer func() {
		if r := recover(); r != nil {
			bad = fmt.Sprintf("panic: %v\n%s", r, text(p))
		}
	}()
	for _, level := range []policy.Level{policy.Baseline, policy.Restricted} {
		s := g.randomStandard(level)
		o, err := look(v.node, p, s)
		if err != nil {
			return fmt.Sprintf("%s: %v\n%s", v.name, err, text(p))
		}
		switch {
		case o.notStarted:
			count["not started"]++
		case o.agrees() && o.refused:
			count["refused by both"]++
		case o.agrees():
			count["allowed by both"]++
		case o.refused:
			count["refused, "+o.classes[0]]++
		default:
			count["unseen"]++
			for _, c := range o.classes {
				count["unseen, "+c]++
			}
		}
	}
	return ""
}

func text(v any) string { return string(mustJSON(v)) }
