package host

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// hostTable is a small node: a root filesystem, a btrfs subvolume, a disk that
// is mounted twice, a tmpfs, a local volume and a place with a space.
const hostTable = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:20 / /proc rw,nosuid shared:2 - proc proc rw
24 22 0:21 / /sys rw,nosuid shared:3 - sysfs sysfs rw
25 22 0:22 / /run rw,nosuid shared:4 - tmpfs tmpfs rw,size=100k
26 22 8:17 / /mnt/disk rw shared:5 - ext4 /dev/sdb1 rw
27 22 8:17 /vol /var/lib/kubelet/pods/u/volumes/kubernetes.io~local-volume/pv rw shared:5 - ext4 /dev/sdb1 rw
28 22 0:50 /@home /home rw shared:6 - btrfs /dev/sdc rw,subvol=/@home
29 22 8:33 / /media/a\040b ro,relatime - ext4 /dev/sdd1 rw
30 22 8:1 /etc /var/lib/kubelet/pods/u/volume-subpaths/v/app/0 rw - ext4 /dev/sda1 rw
`

func table(t testing.TB, text string) []mount {
	t.Helper()
	out, err := parseTable(text)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAMountIsMappedBackToEveryPathThatShowsIt(t *testing.T) {
	host := table(t, hostTable)
	for name, c := range map[string]struct {
		line string
		want []string
	}{
		"a directory of the root filesystem": {"40 22 8:1 /srv /x/rootfs/a rw - ext4 /dev/sda1 rw", []string{"/srv"}},
		"the root filesystem":                {"40 22 8:1 / /x/rootfs/a rw - ext4 /dev/sda1 rw", []string{"/"}},
		"a bind of a file":                   {"40 22 8:1 /etc/passwd /x/rootfs/a rw - ext4 /dev/sda1 rw", []string{"/etc/passwd", "/var/lib/kubelet/pods/u/volume-subpaths/v/app/0/passwd"}},
		"a disk that is mounted in two places": {"40 22 8:17 /vol/d /x/rootfs/a rw - ext4 /dev/sdb1 rw", []string{
			"/mnt/disk/vol/d", "/var/lib/kubelet/pods/u/volumes/kubernetes.io~local-volume/pv/d",
		}},
		"a subvolume":                          {"40 22 0:50 /@home/me /x/rootfs/a rw - btrfs /dev/sdc rw", []string{"/home/me"}},
		"a place with a space":                 {`40 22 8:33 /c\040d /x/rootfs/a rw - ext4 /dev/sdd1 rw`, []string{"/media/a b/c d"}},
		"a deleted directory":                  {"40 22 8:1 /srv//deleted /x/rootfs/a rw - ext4 /dev/sda1 rw", []string{"/srv"}},
		"a filesystem that the host hasn't":    {"40 22 0:99 / /x/rootfs/a rw - tmpfs tmpfs rw", nil},
		"another subvolume, which none shows":  {"40 22 0:50 /@root /x/rootfs/a rw - btrfs /dev/sdc rw", nil},
		"a name that only begins like another": {"40 22 0:50 /@homer /x/rootfs/a rw - btrfs /dev/sdc rw", nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, names(host, &table(t, c.line)[0], "/x/rootfs")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestALineOfMountinfoIsReadWithItsFlags(t *testing.T) {
	for line, want := range map[string]mount{
		"36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue":   {"98:0", "/mnt1", "/mnt2", "ext3", false},
		"36 35 98:0 / /m ro,noatime - ext3 /dev/root rw":                                   {"98:0", "/", "/m", "ext3", true},
		"36 35 98:0 / /m rw shared:7 master:1 propagate_from:2 - fuse.x none ro,user_id=0": {"98:0", "/", "/m", "fuse.x", true},
		"36 35 98:0 / /dev/shm\u00a0x rw - tmpfs tmpfs rw":                                 {"98:0", "/", "/dev/shm\u00a0x", "tmpfs", false},
		`36 35 98:0 / /a\011b\012c\134d rw - tmpfs  rw`:                                    {"98:0", "/", "/a\tb\nc\\d", "tmpfs", false},
	} {
		if diff := cmp.Diff(want, table(t, line)[0], cmp.AllowUnexported(mount{})); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
	for _, bad := range []string{"hello", "36 35 98:0 / /m rw ext3 /dev/root rw", "36 35 98:0 - ext3 x rw", "36 35 98:0 / /m rw - "} {
		if got, err := parseTable(bad); err == nil {
			t.Errorf("%q is read as %+v", bad, got)
		}
	}
}

func FuzzMountinfo(f *testing.F) {
	f.Add(hostTable)
	f.Add(`36 35 98:0 /mnt1 /mnt\0402 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`)
	if data, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseTable(text)
		if err != nil {
			return
		}
		for i := range got {
			for _, n := range names(got, &got[i], "") {
				if strings.HasSuffix(n, "/") && n != "/" {
					t.Errorf("name %q", n)
				}
			}
		}
	})
}

func TestSymbolicLinksAreResolvedAsFarAsThePathExists(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(p string) string { return filepath.Join(dir, p) }
	for _, l := range [][2]string{{"real", "link"}, {"link", "link2"}, {"/etc", "abs"}, {"loop2", "loop1"}, {"loop1", "loop2"}, {"../" + filepath.Base(dir) + "/real", "dots"}, {"gone", "dangling"}} {
		if err := os.Symlink(l[0], at(l[1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(at("real/sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at("file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := New()
	for path, want := range map[string]string{
		at("real/sub"):           at("real/sub"),
		at("link/sub"):           at("real/sub"),
		at("link2/sub/none/x"):   at("real/sub/none/x"),
		at("abs/passwd"):         "/etc/passwd",
		at("dots/sub"):           at("real/sub"),
		at("dangling/x"):         at("gone/x"),
		at("real/../link/./sub"): at("real/sub"),
		dir + "/abs/../usr":      "/usr",
		dir + "/link//../file":   at("file"),
		at("file/x"):             at("file/x"),
		"/":                      "/",
		"/../..":                 "/",
	} {
		if got, err := h.Resolve(path); err != nil || got != want {
			t.Errorf("%s leads to %s (%v), want %s", path, got, err, want)
		}
	}
	if got, err := h.Resolve(at("loop1/x")); !errors.Is(err, unix.ELOOP) {
		t.Errorf("a loop leads to %s, %v", got, err)
	}
	if got, err := h.Resolve("relative"); err == nil {
		t.Errorf("a relative path leads to %s", got)
	}
}

func TestANamespaceIsKnownByItsFile(t *testing.T) {
	h := New()
	own, err := h.HostNamespaces(specs.NetworkNamespace)
	if err != nil || len(own) == 0 {
		t.Fatal(own, err)
	}
	got, err := h.ProcessNamespace(os.Getpid(), specs.NetworkNamespace)
	if err != nil || !slices.Contains(own, got) {
		t.Errorf("our own is %v, the host's %v: %v", got, own, err)
	}
	if _, err := h.Namespace("/proc/self/ns/no"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that isn't: %v", err)
	}
	if id, err := h.Namespace("/etc/passwd"); err == nil {
		t.Errorf("a plain file is the namespace %v", id)
	}
	if _, err := h.HostNamespaces("nonsense"); err == nil {
		t.Error("a type that there is not")
	}
}

func needRoot(t testing.TB) {
	t.Helper()
	if os.Getuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs root")
		}
		t.Skip("needs root")
	}
}

// What the kernel says of a process in a mount namespace of its own.
func TestTheMountsOfAProcessAreThoseOfItsNamespace(t *testing.T) {
	needRoot(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	script := `set -e
