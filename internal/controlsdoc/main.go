// Controlsdoc writes docs/controls.md from the comments that open the controls'
// files in pkg/policy.
//
//	go run ./internal/controlsdoc
package main

import (
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

func main() {
	root := flag.String("C", ".", "the repository's directory")
	flag.Parse()
	text, err := generate(*root)
	if err == nil {
		err = os.WriteFile(filepath.Join(*root, output), text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "controlsdoc:", err)
		os.Exit(1)
	}
}

const output = "docs/controls.md"

// labels are the parts of a control's comment, in their order.
var labels = []string{"Reads", "Known", "Settings", "Can't see", "Upstream"}

// document is what one comment says of one or several controls.
type document struct {
	file    string
	names   []string
	summary string
	parts   map[string]string
}

func generate(root string) ([]byte, error) {
	docs, err := read(filepath.Join(root, "pkg", "policy"))
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	b.WriteString(head)
	b.WriteString("\n| control | | baseline | restricted |\n|---|---|---|---|\n")
	var sections strings.Builder
	done := map[string]bool{}
	for _, c := range policy.Controls() {
		d, ok := docs[c.Name]
		if !ok {
			return nil, fmt.Errorf("control %s has no comment that opens with its name", c.Name)
		}
		fmt.Fprintf(&b, "| [%s](#%s) | %s | %s | %s |\n", c.Name, anchor(d), firstSentence(d.summary), from(c, policy.Baseline), from(c, policy.Restricted))
		if !done[d.names[0]] {
			d.write(&sections)
		}
		done[d.names[0]] = true
	}
	b.WriteString(sections.String())
	return []byte(b.String()), nil
}

const head = `# Controls

<!-- Written by go run ./internal/controlsdoc from the comments in pkg/policy. -->

A control is one restriction that a policy may set, under the name of the pod's
field. Its result is satisfied, violated or undetermined. What is undetermined at
a pod's sandbox waits for the pod's containers; at a container it is refused,
unless the control has ` + "`onUndetermined: Allow`" + `. Every control has these settings
beside its own:

- ` + "`mode`" + `: Enforce or Audit (default: the policy's)
- ` + "`onUndetermined`" + `: Deny or Allow (default Deny; in the presets Allow for hostPorts)

A control without settings (` + "`hostUsers: {}`" + `) is in force with its defaults. Settings
that are lists add to what the preset allows, unless it says otherwise below.

The table says from which version of the Pod Security Standards on a level has a
control, in the order in which violations are reported. The rules of each version
are upstream's (k8s.io/pod-security-admission, whose files are named below), judged
by what would really run. One of upstream's has no control, since no config.json
shows it: the host of probes and lifecycle handlers (baseline since v1.34,
check_hostProbesAndhostLifecycle.go). Windows pods don't come this way.
`

// read finds the comments of all controls.
func read(dir string) (map[string]*document, error) {
	fset := token.NewFileSet()
	out := map[string]*document{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(err, fmt.Errorf("%s: %w", dir, fs.ErrNotExist))
	}
	known := policy.ControlNames()
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, decl := range file.Decls {
			g, ok := decl.(*ast.GenDecl)
			if !ok || g.Tok != token.VAR || g.Doc == nil {
				continue
			}
			first, rest, _ := strings.Cut(g.Doc.Text(), "\n")
			names := strings.Split(first, ", ")
			if !slices.Contains(known, names[0]) {
				continue
			}
			d := &document{file: filepath.Base(name), names: names, parts: map[string]string{}}
			if err := d.parse(rest); err != nil {
				return nil, fmt.Errorf("%s: comment of %s: %w", fset.Position(g.Doc.Pos()), first, err)
			}
			for _, n := range names {
				if out[n] != nil {
					return nil, fmt.Errorf("%s: %s has a comment in %s already", d.file, n, out[n].file)
				}
				out[n] = d
			}
		}
	}
	return out, nil
}

// parse takes a comment apart: what the control is about, and its labels.
func (d *document) parse(text string) error {
	at, next := "", 0
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		for i, l := range labels {
			rest, ok := strings.CutPrefix(line, l+":")
			if !ok {
				continue
			}
			if i != next {
				return fmt.Errorf("%q stands where %q should", l, labels[min(next, len(labels)-1)])
			}
			at, next, line = l, i+1, strings.TrimSpace(rest)
			break
		}
		if at == "" {
			d.summary = strings.TrimSpace(d.summary + " " + line)
		} else {
			d.parts[at] = strings.TrimSpace(d.parts[at] + " " + line)
		}
	}
	if next < len(labels) {
		return fmt.Errorf("%q is missing", labels[next])
	}
	if d.summary == "" {
		return errors.New("it doesn't say what the control is about")
	}
	return nil
}

func (d *document) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n", strings.Join(d.names, ", "), escape(d.summary))
	for _, l := range labels {
		fmt.Fprintf(b, "- **%s:** %s\n", l, escape(d.parts[l]))
	}
	fmt.Fprintf(b, "\nSource: [%s](../pkg/policy/%s)\n", d.file, d.file)
}

// anchor is the heading's address on GitHub.
func anchor(d *document) string {
	return strings.ToLower(strings.ReplaceAll(strings.Join(d.names, "-"), " ", "-"))
}

// escape keeps Markdown from reading the patterns of names as emphasis.
func escape(s string) string { return strings.ReplaceAll(s, "*", `\*`) }

func firstSentence(s string) string {
	if i := strings.Index(s, ". "); i >= 0 {
		s = s[:i+1]
	}
	return escape(s)
}

// from is the first version in which a level has the control.
func from(c policy.Control, l policy.Level) string {
	for minor := 0; ; minor++ {
		v, err := policy.ParseVersion(fmt.Sprintf("v1.%d", minor))
		if err != nil {
			return ""
		}
		if c.Restricts(l, v) {
			return v.String()
		}
	}
}
