package ociargs

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// The differential tests run generated command lines through the bare runtime and
// compare which configuration file it opens, seen by inotify, with what Parse
// says. No configuration file is valid, so nothing is ever started.
//
// NODEADMIT_TEST_RUNC and NODEADMIT_TEST_CRUN name further binaries, separated by
// colons. A missing runtime skips the test, but fails it when CI=true.

func TestDifferentialRunc(t *testing.T) {
	differential(t, Runc, 700, append([]string{"/usr/sbin/runc"}, extraBinaries("NODEADMIT_TEST_RUNC")...))
}

func TestDifferentialCrun(t *testing.T) {
	differential(t, Crun, 2000, append([]string{"/usr/bin/crun"}, extraBinaries("NODEADMIT_TEST_CRUN")...))
}

func extraBinaries(env string) []string {
	if v := os.Getenv(env); v != "" {
		return strings.Split(v, ":")
	}
	return nil
}

func differential(t *testing.T, g Grammar, n int, binaries []string) {
	if testing.Short() {
		n /= 10
	}
	for _, binary := range binaries {
		t.Run(binary, func(t *testing.T) {
			if _, err := os.Stat(binary); err != nil {
				if os.Getenv("CI") == "true" {
					t.Fatal(err)
				}
				t.Skip(err)
			}
			const workers = 2
			var wg sync.WaitGroup
			var counts [workers]counts
			for w := range workers {
				s := newStage(t, binary)
				rnd := rand.New(rand.NewSource(int64(w) + 1))
				wg.Go(func() {
					for range n / workers {
						s.compare(t, g, generate(rnd, g, s), &counts[w])
					}
				})
			}
			wg.Wait()
			for _, c := range counts[1:] {
				counts[0].add(c)
			}
			c := counts[0]
			t.Logf("%+v", c)
			if c.judgedRead < n/8 || c.passed < n/20 {
				t.Errorf("the generator hits too little: %+v", c)
			}
		})
	}
}

// counts says how many lines were judged (and then read by the bare runtime),
// passed, and refused (although the bare runtime would have read a bundle).
type counts struct{ judged, judgedRead, passed, refused, refusedRead int }

func (c *counts) add(d counts) {
	c.judged += d.judged
	c.judgedRead += d.judgedRead
	c.passed += d.passed
	c.refused += d.refused
	c.refusedRead += d.refusedRead
}

// stage is a directory of bundles whose configuration files are watched.
type stage struct {
	binary  string
	dir     string // working directory of the runtime
	inotify int
	watched map[int32]string
}

func newStage(t *testing.T, binary string) *stage {
	t.Helper()
	s := &stage{binary: binary, dir: t.TempDir(), watched: map[int32]string{}}
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK | syscall.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	s.inotify = fd
	for _, bundle := range []string{".", "a", "b", "c=d", "=a", "/a", "undle=a", "--bundle", "--help", "-b", "ID", "create", "--", "--no-pivot", "--new", "a "} {
		if err := os.MkdirAll(filepath.Join(s.dir, bundle), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"config.json", "alt.json"} {
			p := filepath.Join(s.dir, bundle, file)
			if _, err := os.Stat(p); err == nil {
				continue
			}
			if err := os.WriteFile(p, []byte("not JSON"), 0o644); err != nil {
				t.Fatal(err)
			}
			wd, err := syscall.InotifyAddWatch(fd, p, syscall.IN_OPEN)
			if err != nil {
				t.Fatal(err)
			}
			s.watched[int32(wd)] = p
		}
	}
	return s
}

// run runs the bare runtime and returns the configuration files it opened.
func (s *stage) run(t *testing.T, args []string) []string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, s.binary, args...)
	cmd.Dir = s.dir
	if err := cmd.Run(); err == nil {
		// list, features, help and the like; nothing here can start a container
	} else if ctx.Err() != nil {
		t.Errorf("%q hangs", args)
	} else if ee := (*exec.ExitError)(nil); !errors.As(err, &ee) {
		t.Error(err)
	}
	var opened []string
	buf := make([]byte, 64<<10)
	for {
		n, err := syscall.Read(s.inotify, buf)
		if n <= 0 || err != nil {
			return opened
		}
		for b := bytes.NewBuffer(buf[:n]); b.Len() > 0; {
			var e struct {
				Wd                int32
				Mask, Cookie, Len uint32
			}
			if err := binary.Read(b, native, &e); err != nil {
				t.Error(err)
				return opened
			}
			b.Next(int(e.Len))
			opened = append(opened, s.watched[e.Wd])
		}
	}
}

var native = func() binary.ByteOrder {
	x := uint16(1)
	if *(*byte)(unsafe.Pointer(&x)) == 1 {
		return binary.LittleEndian
	}
	return binary.BigEndian
}()