cd "$1"
mkdir -p rootfs/data rootfs/tmp rootfs/deep src/sub
echo x > src/file; : > rootfs/file
ln -s src link
mount --make-rprivate /
mount --bind rootfs rootfs
cd "$1"
mount --bind link/sub rootfs/data
mount --bind src/file rootfs/file
mount -t tmpfs none rootfs/tmp
mount --bind src rootfs/deep
mount -o remount,bind,ro rootfs/deep
echo ready
exec sleep 100`
	c := exec.Command("unshare", "--mount", "sh", "-c", script, "sh", dir)
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Stderr = os.Stderr
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { c.Process.Kill(); c.Wait() }()
	if n, err := out.Read(make([]byte, 6)); n != 6 {
		t.Fatal(n, err)
	}
	got, err := New().Mounts(c.Process.Pid, filepath.Join(dir, "rootfs"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]spec.RealMount{}
	for _, m := range got {
		found[m.Destination] = m
	}
	for dest, want := range map[string]struct {
		path     string
		readOnly bool
	}{
		"/data": {filepath.Join(dir, "src/sub"), false},
		"/file": {filepath.Join(dir, "src/file"), false},
		"/deep": {filepath.Join(dir, "src"), true},
		"/tmp":  {"", false},
	} {
		m, ok := found[dest]
		switch {
		case !ok:
			t.Errorf("%s is not seen: %+v", dest, got)
		case want.path == "" && (len(m.HostPaths) > 0 || m.Hidden):
			t.Errorf("%s is %+v, want one of the process's own", dest, m)
		case want.path != "" && !slices.Contains(m.HostPaths, want.path):
			t.Errorf("%s is %v, want %s", dest, m.HostPaths, want.path)
		case m.ReadOnly != want.readOnly:
			t.Errorf("%s: read-only %v", dest, m.ReadOnly)
		}
	}
}

// Where the root isn't seen, nothing of the container is: that must not look
// like a container without mounts.
func TestTheMountsBelowARootThatIsNoneAreAnError(t *testing.T) {
	needRoot(t)
	c := exec.Command("unshare", "--mount", "sh", "-c", "echo ready; exec sleep 100")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { c.Process.Kill(); c.Wait() }()
	if n, err := out.Read(make([]byte, 6)); n != 6 {
		t.Fatal(n, err)
	}
	dir := t.TempDir()
	if got, err := New().Mounts(c.Process.Pid, dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := New().Mounts(os.Getpid(), dir); err != nil {
		t.Errorf("of a process in our own namespace: %v", err)
	}
}

func TestWhatIsBoundSomewhereIsFoundWhereItComesFrom(t *testing.T) {
	h := &Host{mounts: table(t, hostTable)}
	if diff := cmp.Diff([]string{"/etc"}, h.BoundFrom("/var/lib/kubelet/pods/u/volume-subpaths/v/app/0")); diff != "" {
		t.Error(diff)
	}
	if got := h.BoundFrom("/srv"); got != nil {
		t.Errorf("nothing is mounted there, got %v", got)
	}
}

func TestOnlySmallRegularFilesAreRead(t *testing.T) {
	dir := t.TempDir()
	h := New()
	pipe, link, big, small := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "big"), filepath.Join(dir, "small")
	err := errors.Join(unix.Mkfifo(pipe, 0o600), os.Symlink(small, link), os.WriteFile(big, make([]byte, maxFile+1), 0o600), os.WriteFile(small, []byte("x"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{pipe, link, big, dir, filepath.Join(dir, "none")} {
		if data, err := h.ReadFile(p); err == nil {
			t.Errorf("%s: %d bytes", p, len(data))
		}
	}
	if data, err := h.ReadFile(small); err != nil || string(data) != "x" {
		t.Error(string(data), err)
	}
}

func BenchmarkTable(b *testing.B) {
	text := strings.Repeat(hostTable, 340) // about 3,000 mounts
	for b.Loop() {
		if _, err := parseTable(text); err != nil {
			b.Fatal(err)
		}
	}
}
