package engine

import (
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"
)

// Traces are what an engine might leave on a machine.
type Traces map[string][]string

// Look lists the machine's mounts, network links, cgroups, processes of container
// tools, and what lies in the directories that engines write to by habit. What a
// later look finds beyond that is LeftBehind. What bears an engine's own name is
// not listed, because others may run now: Close answers for that.
func Look() (Traces, error) {
	t := Traces{}
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		t.add("mount", strings.Fields(line)[4])
	}
	links, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	for _, l := range links {
		t.add("network link", l.Name)
	}
	if err := t.processes(); err != nil {
		return nil, err
	}
	filepath.WalkDir("/sys/fs/cgroup", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			t.add("cgroup", p)
		}
		return nil
	})
	for _, dir := range []string{
		"/run", "/run/netns", "/run/containerd", "/run/containerd/s", "/run/containerd/fifo", "/run/runc", "/run/nodeadmit",
		"/var/lib", "/var/lib/cni", "/var/lib/containerd", "/var/lib/kubelet", "/var/log", "/var/log/pods", "/etc/cni/net.d",
		"/etc/nodeadmit", "/opt",
	} {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			t.add("file", filepath.Join(dir, e.Name()))
		}
	}
	if forward, err := os.ReadFile("/proc/sys/net/ipv4/ip_forward"); err == nil {
		t.add("sysctl", "net.ipv4.ip_forward="+strings.TrimSpace(string(forward)))
	}
	return t, nil
}

func (t Traces) add(kind, what string) {
	if !strings.Contains(what, "/"+baseName) {
		t[kind] = append(t[kind], what)
	}
}

// processes lists engines, shims and runtimes.
func (t Traces) processes() error {
	pids, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return err
	}
	for _, p := range pids {
		command, _ := os.ReadFile(filepath.Join(p, "cmdline"))
		name, _, _ := strings.Cut(string(command), "\x00")
		if base := filepath.Base(name); strings.HasPrefix(base, "containerd") || base == "runc" {
			t.add("process", filepath.Base(p)+" "+strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return nil
}

// LeftBehind looks again, and again for a moment while the kernel takes things
// down, and returns what wasn't there before, one line each.
func (before Traces) LeftBehind() ([]string, error) {
	const tries = 40
	for try := 1; ; try++ {
		now, err := Look()
		if err != nil {
			return nil, err
		}
		var out []string
		for kind := range now {
			out = append(out, missing(now[kind], before[kind], "left behind: "+kind)...)
		}
		if len(out) == 0 || try == tries {
			sort.Strings(out)
			return out, nil
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// missing returns what of a isn't in b.
func missing(a, b []string, prefix string) []string {
	in := map[string]bool{}
	for _, s := range b {
		in[s] = true
	}
	var out []string
	for _, s := range a {
		if !in[s] {
			in[s] = true
			out = append(out, prefix+" "+s)
		}
	}
	return out
}
