package policy

import (
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

func TestWorkingDirectory(t *testing.T) {
	t.Parallel()
	in := func(dir string) func(*specs.Spec) { return func(s *specs.Spec) { s.Process.Cwd = dir } }
	proc := func(s *specs.Spec) { s.Mounts = append(s.Mounts, specs.Mount{Destination: "/p/", Type: "proc"}) }
	tests := map[string]ruleTest{
		"privileged doesn't ask":                {change: in("/proc/self/fd/7"), want: Satisfied},
		"restricted asks in v1.0":               {level: Restricted, version: "v1.0", change: in("/proc/self/fd/7"), want: Violated, says: "the working directory is /proc/self/fd/7, an open file"},
		"it may be allowed":                     {level: Baseline, settings: "{allow: true}", change: in("/proc/self/fd/7"), want: Satisfied},
		"another mount of proc leads there":     {level: Baseline, change: both(proc, in("/p/self/fd/7")), want: Violated, says: "/p/self/fd/7"},
		"another mount of proc is a directory":  {level: Baseline, change: both(proc, in("/p")), want: Satisfied},
		"a bind of the host's /proc does":       {level: Baseline, change: both(bind("/host/proc", "/proc"), in("/host/proc/self/fd/7")), want: Violated, says: "/host/proc/self/fd/7"},
		"a bind of the host's root does":        {level: Baseline, change: both(bind("/host", "/"), in("/host/proc/1/cwd")), want: Violated, says: "/host/proc/1/cwd"},
		"a bind elsewhere may have such a name": {level: Baseline, change: both(bind("/data", "/srv/data"), in("/data/self/fd/7")), want: Satisfied},
		"a sandbox's is judged":                 {level: Baseline, kind: spec.KindSandbox, change: in("/proc/self/fd/7"), want: Violated, says: "/proc/self/fd/7"},
		"a sandbox's own is none":               {level: Baseline, kind: spec.KindSandbox, want: Undetermined, says: "when the pod's containers"},
		"without a process nothing can be told": {level: Baseline, change: noProcess, want: Undetermined, says: "can't be told"},
		"a sandbox without a process waits":     {level: Baseline, kind: spec.KindSandbox, change: noProcess, want: Undetermined, says: "when the pod's containers"},
	}
	for _, dir := range []string{
		"/proc/self/fd/7", "/proc/self/fd/7/", "/proc/self/fd", "/proc/self/fd/7/../../../..", "//proc//self//fd//7", "/proc/./self/./fd/7",
		"/proc/thread-self/fd/8", "/proc/1/fd/3", "/proc/4242/fd/3", "/proc/self/task/1/fd/7", "/proc/self/task/1/cwd", "/dev/fd/7", "/dev/fd/../fd/7",
		"/tmp/../proc/self/fd/7", "/link/../self/fd/7", "/proc/self/cwd", "/proc/self/root", "/proc/1/root/etc", "/proc/self/map_files/x",
		"proc/self/fd/7", "/proc/self/../self/fd/7",
	} {
		tests[dir+" is refused"] = ruleTest{level: Baseline, change: in(dir), want: Violated, says: "an open file of a process"}
	}
	for _, dir := range []string{
		"/", "/app", "/proc", "/proc/self", "/proc/sys", "/proc/self/task", "/dev", "/dev/shm", "/home/fd/7", "/procfs/self/fd/7", "/app/proc/self/fd/7",
		"/app/../srv", "/proc/selfish/fd/7", "/dev/fdx", "/proc/self/fdinfo",
	} {
		tests[dir+" is satisfied"] = ruleTest{level: Baseline, change: in(dir), want: Satisfied}
	}
	runRuleTests(t, "workingDirectory", tests)
}
