package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodeadmit/nodeadmit/internal/policyschema"
	"github.com/nodeadmit/nodeadmit/internal/report"
	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

func policyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "policy", Short: "Show, test, describe, bundle and fetch policies"}
	cmd.AddCommand(policyShowCommand(), policyTestCommand(), policySchemaCommand(), policyBundleCommand(), policyPullCommand())
	return cmd
}

func policySchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use: "schema", Short: "Print the JSON Schema of NodePolicy documents, for editors", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			schema, err := policyschema.Schema()
			if err == nil {
				_, err = cmd.OutOrStdout().Write(schema)
			}
			return err
		},
	}
}

// shownPolicy is one policy of policy show -o json.
type shownPolicy struct {
	Name    string       `json:"name"`
	File    string       `json:"file"`
	Mode    policy.Mode  `json:"mode"`
	Preset  policy.Level `json:"preset"`
	Version string       `json:"version"`
	Basis   policy.Basis `json:"basis"`
	// OnSourceUnavailable is for basis Declared.
	OnSourceUnavailable policy.Fallback        `json:"onSourceUnavailable,omitempty"`
	Controls            []policy.ActiveControl `json:"controls"`
}

func policyShowCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "show PATH",
		Short: "Show what a policy comes to: every control in force, its settings and where each is from",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			set, err := policy.Load(args[0], policy.LoadOptions{})
			if err != nil {
				return showError(cmd, output, err)
			}
			var shown []shownPolicy
			for _, p := range set.Policies {
				one := shownPolicy{Name: p.Name, File: p.File, Mode: p.Mode, Preset: p.Preset, Version: p.Version.String(), Basis: p.Basis, Controls: p.Active()}
				if p.Basis == policy.Declared {
					one.OnSourceUnavailable = p.OnSourceUnavailable
				}
				shown = append(shown, one)
			}
			if output == "json" {
				return writeJSON(cmd.OutOrStdout(), map[string]any{
					"apiVersion": apiVersion, "kind": "PolicyDescription", "digest": set.Digest, "policies": shown,
					"exemptions": orEmpty(set.Exemptions()),
				})
			}
			return showPolicyTable(cmd, shown)
		},
	}
	outputFlag(cmd, &output, "table", "json")
	return cmd
}

func showPolicyTable(cmd *cobra.Command, shown []shownPolicy) error {
	tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
	p := &printer{w: tw}
	for _, s := range shown {
		p.printf("policy %s (%s, preset %s %s%s)\n", s.Name, s.Mode, s.Preset, s.Version, basisText(&s))
		p.printf("CONTROL\tSETTING\tFROM\tVALUE\n")
		for _, c := range s.Controls {
			p.printf("%s\tmode\t%s\t%s\n", c.Name, c.From, c.Mode)
			if c.OnUndetermined == "Allow" {
				p.printf("\tonUndetermined\t%s\tAllow\n", c.From)
			}
			for _, x := range c.Settings {
				value, err := json.Marshal(x.Value)
				if err != nil {
					return err
				}
				p.printf("\t%s\t%s\t%s\n", x.Name, x.From, value)
			}
		}
		p.printf("\n")
	}
	if p.err == nil {
		p.err = tw.Flush()
	}
	return p.err
}

func basisText(s *shownPolicy) string {
	if s.Basis != policy.Declared {
		return ""
	}
	return fmt.Sprintf(", basis %s, without a pod %s", s.Basis, s.OnSourceUnavailable)
}

// testSuite is one file of policy test.
type testSuite struct {
	file, name, policy string
	cases              []testCase
}

type testCase struct {
	name   string
	source source
	// pod is a manifest, judged as it is declared, instead of a bundle.
	pod      string
	decision string
	// controls are those that must be violated, all of them and no other; nil
	// is not looked at.
	controls []string
	// message must stand in the refusal.
	message string
}

// testKind is the kind of a test file.
const testKind = "PolicyTest"

type testResult struct {
	suite, name, failure string
	seconds              float64
}

func policyTestCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "test DIR",
		Short: "Run cases against policies: bundles with the decisions that are expected",
		Long: `Test reads all files of the kind PolicyTest below a directory:

  apiVersion: nodeadmit.dev/v1alpha1
  kind: PolicyTest
  metadata: {name: our-policy}
  policy: ../policies.d             # relative to this file
  cases:
  - name: the host's network is refused
    spec: bundles/host-network.json # or bundle: DIR
    engine: containerd              # default
    expect: {decision: Deny, controls: [hostNetwork]}

Exit code: 0 all cases passed, 1 some failed, 2 error (no cases included).`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			suites, err := readSuites(args[0])
			if err != nil {
				return err
			}
			var results []testResult
			for i := range suites {
				r, err := runSuite(&suites[i])
				if err != nil {
					return err
				}
				results = append(results, r...)
			}
			return showResults(cmd, results, output)
		},
	}
	outputFlag(cmd, &output, "text", "json", "junit")
	return cmd
}

// readSuites finds the test files below a directory. Other YAML files there may
// be policies and pods.
func readSuites(dir string) ([]testSuite, error) {
	var (
		suites []testSuite
		errs   []error
	)
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		switch filepath.Ext(name) {
		case ".yaml", ".yml":
		default:
			return nil
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		d, documents := strictyaml.Documents(name, data)
		for _, f := range documents {
			o := (&strictyaml.Decoder{}).Object(f)
			if k, ok := o.Get("kind"); ok && k.Node.Value == testKind {
				suites = append(suites, readSuite(d, o, f))
			}
		}
		if len(suites) > 0 && suites[len(suites)-1].file == name {
			errs = append(errs, d.Errs...)
		}
		return nil
	})
	if err = errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	if len(suites) == 0 {
		return nil, fmt.Errorf("%s: holds no document of kind %s", dir, testKind)
	}
	return suites, nil
}

func readSuite(d *strictyaml.Decoder, o *strictyaml.Object, at strictyaml.Field) testSuite {
	s := testSuite{file: d.File, name: filepath.Base(d.File)}
	d.Header(o, at, apiVersion, testKind)
	dir := filepath.Dir(d.File)
	for _, f := range o.Fields {
		switch f.Name {
		case "apiVersion", "kind":
		case "metadata":
			if name, ok := d.Object(f).Get("name"); ok {
				s.name = d.Str(name)
			}
		case "policy":
			s.policy = relativeTo(dir, d.Str(f))
		case "cases":
			for _, item := range d.List(f) {
				s.cases = append(s.cases, readCase(d, item, dir))
			}
		default:
			d.UnknownField(o, f, "apiVersion", "kind", "metadata", "policy", "cases")
		}
	}
	if s.policy == "" {
		d.Errorf(at.Node, "policy is missing: want the path of a policy file or directory")
	}
	if len(s.cases) == 0 {
		d.Errorf(at.Node, "cases is missing")
	}
	return s
}

func readCase(d *strictyaml.Decoder, at strictyaml.Field, dir string) testCase {
	c := testCase{source: source{engine: "containerd"}}
	o := d.Object(at)
	for _, f := range o.Fields {
		switch f.Name {
		case "name":
			c.name = d.Str(f)
		case "bundle":
			c.source.bundle = relativeTo(dir, d.Str(f))
		case "spec":
			c.source.file = relativeTo(dir, d.Str(f))
		case "pod":
			c.pod = relativeTo(dir, d.Str(f))
		case "engine":
			c.source.engine = d.Str(f)
		case "id":
			c.source.id = d.Str(f)
		case "expect":
			e := d.Object(f)
			for _, f := range e.Fields {
				switch f.Name {
				case "decision":
					c.decision = strictyaml.Choice(d, f, "Allow", "Deny")
				case "controls":
					c.controls = []string{}
					for _, item := range d.List(f) {
						name := d.Str(item)
						known := slices.Concat(policy.ControlNames(), policy.ChecksWithoutControl)
						if !slices.Contains(known, name) {
							d.Errorf(item.Node, "unknown control %q%s", name, strictyaml.Nearest(name, known))
						}
						c.controls = append(c.controls, name)
					}
				case "message":
					c.message = d.Str(f)
				default:
					d.UnknownField(e, f, "decision", "controls", "message")
				}
			}
		default:
			d.UnknownField(o, f, "name", "bundle", "spec", "pod", "engine", "id", "expect")
		}
	}
	given := 0
	for _, path := range []string{c.source.bundle, c.source.file, c.pod} {
		if path != "" {
			given++
		}
	}
	switch {
	case c.name == "":
		d.Errorf(at.Node, "a case has no name")
	case given != 1:
		d.Errorf(at.Node, "case %q: want one of bundle, spec and pod", c.name)
	case c.decision == "":
		d.Errorf(at.Node, "case %q: expect.decision is missing", c.name)
	}
	return c
}

