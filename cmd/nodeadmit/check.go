package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodeadmit/nodeadmit/internal/evaluator/serve"
	"github.com/nodeadmit/nodeadmit/internal/host"
	"github.com/nodeadmit/nodeadmit/internal/report"
	"github.com/nodeadmit/nodeadmit/pkg/cel"
	"github.com/nodeadmit/nodeadmit/pkg/plugin"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// source says which document a command looks at, and how.
type source struct {
	bundle, file string
	engine       string
	id           string
	live         bool
	kubeletRoots []string
	engineRoots  []string
	defaultCaps  []string
}

func (s *source) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.bundle, "bundle", "", "bundle directory that holds a config.json")
	f.StringVar(&s.file, "spec", "", "config.json to read, or - for stdin")
	f.StringVar(&s.engine, "engine", string(spec.Containerd), "engine that wrote the bundle: containerd, crio, podman, docker or none")
	f.StringVar(&s.id, "id", "", "container id, as the runtime is told it (default: the end of linux.cgroupsPath)")
	f.BoolVar(&s.live, "live", false, "look at this machine: resolve namespaces, symbolic links and mounts")
	f.StringSliceVar(&s.kubeletRoots, "kubelet-root", nil, "the kubelet's --root-dir (default /var/lib/kubelet)")
	f.StringSliceVar(&s.engineRoots, "engine-root", nil, "directories in which the engine keeps its files (default: the engine's own)")
	f.StringSliceVar(&s.defaultCaps, "default-capabilities", nil, "capabilities that the engine gives by default (default: the engine's own)")
	cmd.MarkFlagsMutuallyExclusive("bundle", "spec")
	_ = cmd.MarkFlagDirname("bundle")
	_ = cmd.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions([]string{"containerd", "crio", "podman", "docker", "none"}, cobra.ShellCompDirectiveNoFileComp))
}

// given reports whether a document was named.
func (s *source) given() bool { return s.bundle != "" || s.file != "" }

// read reads the document and maps it.
func (s *source) read(stdin io.Reader) (*spec.Intent, *spec.Document, error) {
	dialect, err := spec.ParseDialect(s.engine)
	if err != nil {
		return nil, nil, err
	}
	engine := spec.NewEngine(dialect)
	if s.kubeletRoots != nil {
		engine.KubeletRoots = s.kubeletRoots
	}
	if s.engineRoots != nil {
		engine.Roots = s.engineRoots
	}
	if s.defaultCaps != nil {
		engine.DefaultCapabilities = nil
		for _, c := range s.defaultCaps {
			engine.DefaultCapabilities = append(engine.DefaultCapabilities, spec.CapabilityName(c))
		}
	}
	var doc *spec.Document
	switch {
	case s.bundle != "":
		doc, err = spec.ReadBundle(s.bundle)
	case s.file == "-":
		doc, err = spec.Read(stdin)
	default:
		doc, err = spec.ReadFile(s.file)
	}
	if err != nil {
		return nil, nil, err
	}
	o := spec.Options{Engine: engine, ID: s.id}
	if s.live {
		o.Host = host.New()
	}
	in, err := spec.Map(doc, o)
	if err != nil {
		return nil, nil, fmt.Errorf("config.json: %w", err)
	}
	return in, doc, nil
}

// checkResult is the output of check -o json.
type checkResult struct {
	APIVersion   string             `json:"apiVersion"`
	Kind         string             `json:"kind"`
	Decision     string             `json:"decision"`
	Moment       string             `json:"moment"`
	Message      string             `json:"message,omitempty"`
	Pod          *report.Pod        `json:"pod"`
	Violations   []policy.Violation `json:"violations"`
	Undetermined []policy.Note      `json:"undetermined"`
	Assumed      []policy.Note      `json:"assumed"`
	Exempt       []policy.Note      `json:"exempt,omitempty"`
	Inactive     []policy.Note      `json:"inactiveExemptions,omitempty"`
	IgnoredKeys  []string           `json:"ignoredAnnotations,omitempty"`
	// Notes are warnings and audit annotations of policies in CEL.
	Notes []string `json:"notes,omitempty"`
}

