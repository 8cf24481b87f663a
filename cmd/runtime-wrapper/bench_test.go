package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// BenchmarkPassThrough compares a pass-through with the bare runtime (here
// /bin/true, the most unfavourable one) and with a minimal Go program that execs
// it. The wrapper should stay within 5 % of the latter.
func BenchmarkPassThrough(b *testing.B) {
	dir := b.TempDir()
	build := func(path, pkg string) {
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v %s", err, out)
		}
	}
	minimal, front := filepath.Join(dir, "minimal"), filepath.Join(dir, "runc")
	build(minimal, "./testdata/minimal")
	build(front, ".")
	if err := os.Symlink("/bin/true", front+".real"); err != nil {
		b.Fatal(err)
	}
	programs := []string{"/bin/true", minimal, front}
	var times [3][]float64
	for b.Loop() {
		for i, p := range programs { // in turn, so that a busy machine is busy for all
			argv := []string{p, "--root", "/run/x", "--log", "/l", "--log-format", "json", "state", "abc"}
			start := time.Now()
			proc, err := os.StartProcess(p, argv, &os.ProcAttr{})
			if err != nil {
				b.Fatal(err)
			}
			if s, err := proc.Wait(); err != nil || !s.Success() {
				b.Fatal(s, err)
			}
			times[i] = append(times[i], float64(time.Since(start).Microseconds()))
		}
	}
	var median [3]float64
	for i, t := range times {
		slices.Sort(t)
		median[i] = t[len(t)/2]
	}
	b.ReportMetric(median[0], "us/bare")
	b.ReportMetric(median[1], "us/minimal")
	b.ReportMetric(median[2], "us/wrapper")
	b.ReportMetric(median[2]/median[1], "wrapper/minimal")
}