func relativeTo(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

func runSuite(s *testSuite) ([]testResult, error) {
	set, err := policy.Load(s.policy, policy.LoadOptions{})
	if err != nil {
		return nil, err
	}
	var out []testResult
	for i := range s.cases {
		start := time.Now()
		r := testResult{suite: s.name, name: s.cases[i].name, failure: s.cases[i].run(set)}
		r.seconds = time.Since(start).Seconds()
		out = append(out, r)
	}
	return out, nil
}

// run returns what is wrong, or "".
func (c *testCase) run(set *policy.Set) string {
	got, controls, text, err := c.judge(set)
	if err != nil {
		return err.Error()
	}
	want := slices.Sorted(slices.Values(c.controls))
	switch {
	case got != c.decision:
		return strings.TrimSpace(fmt.Sprintf("decision is %s, want %s %s", got, c.decision, text))
	case c.controls != nil && !slices.Equal(slices.Sorted(slices.Values(controls)), want):
		return fmt.Sprintf("violated controls are %v, want %v", controls, c.controls)
	case !strings.Contains(text, c.message):
		return fmt.Sprintf("message is %q, want %q in it", text, c.message)
	}
	return ""
}

// judge returns the decision, the violated controls and the refusal.
func (c *testCase) judge(set *policy.Set) (decision string, controls []string, refusal string, err error) {
	if c.pod != "" {
		return judgeManifest(set, c.pod)
	}
	in, doc, err := c.source.read(nil)
	if err != nil {
		return "", nil, "", err
	}
	d, _, err := decide(set, in, doc)
	if err != nil {
		return "", nil, "", err
	}
	if !d.Allowed {
		refusal = d.Refusal(in)
	}
	return report.Word(d.Allowed), violatedControls(nil, d.Violations), refusal, nil
}

// violatedControls adds the controls of violations to a list, each once.
func violatedControls(list []string, violations []policy.Violation) []string {
	for _, v := range violations {
		if !slices.Contains(list, v.Control) {
			list = append(list, v.Control)
		}
	}
	return list
}

func showResults(cmd *cobra.Command, results []testResult, output string) error {
	failed := 0
	for _, r := range results {
		if r.failure != "" {
			failed++
		}
	}
	var err error
	switch output {
	case "json":
		type line struct {
			Suite   string `json:"suite"`
			Name    string `json:"name"`
			Passed  bool   `json:"passed"`
			Failure string `json:"failure,omitempty"`
		}
		lines := []line{}
		for _, r := range results {
			lines = append(lines, line{r.suite, r.name, r.failure == "", r.failure})
		}
		err = writeJSON(cmd.OutOrStdout(), map[string]any{"apiVersion": apiVersion, "kind": "PolicyTestResult", "failed": failed, "results": lines})
	case "junit":
		err = writeJUnit(cmd, results, failed)
	default:
		p := &printer{w: cmd.OutOrStdout()}
		for _, r := range results {
			if r.failure == "" {
				p.printf("ok    %s: %s\n", r.suite, r.name)
			} else {
				p.printf("FAIL  %s: %s\n      %s\n", r.suite, r.name, r.failure)
			}
		}
		p.printf("%d passed, %d failed\n", len(results)-failed, failed)
		err = p.err
	}
	if err == nil && failed > 0 {
		return errRefused
	}
	return err
}

func writeJUnit(cmd *cobra.Command, results []testResult, failed int) error {
	type failure struct {
		Message string `xml:"message,attr"`
	}
	type testcase struct {
		Class   string   `xml:"classname,attr"`
		Name    string   `xml:"name,attr"`
		Time    string   `xml:"time,attr"`
		Failure *failure `xml:"failure,omitempty"`
	}
	type testsuite struct {
		XMLName  xml.Name   `xml:"testsuite"`
		Name     string     `xml:"name,attr"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Cases    []testcase `xml:"testcase"`
	}
	suite := testsuite{Name: "nodeadmit", Tests: len(results), Failures: failed}
	for _, r := range results {
		c := testcase{Class: r.suite, Name: r.name, Time: fmt.Sprintf("%.6f", r.seconds)}
		if r.failure != "" {
			c.Failure = &failure{r.failure}
		}
		suite.Cases = append(suite.Cases, c)
	}
	data, err := xml.MarshalIndent(suite, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s%s\n", xml.Header, data)
	return err
}
