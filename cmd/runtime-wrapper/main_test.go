package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

var wrapper string // the binary under test

// launch makes the test binary a caller with signals blocked and ignored: it execs
// its arguments (a path, then an argv) with the environment that it was given.
const launch = "RUNTIME_WRAPPER_TEST_LAUNCH"

func TestMain(m *testing.M) {
	if os.Getenv(launch) != "" {
		launched()
	}
	dir, err := os.MkdirTemp("", "runtime-wrapper")
	if err != nil {
		panic(err)
	}
	wrapper = filepath.Join(dir, "lib", "runtime-wrapper")
	build := exec.Command("go", "build", "-o", wrapper, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// launched blocks the signals of launch's first half and ignores those of its
// second, in hexadecimal with bit n-1 for signal n, and execs.
func launched() {
	runtime.LockOSThread()
	block, ignore, _ := strings.Cut(os.Getenv(launch), " ")
	mask, _ := strconv.ParseUint(block, 16, 64)
	ignored, _ := strconv.ParseUint(ignore, 16, 64)
	for n := syscall.Signal(1); n <= 64; n++ {
		if ignored>>(n-1)&1 == 1 {
			signal.Ignore(n)
		}
	}
	const setMask = 2
	syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, setMask, uintptr(unsafe.Pointer(&mask)), 0, 8, 0, 0)
	env := slices.DeleteFunc(os.Environ(), func(s string) bool { return strings.HasPrefix(s, launch+"=") })
	panic(syscall.Exec(os.Args[1], os.Args[2:], env))
}

// wrap makes name a wrapped runtime in a fresh directory with its own copy of the
// wrapper, and returns name's path. target is what name.real points to, none if "".
func wrap(t *testing.T, name, target string) string {
	t.Helper()
	dir := t.TempDir()
	data, err := os.ReadFile(wrapper)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "runtime-wrapper"), data, 0o755); err != nil {
		t.Fatal(err)
	}
	p := filepath.Join(dir, name)
	symlink(t, filepath.Join(dir, "runtime-wrapper"), p)
	if target != "" {
		symlink(t, target, p+".real")
	}
	return p
}

func symlink(t *testing.T, target, link string) {
	t.Helper()
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
}

