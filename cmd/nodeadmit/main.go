// Command nodeadmit is the operator's tool: it checks policies and bundles and
// explains them, on a node and in CI.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/nodeadmit/nodeadmit/internal/version"
)

// Exit codes of all commands.
const (
	exitAllowed = 0
	exitRefused = 1
	exitError   = 2
)

// errRefused ends a command that worked and refused.
var errRefused = errors.New("refused")

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:   "nodeadmit",
		Short: "Admission control for one Kubernetes node, enforced at the OCI runtime",
		Long: `nodeadmit decides on a node whether a pod may start: a wrapper in front of the
OCI runtime and an OCI hook read the bundle that the container engine wrote and
refuse what the node's own policy forbids.

This command installs it, proves that it works, and checks and explains policies
and bundles.`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       version.Version,
	}
	root.SetVersionTemplate("nodeadmit {{.Version}}\n")
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetArgs(args)
	root.AddCommand(checkCommand(), evaluateCommand(), explainCommand(), policyCommand(), installCommand(), uninstallCommand(), doctorCommand(),
		disableCommand(), enableCommand(), versionCommand())
	root.AddCommand(generators()...)
	err := root.Execute()
	switch {
	case err == nil:
		return exitAllowed
	case errors.Is(err, errRefused):
		return exitRefused
	}
	var shown *shownError
	if !errors.As(err, &shown) {
		fmt.Fprintln(stderr, "nodeadmit:", err)
	}
	return exitError
}

// shownError is an error that was written already, in the asked format.
type shownError struct{ error }

// showError writes an error as the output format wants it.
func showError(cmd *cobra.Command, output string, err error) error {
	if output != "json" {
		return err
	}
	if werr := writeJSON(cmd.OutOrStdout(), map[string]string{"apiVersion": apiVersion, "error": err.Error()}); werr != nil {
		return werr
	}
	return &shownError{err}
}

const apiVersion = "nodeadmit.dev/v1alpha1"

func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), "nodeadmit", version.Version)
			return err
		},
	}
}

// outputFlag adds -o and its completion, and returns a check of its value.
func outputFlag(cmd *cobra.Command, value *string, formats ...string) {
	cmd.Flags().StringVarP(value, "output", "o", formats[0], "output format: "+orWords(formats))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		for _, f := range formats {
			if *value == f {
				return nil
			}
		}
		return fmt.Errorf("unknown output format %q: want %s", *value, orWords(formats))
	}
}

func orWords(words []string) string {
	out := ""
	for i, w := range words {
		switch {
		case i == 0:
			out = w
		case i == len(words)-1:
			out += " or " + w
		default:
			out += ", " + w
		}
	}
	return out
}
