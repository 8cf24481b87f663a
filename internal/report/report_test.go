package report

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nodeadmit/nodeadmit/internal/judge"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

func TestTheRuntimesLogIsWhatContainerdReads(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log.json")
	const message = "nodeadmit: a \"quoted\" word, <html> & ü\\"
	for range 2 {
		if err := RuntimeLog("file:"+name, "json", message); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("%q", data)
	}
	var e map[string]string
	if err := json.Unmarshal([]byte(lines[1]), &e); err != nil {
		t.Fatal(err)
	}
	if _, err := time.Parse(time.RFC3339, e["time"]); err != nil || len(e) != 3 || e["level"] != "error" || e["msg"] != message {
		t.Errorf("%v, %v", e, err)
	}
}

func TestALogThatIsNoFileIsNotWritten(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"", "file:", "journald:x", "syslog:x"} {
		if err := RuntimeLog(name, "json", "x"); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if entries, _ := os.ReadDir("."); len(entries) != 0 {
		t.Errorf("%v was made", entries)
	}
}

// Whoever makes a log a pipe must not be able to keep a container from being
// decided on.
func TestAPipeThatNobodyReadsIsNotWaitedFor(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	write := func() error {
		done := make(chan error, 1)
		go func() { done <- Decision(name, Entry{Message: strings.Repeat("x", 1<<20)}) }()
		select {
		case err := <-done:
			return err
		case <-time.After(10 * time.Second):
			t.Fatal("still waiting")
			return nil
		}
	}
	if err := write(); !errors.Is(err, syscall.ENXIO) {
		t.Errorf("without a reader: %v", err)
	}
	reader, err := syscall.Open(name, syscall.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(reader)
	if err := write(); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("with one that doesn't read: %v", err)
	}
}

func TestTheDecisionLogIsOneLineEach(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "new", "decisions.jsonl")
	a := &judge.Answer{Refusal: "no\nnewline", Err: errors.New("a\nb"), Notes: []string{"x\ny"}}
	for range 2 {
		if err := Decision(name, NewEntry(a, time.Now())); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(name)
	if err != nil || strings.Count(string(data), "\n") != 2 {
		t.Errorf("%q, %v", data, err)
	}
	if info, _ := os.Stat(name); info.Mode().Perm()&0o027 != 0 {
		t.Errorf("mode %v", info.Mode())
	}
	if err := Decision(filepath.Join(dir, "no/such/dir/log"), Entry{}); err == nil {
		t.Error("more than one directory was made")
	}
	if err := os.Symlink(name, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := Decision(filepath.Join(dir, "link"), Entry{}); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("through a link: %v", err)
	}
	if err := Decision("", Entry{}); err != nil {
		t.Error(err)
	}
}

func TestAnEntryIsBounded(t *testing.T) {
	a := &judge.Answer{Decision: policy.Decision{Violations: make([]policy.Violation, 3000)}}
	e := NewEntry(a, time.Now())
	if len(e.Violations) != maxViolations || len(e.Notes) != 1 || !strings.Contains(e.Notes[0], "2950 more") {
		t.Errorf("%d violations, notes %v", len(e.Violations), e.Notes)
	}
	if len(a.Decision.Violations) != 3000 {
		t.Error("the decision itself was cut")
	}
}

func TestAnAllowedStartSaysSo(t *testing.T) {
	if e := NewEntry(&judge.Answer{}, time.Now()); e.Decision != "Allow" || e.Message != "" || e.Error != "" {
		t.Errorf("%+v", e)
	}
	passed := NewEntry(&judge.Answer{Err: errors.New("x"), Overridden: "refused", Until: time.Now()}, time.Now())
	if passed.Decision != "Allow" || passed.Message != "refused" || !strings.HasPrefix(passed.Notes[0], "BREAK-GLASS") {
		t.Errorf("%+v", passed)
	}
}