func checkCommand() *cobra.Command {
	var (
		src        source
		node       nodeFlags
		policyPath string
		podFile    string
		staticPod  bool
		pluginDir  string
		output     string
	)
	cmd := &cobra.Command{
		Use:   "check --policy PATH [--bundle DIR | --spec FILE | --pod FILE]",
		Short: "Check a policy, or a bundle or pods against it",
		Long: `Check judges a bundle as the wrapper would, and says what it would say. With
--policy alone it validates the policy. With --pod it judges pods as they are
declared, by upstream's own Pod Security checks and by the policy's controls.

Without --live nothing but the files named is looked at: a namespace given by
path is the host's if the path says so (/proc/1/ns/net), and is else taken as
the pod's own and listed under "assumed". With --live namespaces, symbolic links
and mounts are resolved on this machine.

Exit code: 0 allowed, 1 refused, 2 error.`,
		Example: `  nodeadmit check --policy policies.d
  nodeadmit check --policy baseline.yaml --bundle . --engine none
  kubectl get pods -A -o yaml | nodeadmit check --policy restricted.yaml --pod -
  runc spec && nodeadmit check --policy baseline.yaml --spec config.json --engine none -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			err := checkPlugins(cmd.Context(), pluginDir)
			if err == nil {
				err = check(cmd, &src, &node, policyPath, podFile, staticPod, output)
			}
			if err != nil && !errors.Is(err, errRefused) {
				return showError(cmd, output, err)
			}
			return err
		},
	}
	cmd.Flags().StringVar(&policyPath, "policy", "", "policy file, or directory of *.yaml, *.yml and *.json files")
	_ = cmd.MarkFlagRequired("policy")
	cmd.Flags().StringVar(&podFile, "pod", "", "YAML or JSON of pods, lists of them or workloads, or - for stdin")
	cmd.Flags().BoolVar(&staticPod, "static-pod", false, "the pods are in the kubelet's manifest directory: exemptions for static pods apply")
	cmd.Flags().StringVar(&pluginDir, "plugins", "", "directory of plugins, of which each is asked whether it would answer")
	_ = cmd.MarkFlagDirname("plugins")
	src.flags(cmd)
	node.flags(cmd)
	cmd.MarkFlagsMutuallyExclusive("pod", "bundle")
	cmd.MarkFlagsMutuallyExclusive("pod", "spec")
	outputFlag(cmd, &output, "text", "json")
	return cmd
}

// nodeFlags say as which node a policy is read.
type nodeFlags struct {
	labels      map[string]string
	threatModel string
}

func (n *nodeFlags) flags(cmd *cobra.Command) {
	cmd.Flags().StringToStringVar(&n.labels, "node-label", nil, "label of the node, for policies that are for some nodes only (KEY=VALUE)")
	cmd.Flags().StringVar(&n.threatModel, "threat-model", "Misconfiguration", "Misconfiguration or HostileAdmin")
	_ = cmd.RegisterFlagCompletionFunc("threat-model", cobra.FixedCompletions([]string{"Misconfiguration", "HostileAdmin"}, cobra.ShellCompDirectiveNoFileComp))
}

func (n *nodeFlags) node() (policy.Node, error) {
	switch n.threatModel {
	case "Misconfiguration", "HostileAdmin":
		return policy.Node{Labels: n.labels, HostileAdmin: n.threatModel == "HostileAdmin"}, nil
	}
	return policy.Node{}, fmt.Errorf("unknown threat model %q: want Misconfiguration or HostileAdmin", n.threatModel)
}

func check(cmd *cobra.Command, src *source, node *nodeFlags, policyPath, podFile string, staticPod bool, output string) error {
	set, err := policy.Load(policyPath, policy.LoadOptions{})
	if err != nil {
		return err
	}
	if !src.given() && podFile == "" {
		return showPolicies(cmd.OutOrStdout(), set, output)
	}
	as, err := node.node()
	if err != nil {
		return err
	}
	if podFile != "" {
		if set, err = set.ForNode(as); err != nil {
			return err
		}
		return checkPods(cmd, set, podFile, staticPod, output)
	}
	in, doc, err := src.read(cmd.InOrStdin())
	if err != nil {
		return err
	}
	if set, err = set.ForNode(as); err != nil {
		return err
	}
	d, notes, err := decide(set, in, doc)
	if err != nil {
		return err
	}
	r := checkResult{
		APIVersion: apiVersion, Kind: "CheckResult", Decision: report.Word(d.Allowed), Moment: string(in.Kind),
		Pod:        report.NewPod(in),
		Violations: orEmpty(d.Violations), Undetermined: orEmpty(d.Undetermined), Assumed: orEmpty(d.Assumed),
		Exempt: d.Exempt, Inactive: d.Inactive, IgnoredKeys: in.Ignored, Notes: notes,
	}
	if !d.Allowed {
		r.Message = d.Refusal(in)
	}
	if output == "json" {
		err = writeJSON(cmd.OutOrStdout(), r)
	} else {
		err = showCheck(cmd.OutOrStdout(), in, &r)
	}
	if err == nil && !d.Allowed {
		return errRefused
	}
	return err
}

// checkPlugins asks all plugins of a directory whether they would answer.
func checkPlugins(ctx context.Context, dir string) error {
	if dir == "" {
		return nil
	}
	sources, err := policy.ReadSources(dir, policy.LoadOptions{})
	if err != nil {
		return err
	}
	set, err := plugin.Load(sources)
	if err != nil {
		return err
	}
	defer set.Close()
	return set.Check(ctx)
}

// decide is the whole decision on a bundle but for plugins, all in this process.
func decide(set *policy.Set, in *spec.Intent, doc *spec.Document) (d policy.Decision, notes []string, err error) {
	d = set.Evaluate(in)
	if in.Kind == spec.KindUnmanaged {
		return d, nil, nil
	}
	kubernetes, err := cel.Load(set.External)
	if err != nil {
		return d, nil, err
	}
	found, err := kubernetes.Evaluate(context.Background(), &cel.Input{Intent: in, Spec: doc.Raw, Node: serve.ThisNode()})
	if err != nil {
		return d, nil, err
	}
	d.Add(found.Violations, found.Undetermined)
	return d, found.Notes, nil
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// policyResult is the output of check -o json for a policy alone.
type policyResult struct {
	APIVersion string             `json:"apiVersion"`
	Kind       string             `json:"kind"`
	Digest     string             `json:"digest"`
	Policies   []policyLine       `json:"policies"`
	Exemptions []policy.Exemption `json:"exemptions"`
	// Kubernetes are the ValidatingAdmissionPolicies, and what a node can't see of
	// what they read.
	Kubernetes []cel.Description `json:"validatingAdmissionPolicies,omitempty"`
}

type policyLine struct {
	Name    string `json:"name"`
	File    string `json:"file"`
	Mode    string `json:"mode"`
	Preset  string `json:"preset"`
	Version string `json:"version"`
}

func showPolicies(w io.Writer, set *policy.Set, output string) error {
	kubernetes, err := cel.Load(set.External)
	if err != nil {
		return err
	}
	r := policyResult{
		APIVersion: apiVersion, Kind: "PolicyResult", Digest: set.Digest, Policies: []policyLine{}, Exemptions: orEmpty(set.Exemptions()),
		Kubernetes: kubernetes.Describe(),
	}
	for _, p := range set.Policies {
		r.Policies = append(r.Policies, policyLine{p.Name, p.File, string(p.Mode), string(p.Preset), p.Version.String()})
	}
	if output == "json" {
		return writeJSON(w, r)
	}
	for _, p := range r.Policies {
		if _, err := fmt.Fprintf(w, "%s: policy %q is valid (%s, preset %s %s)\n", p.File, p.Name, p.Mode, p.Preset, p.Version); err != nil {
			return err
		}
	}
	for _, e := range r.Exemptions {
		holds := "holds against a hostile cluster admin"
		if !e.HoldsAgainstHostileAdmin {
			holds = "does not hold against a hostile cluster admin: " + e.Weakness
		}
		if _, err := fmt.Fprintf(w, "policy %q, exemption %q: %s\n", e.Policy, e.Name, holds); err != nil {
			return err
		}
	}
	return showKubernetes(w, r.Kubernetes)
}

// showKubernetes says of policies in CEL when each rule can decide.
func showKubernetes(w io.Writer, list []cel.Description) error {
	p := &printer{w: w}
	for _, d := range list {
		bound := "bound by " + strings.Join(d.Bindings, ", ")
		switch {
		case len(d.Bindings) == 0:
			bound = "not bound: it decides nothing"
		case !d.Applies:
			bound += "; it is never about pods that are made"
		}
		p.printf("%s: ValidatingAdmissionPolicy %q is valid (%s)\n", d.File, d.Name, bound)
		for _, r := range d.Rules {
			switch {
			case r.Decides == "never" && len(r.Unseen) > 0:
				p.printf("  %s may refuse every container: a node can't see %s\n", r.Field, strings.Join(r.Unseen, ", "))
			case r.Decides == "never":
				p.printf("  %s may refuse every container: a node can't see all containers of a pod together\n", r.Field)
			default:
				p.printf("  %s decides at the %s\n", r.Field, r.Decides)
			}
		}
	}
	return p.err
}

func showCheck(w io.Writer, in *spec.Intent, r *checkResult) error {
	p := &printer{w: w}
	p.printf("%s: %s (%s)\n", r.Decision, in.Ref(), r.Moment)
	if r.Message != "" {
		p.printf("\n%s\n", r.Message)
	}
	if len(r.Violations) > 0 {
		p.printf("\nViolations:\n")
		for _, v := range r.Violations {
			p.printf("  %s: %s (%s, %s)\n", v.Control, v.Message, v.Field, v.Mode)
		}
	}
	for _, l := range []struct {
		title string
		notes []policy.Note
	}{{"Undetermined", r.Undetermined}, {"Assumed", r.Assumed}, {"Exempt", r.Exempt}, {"Exemptions not in force", r.Inactive}} {
		if len(l.notes) == 0 {
			continue
		}
		p.printf("\n%s:\n", l.title)
		for _, n := range l.notes {
			p.printf("  %s: %s (%s)\n", n.Control, n.Message, n.Field)
		}
	}
	if len(r.Notes) > 0 {
		p.printf("\nNotes:\n")
		for _, n := range r.Notes {
			p.printf("  %s\n", n)
		}
	}
	if len(r.IgnoredKeys) > 0 {
		p.printf("\nIgnored annotations (another engine's, or a pod author's):\n")
		for _, k := range r.IgnoredKeys {
			p.printf("  %s\n", spec.Quote(k))
		}
	}
	return p.err
}

// printer keeps the first error of many writes.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) printf(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}
