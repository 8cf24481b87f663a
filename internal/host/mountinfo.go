package host

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// mount is one line of a mountinfo file (proc_pid_mountinfo(5)).
type mount struct {
	device   string // major:minor
	root     string // what of the filesystem is mounted
	point    string // where
	fsType   string
	readOnly bool
}

func readTable(name string) ([]mount, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	table, err := parseTable(string(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return table, nil
}

// parseTable reads lines of the form
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime shared:1 - ext3 /dev/root rw,errors=continue
func parseTable(data string) ([]mount, error) {
	var out []mount
	line := 0
	for text := range strings.Lines(data) {
		line++
		head, tail, ok := strings.Cut(strings.TrimSuffix(text, "\n"), " - ")
		// The kernel escapes space, tab and newline. Other white space, such as a
		// no-break space, is part of a name.
		h, t := strings.Split(head, " "), strings.Split(tail, " ")
		if !ok || len(h) < 6 || t[0] == "" {
			return nil, fmt.Errorf("line %d: not of the form of mountinfo", line)
		}
		m := mount{
			device: h[2], root: strings.TrimSuffix(unescape(h[3]), "//deleted"), point: unescape(h[4]), fsType: t[0],
			readOnly: option(h[5], "ro"),
		}
		if len(t) >= 3 && option(t[2], "ro") {
			m.readOnly = true
		}
		out = append(out, m)
	}
	return out, nil
}

func option(list, want string) bool {
	return slices.Contains(strings.Split(list, ","), want)
}

// unescape undoes the kernel's octal escapes of white space and backslash.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && octal(s[i+1]) && octal(s[i+2]) && octal(s[i+3]) {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func octal(c byte) bool { return '0' <= c && c <= '7' }

// below reports whether path is dir or lies below it, on path boundaries.
func below(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}

// names returns all paths of the host that show what m shows: every mount of
// the same filesystem whose root is above m's gives one. Mounts below exclude
// are the container's own.
func names(host []mount, m *mount, exclude string) []string {
	// What is mounted of nsfs has a name ("net:[4026531840]") and no path.
	if !strings.HasPrefix(m.root, "/") {
		return nil
	}
	var out []string
	for i := range host {
		h := &host[i]
		if h.device != m.device || !below(m.root, h.root) || exclude != "" && below(h.point, exclude) {
			continue
		}
		name := strings.TrimSuffix(h.point, "/") + "/" + strings.TrimPrefix(strings.TrimPrefix(m.root, strings.TrimSuffix(h.root, "/")), "/")
		if name = strings.TrimRight(name, "/"); name == "" {
			name = "/"
		}
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}
