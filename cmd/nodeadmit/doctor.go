package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/nodeadmit/nodeadmit/internal/doctor"
	"github.com/nodeadmit/nodeadmit/internal/install"
)

func doctorCommand() *cobra.Command {
	var (
		o      doctor.Options
		output string
		all    bool
	)
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Prove that nodeadmit works on this node, and find what is wrong",
		Long: `Doctor looks at the installation, and proves each handler: a bundle that must be
refused is given to the wrapper, and one that may run is made by the real runtime
and deleted. Both leave an entry in the decision log.

-o json is for node-problem-detector and the like, -o prometheus for the textfile
collector of node_exporter.

Exit code: 0 nothing is wrong, 1 warnings, 2 problems.`,
		Example: `  nodeadmit doctor
  nodeadmit doctor -o prometheus > /var/lib/node_exporter/nodeadmit.prom.new &&
    mv /var/lib/node_exporter/nodeadmit.prom.new /var/lib/node_exporter/nodeadmit.prom`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r := doctor.Examine(o)
			w := cmd.OutOrStdout()
			var err error
			switch output {
			case "json":
				err = writeJSON(w, r)
			case "prometheus":
				err = r.Prometheus(w)
			default:
				err = showReport(w, r, all)
			}
			switch {
			case err != nil:
				return err
			case r.Status == doctor.Problem:
				return &shownError{fmt.Errorf("problems were found")}
			case r.Status == doctor.Warning:
				return errRefused
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&o.Install.StateDir, "state-dir", install.DefaultStateDir, "directory that keeps what install did")
	cmd.Flags().BoolVar(&o.NoProof, "no-proof", false, "only look: call no runtime")
	cmd.Flags().BoolVar(&all, "all", false, "show also what is well")
	outputFlag(cmd, &output, "text", "json", "prometheus")
	return cmd
}

func showReport(w io.Writer, r *doctor.Report, all bool) error {
	p := &printer{w: w}
	counts := map[doctor.Status]int{}
	for _, f := range r.Findings {
		counts[f.Status]++
	}
	p.printf("%s: %d checks are well, %d warnings, %d problems\n", r.Status, counts[doctor.OK]+counts[doctor.Note], counts[doctor.Warning], counts[doctor.Problem])
	for _, f := range r.Findings {
		if f.Status == doctor.OK && !all && f.Check != "proof" {
			continue
		}
		p.printf("%-8s %s\n", f.Status, strings.Join(nonEmpty(f.Check, f.Subject, f.Message), ": "))
	}
	return p.err
}

func nonEmpty(words ...string) (out []string) {
	for _, w := range words {
		if w != "" {
			out = append(out, w)
		}
	}
	return out
}
