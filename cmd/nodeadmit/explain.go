package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"
	yaml "go.yaml.in/yaml/v3"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// explainResult is the output of explain -o json and -o yaml.
type explainResult struct {
	APIVersion string         `json:"apiVersion" yaml:"apiVersion"`
	Kind       string         `json:"kind" yaml:"kind"`
	Moment     string         `json:"moment" yaml:"moment"`
	Engine     string         `json:"engine" yaml:"engine"`
	Facts      []spec.FactRow `json:"facts" yaml:"facts"`
	Ignored    []string       `json:"ignoredAnnotations" yaml:"ignoredAnnotations"`
	Unknown    []string       `json:"unknownKeys" yaml:"unknownKeys"`
}

func explainCommand() *cobra.Command {
	var (
		src    source
		output string
	)
	cmd := &cobra.Command{
		Use:   "explain (--bundle DIR | --spec FILE)",
		Short: "Say what a bundle asks of the node, in the words of a pod",
		Long: `Explain prints every fact that is read from a bundle: its value, how certain it
is, where it was read, and whether a pod's author could have written it.`,
		Example: `  nodeadmit explain --bundle /run/containerd/io.containerd.runtime.v2.task/k8s.io/ID --live
  nodeadmit explain --spec config.json --engine crio -o yaml`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !src.given() {
				return showError(cmd, output, fmt.Errorf("want --bundle or --spec"))
			}
			in, _, err := src.read(cmd.InOrStdin())
			if err != nil {
				return showError(cmd, output, err)
			}
			r := explainResult{
				APIVersion: apiVersion, Kind: "Explanation", Moment: string(in.Kind), Engine: string(in.Engine.Dialect),
				Facts: in.Facts(), Ignored: orEmpty(in.Ignored), Unknown: orEmpty(in.UnknownKeys),
			}
			switch output {
			case "json":
				return writeJSON(cmd.OutOrStdout(), r)
			case "yaml":
				return yaml.NewEncoder(cmd.OutOrStdout()).Encode(r)
			}
			return showFacts(cmd, &r)
		},
	}
	src.flags(cmd)
	outputFlag(cmd, &output, "table", "json", "yaml")
	return cmd
}

func showFacts(cmd *cobra.Command, r *explainResult) error {
	tw := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 2, ' ', 0)
	p := &printer{w: tw}
	p.printf("FACT\tVALUE\tCERTAINTY\tSOURCE\tBY AUTHOR\n")
	for _, f := range r.Facts {
		by := "no"
		if f.Forgeable {
			by = "yes"
		}
		p.printf("%s\t%s\t%s\t%s\t%s\n", f.Name, f.Text(), f.Certainty, f.Source, by)
	}
	if p.err == nil {
		p.err = tw.Flush()
	}
	p.w = cmd.OutOrStdout()
	for _, k := range r.Ignored {
		p.printf("ignored annotation %s\n", spec.Quote(k))
	}
	for _, k := range r.Unknown {
		p.printf("unknown key %s\n", spec.Quote(k))
	}
	return p.err
}
