package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nodeadmit/nodeadmit/internal/report"
	"github.com/nodeadmit/nodeadmit/pkg/cel"
	"github.com/nodeadmit/nodeadmit/pkg/pod"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// maxManifest bounds a file of pods, in bytes.
const maxManifest = 64 << 20

// podResult is the output of check --pod -o json for one pod.
type podResult struct {
	APIVersion   string             `json:"apiVersion"`
	Kind         string             `json:"kind"`
	Decision     string             `json:"decision"`
	Moment       string             `json:"moment"`
	Basis        policy.Basis       `json:"basis"`
	Object       string             `json:"object"`
	Message      string             `json:"message,omitempty"`
	Pod          *report.Pod        `json:"pod"`
	Violations   []policy.Violation `json:"violations"`
	Undetermined []policy.Note      `json:"undetermined"`
	Assumed      []policy.Note      `json:"assumed"`
	Exempt       []policy.Note      `json:"exempt,omitempty"`
	Inactive     []policy.Note      `json:"inactiveExemptions,omitempty"`
}

// podResults is the output for a file of several.
type podResults struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Decision   string      `json:"decision"`
	Items      []podResult `json:"items"`
}

// checkPods judges the pods of a manifest as they are declared.
func checkPods(cmd *cobra.Command, set *policy.Set, file string, static bool, output string) error {
	data, err := readManifest(cmd.InOrStdin(), file)
	if err != nil {
		return err
	}
	out, err := judgePods(set, file, static, data)
	if err != nil {
		return err
	}
	switch {
	case output != "json":
		err = showPods(cmd.OutOrStdout(), out.Items)
	case len(out.Items) == 1:
		err = writeJSON(cmd.OutOrStdout(), out.Items[0])
	default:
		err = writeJSON(cmd.OutOrStdout(), out)
	}
	if err == nil && out.Decision != report.Word(true) {
		return errRefused
	}
	return err
}

// judgePods judges all pods of a manifest, which are static pods or not. One that is
// refused refuses it.
func judgePods(set *policy.Set, file string, static bool, data []byte) (*podResults, error) {
	pods, err := pod.Read(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	evaluator, err := pod.NewEvaluator()
	if err != nil {
		return nil, err
	}
	kubernetes, err := cel.Load(set.External)
	if err != nil {
		return nil, err
	}
	out := &podResults{APIVersion: apiVersion, Kind: "CheckResultList"}
	allowed := true
	for _, p := range pods {
		r, err := judgePod(set, kubernetes, evaluator, &p, static)
		if err != nil {
			return nil, err
		}
		allowed = allowed && r.Decision == report.Word(true)
		out.Items = append(out.Items, r)
	}
	out.Decision = report.Word(allowed)
	return out, nil
}

// judgeManifest judges a manifest for a test case.
func judgeManifest(set *policy.Set, file string) (decision string, controls []string, refusal string, err error) {
	data, err := readManifest(nil, file)
	if err != nil {
		return "", nil, "", err
	}
	out, err := judgePods(set, file, false, data)
	if err != nil {
		return "", nil, "", err
	}
	for _, r := range out.Items {
		controls = violatedControls(controls, r.Violations)
		if refusal == "" {
			refusal = r.Message
		}
	}
	return out.Decision, controls, refusal, nil
}

// readManifest reads a file of pods, or standard input for "-".
func readManifest(stdin io.Reader, file string) ([]byte, error) {
	in := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxManifest+1))
	if err == nil && len(data) > maxManifest {
		err = errors.New("is larger than 64 MiB")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return data, nil
}

func judgePod(set *policy.Set, kubernetes *cel.Policies, e *pod.Evaluator, p *pod.Named, static bool) (podResult, error) {
	declared := e.Declare(p.Pod)
	for _, in := range declared.Containers {
		in.StaticPod = spec.Fact[bool]{Value: static, Certainty: spec.Known, Source: "--static-pod"}
	}
	d := set.EvaluateDeclared(declared)
	found, err := kubernetes.Evaluate(context.Background(), &cel.Input{Pod: p.Pod})
	if err != nil {
		return podResult{}, err
	}
	d.Add(found.Violations, found.Undetermined)
	// The pod as a whole, for its name.
	whole := *declared.Containers[0]
	whole.Kind = spec.KindSandbox
	r := podResult{
		APIVersion: apiVersion, Kind: "CheckResult", Decision: report.Word(d.Allowed), Moment: "pod", Basis: policy.Declared, Object: p.Where,
		Pod:        &report.Pod{Namespace: p.Pod.Namespace, Name: p.Pod.Name, UID: string(p.Pod.UID)},
		Violations: orEmpty(d.Violations), Undetermined: orEmpty(d.Undetermined), Assumed: []policy.Note{}, Exempt: d.Exempt, Inactive: d.Inactive,
	}
	if !d.Allowed {
		r.Message = d.Refusal(&whole)
	}
	return r, nil
}

func showPods(w io.Writer, items []podResult) error {
	p := &printer{w: w}
	for i, r := range items {
		if i > 0 {
			p.printf("\n")
		}
		p.printf("%s: %s (declared)\n", r.Decision, spec.Quote(r.Object))
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
		}{{"Not said by the pod", r.Undetermined}, {"Exempt", r.Exempt}, {"Exemptions not in force", r.Inactive}} {
			if len(l.notes) == 0 {
				continue
			}
			p.printf("\n%s:\n", l.title)
			for _, n := range l.notes {
				p.printf("  %s: %s (%s)\n", n.Control, n.Message, n.Field)
			}
		}
	}
	return p.err
}
