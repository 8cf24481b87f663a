package main

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/nodeadmit/nodeadmit/internal/evaluator"
	"github.com/nodeadmit/nodeadmit/internal/evaluator/serve"
)

func evaluateCommand() *cobra.Command {
	var (
		resident, sandboxed bool
		socket              string
	)
	cmd := &cobra.Command{
		Use:   "evaluate",
		Short: "Answer wrapper and hook about policies in CEL and plugins",
		Long: `Evaluate judges what the programs on the container path don't link: Kubernetes'
ValidatingAdmissionPolicies, and plugins. Wrapper and hook start it by themselves,
once per question, which comes on standard input.

With --resident it stays and answers over a socket that is root's alone. That saves
a start per container, and changes no decision: where it is slow, killed or gone, it
is started once per question again. Where systemd gives it its socket, it listens
there.

With --sandboxed it declines what a service that is shut in can't do as one that is
started for the question can: plugins that are programs, and those on the network.
These questions are asked of an evaluator that is started for them.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := serve.New()
			s.Sandboxed = sandboxed
			if !resident {
				return s.Once(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
			}
			ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
			defer stop()
			l, err := serve.Listen(socket)
			if err != nil {
				return err
			}
			return s.Serve(ctx, l)
		},
	}
	cmd.Flags().BoolVar(&resident, "resident", false, "stay, and answer over the socket")
	cmd.Flags().BoolVar(&sandboxed, "sandboxed", false, "decline what needs programs or the network")
	cmd.Flags().StringVar(&socket, "socket", evaluator.DefaultSocket, "socket of the resident evaluator (evaluatorSocket in the configuration)")
	return cmd
}
