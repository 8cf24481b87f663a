package install

import (
	"os/exec"
	"strconv"
	"testing"
	"time"
)

func TestStartTime(t *testing.T) {
	c := exec.Command("sleep", "60")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Process.Kill(); _ = c.Wait() }()
	got, ok := startTime("/proc/" + strconv.Itoa(c.Process.Pid))
	if d := time.Since(got); !ok || d < -3*time.Second || d > 10*time.Second {
		t.Errorf("started %s ago, %v", d, ok)
	}
}