func lookPath(t *testing.T, name string) string {
	t.Helper()
	p, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fails runs a call that must end with 1, and returns its one line of stderr.
func fails(t *testing.T, path string, args ...string) string {
	t.Helper()
	cmd := exec.Command(path, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	ee := (*exec.ExitError)(nil)
	if !errors.As(err, &ee) || ee.ExitCode() != 1 {
		t.Fatalf("%v, stdout %q, stderr %q", err, &stdout, &stderr)
	}
	line, rest, ok := strings.Cut(stderr.String(), "\n")
	if !ok || rest != "" || stdout.Len() > 0 {
		t.Errorf("not one line: stdout %q, stderr %q", &stdout, &stderr)
	}
	return line
}

func TestPassThroughChangesNothing(t *testing.T) {
	cat := lookPath(t, "cat")
	p := wrap(t, "runc", cat)
	files := []string{"/proc/self/cmdline", "/proc/self/environ", "/proc/self/limits"}
	run := func(path, argv0 string) string {
		// Repeated variables and some without an equals sign, which os/exec would drop.
		env := []string{"A=1", "B=", "A=2", "", "=x", "GODEBUG=madvdontneed=1", "none", "C=ä\xff"}
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		proc, err := os.StartProcess(path, append([]string{argv0}, files...), &os.ProcAttr{Env: env, Files: []*os.File{nil, w, w}})
		w.Close()
		if err != nil {
			t.Fatal(err)
		}
		out, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if state, err := proc.Wait(); err != nil || !state.Success() {
			t.Fatalf("%v %v %s", state, err, out)
		}
		return string(out)
	}
	bare, wrapped := run(cat, "cat"), run(p, p)
	if bare != wrapped {
		t.Errorf("bare\n%q\nwrapped\n%q", bare, wrapped)
	}
	if !strings.HasPrefix(wrapped, "cat\x00/proc/self/cmdline\x00") {
		t.Errorf("argv[0] is not the base name of the link's target: %q", wrapped)
	}
}

func TestPassThroughKeepsWorkingDirectoryUmaskAndLimits(t *testing.T) {
	sh := lookPath(t, "sh")
	p := wrap(t, "runc", sh)
	const script = `umask 027; ulimit -S -n 300; ulimit -S -c 5; cd /usr; exec "$0" -c 'pwd -P; umask; ulimit -S -n; ulimit -H -n; ulimit -c'`
	out := func(path string) string {
		b, err := exec.Command(sh, "-c", script, path).Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	bare, wrapped := out(sh), out(p)
	if bare != wrapped {
		t.Errorf("bare %q, wrapped %q", bare, wrapped)
	}
	if !strings.HasPrefix(wrapped, "/usr\n0027\n300\n") {
		t.Errorf("%q", wrapped)
	}
}

func TestPassThroughLeavesNoDescriptorOfOurs(t *testing.T) {
	ls := lookPath(t, "ls")
	p := wrap(t, "runc", ls)
	extra, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	count := func(path string) string {
		cmd := exec.Command(path, "/proc/self/fd")
		cmd.ExtraFiles = []*os.File{extra}
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if bare, wrapped := count(ls), count(p); bare != wrapped || !strings.Contains(wrapped, "3\n") {
		t.Errorf("bare %q, wrapped %q", bare, wrapped)
	}
}

// The caller's signal mask is kept whole; of the signals that it ignored, Go's
// runtime keeps only some (execve).
func TestSignals(t *testing.T) {
	cat := lookPath(t, "cat")
	p := wrap(t, "runc", cat)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	status := func(path string, block, ignore uint64) (blocked, ignored uint64) {
		cmd := exec.Command(self, path, path, "/proc/self/status")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%x %x", launch, block, ignore))
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(out)) {
			name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
			n, _ := strconv.ParseUint(value, 16, 64)
			switch name {
			case "SigBlk":
				blocked = n
			case "SigIgn":
				ignored = n
			}
		}
		return blocked, ignored
	}
	set := func(signals ...syscall.Signal) (mask uint64) {
		for _, s := range signals {
			mask |= 1 << (s - 1)
		}
		return mask
	}

	for _, block := range []uint64{^uint64(0), set(syscall.SIGCHLD, syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGPIPE), 0} {
		bare, _ := status(cat, block, 0)
		if wrapped, _ := status(p, block, 0); wrapped != bare {
			t.Errorf("blocked %#x, want %#x", wrapped, bare)
		}
	}
	kept := set(syscall.SIGHUP, syscall.SIGINT)
	lost := set(syscall.SIGPIPE, syscall.SIGUSR1, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGCHLD)
	// What the test itself was started with (nohup ignores HUP) is there anyway.
	_, base := status(p, 0, 0)
	if _, ignored := status(p, 0, kept|lost); ignored != kept|base {
		t.Errorf("ignored %#x, want %#x", ignored, kept|base)
	}
}

func TestAJudgedCommandGoesToTheJudgeWithItsArgv(t *testing.T) {
	p := wrap(t, "runc", lookPath(t, "true"))
	symlink(t, lookPath(t, "cat"), filepath.Join(filepath.Dir(p), "runtime-judge"))
	for _, args := range [][]string{{"create", "/proc/self/cmdline"}, {"--new", "run", "/proc/self/cmdline"}} {
		cmd := exec.Command(p, args...)
		out, _ := cmd.Output() // cat complains about the other words
		if want := strings.Join(append([]string{p}, args...), "\x00") + "\x00"; args[0] == "create" && string(out) != want {
			t.Errorf("%q, want %q", out, want)
		}
	}
}

func TestTheJudgeIsFoundAfterTheWrapperWasReplaced(t *testing.T) {
	// The running wrapper's file is renamed over while it is starting; here the shell
	// holds it as a descriptor and it is gone before it runs.
	p := wrap(t, "runc", lookPath(t, "true"))
	dir := filepath.Dir(p)
	symlink(t, lookPath(t, "echo"), filepath.Join(dir, "runtime-judge"))
	f, err := os.Open(filepath.Join(dir, "runtime-wrapper"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/fd/3", "create", "x")
	cmd.Args[0] = p
	cmd.ExtraFiles = []*os.File{f}
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != "create x\n" {
		t.Errorf("%v %q", err, out)
	}
}

func TestErrorsSayWhatIsWrongAndWhatRepairsIt(t *testing.T) {
	tests := []struct {
		name, target string
		args         []string
		want         []string
	}{
		{"a missing link", "", []string{"state", "x"}, []string{"runc.real", "no such file", "nodeadmit install"}},
		{"a dangling link", "/nonexistent/runc", []string{"state", "x"}, []string{"/nonexistent/runc", "runc.real", "no such file", "install it"}},
		{"a relative link", "true", []string{"state", "x"}, []string{"runc.real", "not an absolute path"}},
		{"a runtime that is not executable", "/etc/passwd", []string{"state", "x"}, []string{"/etc/passwd", "permission denied"}},
		{"a runtime that is a directory", "/etc", []string{"state", "x"}, []string{"/etc", "permission denied"}},
		{"a missing judge", "/bin/true", []string{"create", "x"}, []string{"runtime-judge", "no such file", "reinstall"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			line := fails(t, wrap(t, "runc", tt.target), tt.args...)
			for _, w := range append(tt.want, "nodeadmit: ") {
				if !strings.Contains(line, w) {
					t.Errorf("%q lacks %q", line, w)
				}
			}
		})
	}
	t.Run("a link to the wrapper itself", func(t *testing.T) {
		p := wrap(t, "runc", "")
		symlink(t, p, p+".real")
		if line := fails(t, p, "state", "x"); !strings.Contains(line, p+".real names "+p+", which is this wrapper again") {
			t.Error(line)
		}
	})
	t.Run("two wrappers in a row", func(t *testing.T) {
		p := wrap(t, "outer", "")
		inner := filepath.Join(filepath.Dir(p), "inner")
		symlink(t, filepath.Join(filepath.Dir(p), "runtime-wrapper"), inner)
		symlink(t, "/bin/true", inner+".real")
		symlink(t, inner, p+".real")
		for _, args := range [][]string{{"state", "x"}, {"create", "x"}} {
			if line := fails(t, p, args...); !strings.Contains(line, p+".real names "+inner) {
				t.Error(line)
			}
		}
	})
	t.Run("a name without a slash is not looked for in PATH", func(t *testing.T) {
		p := wrap(t, "runc-that-is-nowhere", "/bin/true")
		cmd := exec.Command(p, "state", "x")
		cmd.Args[0] = filepath.Base(p)
		cmd.Dir = filepath.Dir(p)
		cmd.Env = []string{"PATH=" + filepath.Dir(p)}
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), runtimesDir+"runc-that-is-nowhere.real") {
			t.Errorf("%v %s", err, out)
		}
	})
}

func TestErrorsOfJudgedCommandsReachTheLog(t *testing.T) {
	p := wrap(t, "runc\"\n", "/bin/true") // a name that needs escaping
	dir := t.TempDir()
	for _, tt := range []struct {
		name string
		args []string
		want bool
	}{
		{"as containerd calls it", []string{"--root", "/r", "--log", "L", "--log-format", "json", "create", "--bundle", "/b", "ID"}, true},
		{"joined", []string{"-log=L", "run", "ID"}, true},
		{"crun's file scheme", []string{"--log=file:L", "--log-format=json", "create", "ID"}, true},
		{"crun's journal", []string{"--log=journald:L", "create", "ID"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := filepath.Join(dir, tt.name)
			for i := range tt.args {
				tt.args[i] = strings.ReplaceAll(tt.args[i], "L", log)
			}
			before := time.Now().Truncate(time.Second)
			line := fails(t, p, tt.args...)
			fails(t, p, tt.args...) // appended
			data, err := os.ReadFile(log)
			if !tt.want {
				if err == nil {
					t.Errorf("%s", data)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			entries := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
			if len(entries) != 2 {
				t.Fatalf("%q", entries)
			}
			var e struct {
				Level, Msg string
				Time       time.Time
			}
			if err := json.Unmarshal([]byte(entries[1]), &e); err != nil {
				t.Fatal(err)
			}
			if e.Level != "error" || printable(e.Msg) != line || e.Time.Before(before) || e.Time.After(time.Now()) {
				t.Errorf("%+v, stderr %q", e, line)
			}
		})
	}
	t.Run("a log that can't be written changes nothing but a second line", func(t *testing.T) {
		out, err := exec.Command(p, "--log", "/nonexistent/log", "create", "ID").CombinedOutput()
		if err == nil || strings.Count(string(out), "\n") != 2 {
			t.Errorf("%v %s", err, out)
		}
	})
	t.Run("another command's error is not logged", func(t *testing.T) {
		p := wrap(t, "runc", "/nonexistent")
		log := filepath.Join(dir, "other")
		fails(t, p, "--log", log, "state", "x")
		if _, err := os.Stat(log); err == nil {
			t.Error("logged")
		}
	})
}

func TestQuoteJSON(t *testing.T) {
	for _, s := range []string{"", "plain", "a\"b\\c", "\x00\x1f\n\t\x7f", "ä \u2028 😀"} {
		var got string
		if err := json.Unmarshal([]byte(quoteJSON(s)), &got); err != nil || got != s {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
	var got string
	if err := json.Unmarshal([]byte(quoteJSON("a\xffb")), &got); err != nil || got != "a\ufffdb" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestRFC3339(t *testing.T) {
	for _, unix := range []int64{0, 951782399, 951782400, 1709164800, 1735689599, 1764547200, 4102444800, 13569465600} {
		if got, want := rfc3339(unix), time.Unix(unix, 0).UTC().Format(time.RFC3339); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// The front starts for every call of the runtime: it links nothing that works at
// initialisation.
func TestTheFrontLinksAlmostNothing(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	for _, heavy := range []string{"os", "fmt", "time", "reflect", "regexp", "encoding/json", "strconv", "path/filepath", "net"} {
		if slices.Contains(deps, heavy) {
			t.Errorf("links %s", heavy)
		}
	}
}
