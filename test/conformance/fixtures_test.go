package conformance

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodeadmit/nodeadmit/pkg/pod"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

// fixture is one of upstream's pods.
type fixture struct {
	standard
	name string
	pass bool
	pod  *corev1.Pod
}

func (f *fixture) String() string {
	dir := "fail"
	if f.pass {
		dir = "pass"
	}
	return string(f.level) + "/" + f.version + "/" + dir + "/" + f.name
}

// upstreamFixtures reads them all from the module, with the API's defaults.
var upstreamFixtures = sync.OnceValues(func() ([]fixture, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/pod-security-admission").Output()
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "test/testdata/*/*/*/*.yaml"))
	if err != nil {
		return nil, err
	}
	var out []fixture
	for _, file := range files {
		p := strings.Split(filepath.ToSlash(file), "/")
		p = p[len(p)-4:]
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		pods, err := pod.Read(data)
		if err != nil {
			return nil, err
		}
		out = append(out, fixture{
			standard: standard{policy.Level(p[0]), p[1]}, name: strings.TrimSuffix(p[3], ".yaml"), pass: p[2] == "pass", pod: pods[0].Pod,
		})
	}
	return out, nil
})

// allFixtures is how many there are in v0.37.2.
const allFixtures = 4537

func fixturesOf(t testing.TB) []fixture {
	t.Helper()
	list, err := upstreamFixtures()
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != allFixtures {
		t.Fatalf("upstream has %d fixtures, want %d", len(list), allFixtures)
	}
	return list
}