// compare checks one command line.
func (s *stage) compare(t *testing.T, g Grammar, args []string, n *counts) {
	opened := s.run(t, args)
	if !MaybeJudged(args) && len(opened) > 0 {
		t.Errorf("%q: the front passes it on, but the runtime read %q", args, opened)
	}
	c, err := Parse(g, args)
	switch {
	case err != nil:
		n.refused++
		if len(opened) > 0 {
			n.refusedRead++
			if testing.Verbose() {
				t.Logf("refused %q: %v", args, err)
			}
		}
	case !c.Judged():
		n.passed++
		if len(opened) > 0 {
			t.Errorf("%q: not judged, but the runtime read %q", args, opened)
		}
	default:
		n.judged++
		if len(opened) > 0 {
			n.judgedRead++
		}
		want := c.ConfigPath()
		if !filepath.IsAbs(want) {
			want = filepath.Join(s.dir, want)
		}
		want = filepath.Clean(want)
		for _, o := range opened {
			if o != want {
				t.Errorf("%q: judged %q, but the runtime read %q", args, want, opened)
			}
		}
		canonical := s.run(t, c.Canonical())
		for _, o := range canonical {
			if o != want {
				t.Errorf("%q, canonical %q: judged %q, but the runtime read %q", args, c.Canonical(), want, canonical)
			}
		}
		if len(opened) > 0 && len(canonical) == 0 {
			t.Errorf("%q, canonical %q: the runtime reads only the first", args, c.Canonical())
		}
	}
}

// generate makes a command line that is nearly right: flags of the grammar in all
// spellings, and a few mutations.
func generate(rnd *rand.Rand, g Grammar, s *stage) []string {
	pick := func(from ...string) string { return from[rnd.Intn(len(from))] }
	chance := func(percent int) bool { return rnd.Intn(100) < percent }
	value := func(name string) string {
		switch name {
		case "bundle":
			return pick(s.dir+"/a", s.dir+"/b", "a", "./b", "b/../a", "", "c=d", "--bundle", "--help", "-b", "ID", "create", "nowhere", "--", "a ", ".")
		case "config":
			return pick("alt.json", s.dir+"/b/alt.json", "config.json", "./config.json", "a/config.json", "nowhere", "")
		case "root":
			return pick(s.dir+"/root", "root", "create", "run")
		case "log":
			return pick(s.dir+"/log", "create", "log")
		case "log-format":
			return pick("json", "text", "create")
		case "preserve-fds":
			return pick("0", "1", "x")
		case "cgroup-manager":
			return pick("cgroupfs", "disabled", "create")
		case "log-level":
			return pick("error", "debug")
		case "network-lock":
			return pick("skip", "--bundle")
		}
		return pick("x", "ID", "--", "create", "--bundle", "false", "")
	}
	spell := func(d flagDef) []string {
		dashes := "--"
		if g == Runc && chance(20) {
			dashes = "-"
		}
		name := d.name
		switch {
		case d.short != 0 && (chance(30) || name == ""):
			name, dashes = string(rune(d.short)), "-"
			if g == Runc && chance(20) {
				dashes = "--"
			}
		case g == Crun && chance(15) && len(name) > 3:
			name = name[:1+rnd.Intn(len(name)-1)]
		}
		word := dashes + name
		if g == Runc && chance(2) {
			word = " " + word
		}
		switch {
		case d.kind == stopFlag || d.kind == switchFlag:
			if chance(12) {
				return []string{word + "=" + pick("true", "false", "0", "", "x")}
			}
			return []string{word}
		case dashes == "-" && len(name) == 1 && chance(40):
			return []string{word + value(d.name)}
		case chance(50):
			return []string{word + "=" + value(d.name)}
		}
		return []string{word, value(d.name)}
	}
	flags := func(command string, n int) (args []string) {
		defs := append([]flagDef(nil), g.table(command)...)
		if g == Crun && command != "" {
			defs = append(defs, argpBuiltin[:3]...) // without --HANG
		}
		for range rnd.Intn(n + 1) {
			d := defs[rnd.Intn(len(defs))]
			if d.kind == stopFlag && chance(60) {
				continue
			}
			args = append(args, spell(d)...)
		}
		if command != "" && chance(60) {
			args = append(args, spell(g.table(command)[bundleOf(g, command)])...)
		}
		if chance(4) {
			args = append(args, pick("--new", "--new=x", "-x", "--co", "--bund", "-xb"))
		}
		return args
	}

	var args []string
	if chance(40) {
		args = append(args, flags("", 3)...)
	}
	if chance(3) {
		args = append(args, "--")
	}
	command := pick("create", "create", "run", "run", "restore", "exec", "state", "kill", "delete", "list", "features", "nonsense", "help")
	if chance(75) {
		command = pick("create", "run")
	}
	args = append(args, command)
	if parsed(command) {
		rest := flags(command, 3)
		id := pick("ID", "ID", "ID", "ID", "create", "a", "--bundle", "")
		if chance(10) {
			rest = append(rest, "--")
		}
		if at := len(rest); chance(95) {
			if chance(15) {
				at = rnd.Intn(len(rest) + 1)
			}
			rest = append(rest[:at:at], append([]string{id}, rest[at:]...)...)
		}
		if g == Runc && chance(5) {
			rest = append(rest, flags("", 1)...)
		}
		args = append(args, rest...)
	} else {
		args = append(args, pick("create", "run", "x"))
	}
	if chance(6) && len(args) > 1 { // swap two words
		i, j := rnd.Intn(len(args)), rnd.Intn(len(args))
		args[i], args[j] = args[j], args[i]
	}
	if chance(4) && len(args) > 1 { // drop one
		i := rnd.Intn(len(args))
		args = append(args[:i], args[i+1:]...)
	}
	for _, a := range args {
		// runc init is the runtime's own child; crun's --HANG sleeps for an hour.
		if a == "init" || strings.HasPrefix(a, "--H") {
			return []string{"list"}
		}
	}
	return args
}

func bundleOf(g Grammar, command string) int {
	for i, d := range g.table(command) {
		if d.name == "bundle" {
			return i
		}
	}
	return 0
}
