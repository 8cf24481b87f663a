package test

import (
	"os/exec"
	"strings"
	"testing"
)

// Everything on the container path is started for each container. Linking what
// is below costs 10 to 20 ms of package initialisation each time, even unused.
func TestTheProgramsOnTheContainerPathStayLight(t *testing.T) {
	heavy := []string{
		"google.golang.org/grpc", "github.com/google/cel-go", "cel.dev/", "k8s.io/", "sigs.k8s.io/",
		"net/http", "crypto/tls", "github.com/spf13/cobra", "github.com/containerd/",
	}
	lightest := append([]string{"encoding/json", "go.yaml.in/", "github.com/sirupsen/", "fmt", "os", "reflect", "regexp"}, heavy...)
	for program, forbidden := range map[string][]string{
		"runtime-wrapper": lightest,
		"runtime-judge":   heavy,
		"oci-hook":        heavy,
	} {
		t.Run(program, func(t *testing.T) {
			cmd := exec.Command("go", "list", "-deps", "./cmd/"+program)
			cmd.Dir = ".."
			out, err := cmd.Output()
			if err != nil {
				t.Fatal(err)
			}
			deps := strings.Fields(string(out))
			if len(deps) < 5 {
				t.Fatalf("go list gave %v", deps)
			}
			for _, dep := range deps {
				for _, f := range forbidden {
					if dep == strings.TrimSuffix(f, "/") || strings.HasPrefix(dep, strings.TrimSuffix(f, "/")+"/") && f != "os" {
						t.Errorf("links %s", dep)
					}
				}
			}
		})
	}
}
