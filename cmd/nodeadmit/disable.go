package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/nodeadmit/nodeadmit/internal/breakglass"
)

func disableCommand() *cobra.Command {
	var (
		d      time.Duration
		reason string
	)
	cmd := &cobra.Command{
		Use:   "disable --for DURATION",
		Short: "Break-glass: refuse nothing for a while",
		Long: `Disable lets everything start that policy, or a fault of policy or configuration,
would refuse. Each such start is in the decision log with the refusal's text and
the word BREAK-GLASS, and doctor reports a problem all the while. What can't be
judged at all (a malformed bundle, an ambiguous command line) is still refused.

It ends by itself, by nodeadmit enable, and with a reboot. Only root can ask for it.`,
		Example: `  nodeadmit disable --for 15m --reason "INC-4711: CNI upgrade refused"`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if os.Geteuid() != 0 {
				return fmt.Errorf("only root can do this")
			}
			until, err := breakglass.Disable(time.Now(), d, reason)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "Nothing is refused until %s. nodeadmit enable ends it.\n", until.Format(time.RFC3339))
			return err
		},
	}
	cmd.Flags().DurationVar(&d, "for", 0, fmt.Sprintf("how long, from %s to %s", breakglass.Shortest, breakglass.Longest))
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	_ = cmd.MarkFlagRequired("for")
	return cmd
}

func enableCommand() *cobra.Command {
	return &cobra.Command{
		Use: "enable", Short: "End what disable began", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			was, err := breakglass.Enable(time.Now())
			if err != nil {
				return err
			}
			text := "Policy was in force, and is."
			if was {
				text = "Policy is in force again."
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		},
	}
}
