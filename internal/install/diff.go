package install

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// hunk is a run of lines that differ.
type hunk struct {
	at, bt int // where it begins in before and in after
	before []string
	after  []string
}

// lines splits a text into lines that keep their ends.
func lines(text []byte) []string {
	return slices.Collect(strings.Lines(string(text)))
}

// hunks compares line by line, by the longest common subsequence. Configuration
// files are small.
func hunks(before, after []byte) []hunk {
	a, b := lines(before), lines(after)
	from := 0
	for from < len(a) && from < len(b) && a[from] == b[from] {
		from++
	}
	to := 0
	for to < len(a)-from && to < len(b)-from && a[len(a)-1-to] == b[len(b)-1-to] {
		to++
	}
	x, y := a[from:len(a)-to], b[from:len(b)-to]
	length := make([][]int, len(x)+1)
	for i := range length {
		length[i] = make([]int, len(y)+1)
	}
	for i := len(x) - 1; i >= 0; i-- {
		for j := len(y) - 1; j >= 0; j-- {
			if x[i] == y[j] {
				length[i][j] = length[i+1][j+1] + 1
			} else {
				length[i][j] = max(length[i+1][j], length[i][j+1])
			}
		}
	}
	var out []hunk
	var h *hunk
	for i, j := 0, 0; i < len(x) || j < len(y); {
		if i < len(x) && j < len(y) && x[i] == y[j] {
			i, j, h = i+1, j+1, nil
			continue
		}
		if h == nil {
			out = append(out, hunk{at: from + i, bt: from + j})
			h = &out[len(out)-1]
		}
		if j == len(y) || i < len(x) && length[i+1][j] >= length[i][j+1] {
			h.before = append(h.before, x[i])
			i++
		} else {
			h.after = append(h.after, y[j])
			j++
		}
	}
	return out
}

// writeDiff writes a unified diff. A name is "" for a file that isn't there.
func writeDiff(w io.Writer, name string, before, after []byte, existed, remains bool) error {
	if slices.Equal(before, after) && existed == remains {
		return nil
	}
	const context = 3
	from, to := "a"+name, "b"+name
	if !existed {
		from = "/dev/null"
	}
	if !remains {
		to = "/dev/null"
	}
	if _, err := fmt.Fprintf(w, "--- %s\n+++ %s\n", from, to); err != nil {
		return err
	}
	all, a := hunks(before, after), lines(before)
	for len(all) > 0 {
		n := 1
		for n < len(all) && all[n].at-(all[n-1].at+len(all[n-1].before)) <= 2*context {
			n++
		}
		group := all[:n]
		all = all[n:]
		first, last := group[0], group[n-1]
		start := max(0, first.at-context)
		end := min(len(a), last.at+len(last.before)+context)
		var body strings.Builder
		removed, added, at := 0, 0, start
		for _, h := range group {
			for _, l := range a[at:h.at] {
				body.WriteString(diffLine(' ', l))
			}
			for _, l := range h.before {
				body.WriteString(diffLine('-', l))
			}
			for _, l := range h.after {
				body.WriteString(diffLine('+', l))
			}
			removed, added, at = removed+len(h.before), added+len(h.after), h.at+len(h.before)
		}
		for _, l := range a[at:end] {
			body.WriteString(diffLine(' ', l))
		}
		n1, n2 := end-start, end-start-removed+added
		s1, s2 := start+1, start+first.bt-first.at+1
		if n1 == 0 {
			s1 = 0
		}
		if n2 == 0 {
			s2 = 0
		}
		if _, err := fmt.Fprintf(w, "@@ -%d,%d +%d,%d @@\n%s", s1, n1, s2, n2, body.String()); err != nil {
			return err
		}
	}
	return nil
}

func diffLine(mark byte, line string) string {
	if !strings.HasSuffix(line, "\n") {
		line += "\n\\ No newline at end of file\n"
	}
	return string(mark) + line
}

// takeBack undoes in a text that was edited since what turned before into
// after. Lines that belong together are taken back together or not at all: half a
// table would leave its keys to another. What can't be found again is returned.
func takeBack(before, after, now []byte) (text []byte, left []string) {
	out := lines(now)
	for _, h := range slices.Backward(hunks(before, after)) {
		if at := find(out, h.after, h.bt); len(h.after) > 0 && at >= 0 {
			out = slices.Replace(out, at, at+len(h.after), h.before...)
			continue
		}
		left = append(left, h.before...)
		left = append(left, h.after...)
	}
	return []byte(strings.Join(out, "")), left
}

// find returns where lines stand in a text, the place nearest to near, or -1.
func find(text, want []string, near int) int {
	best := -1
	for i := 0; i+len(want) <= len(text); i++ {
		if slices.Equal(text[i:i+len(want)], want) && (best < 0 || abs(i-near) < abs(best-near)) {
			best = i
		}
	}
	return best
}

func abs(n int) int { return max(n, -n) }
