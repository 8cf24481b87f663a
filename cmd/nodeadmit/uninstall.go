package main

import (
	"errors"
	"io"

	"github.com/spf13/cobra"

	"github.com/nodeadmit/nodeadmit/internal/install"
)

func uninstallCommand() *cobra.Command {
	var (
		o      install.Options
		dryRun bool
	)
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Take the wrapper out of this node's container engines",
		Long: `Uninstall puts back what install changed: hooks and engines' configuration first,
the wrapper's names last. A file that nobody edited since is restored byte for
byte; of any other, only the lines of install are taken out, and if they were
changed too, the wrapper's names become the real runtimes' paths.

An engine calls the wrapper's names until it is restarted, and for pods that run
now until they are gone. So while an engine runs the names stay, and lead straight
to the real runtimes: pods start and stop, and nothing is judged.

Exit code: 0 done, 2 error.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return uninstall(cmd.OutOrStdout(), o, dryRun) },
	}
	placeFlags(cmd, &o)
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be done, as a diff, and do nothing")
	return cmd
}

func uninstall(w io.Writer, o install.Options, dryRun bool) error {
	u, err := install.NewRemoval(o)
	if err != nil {
		return err
	}
	p := &printer{w: w}
	if u == nil {
		p.printf("Nothing is installed.\n")
		return p.err
	}
	if dryRun {
		if err := u.Diff(w); err != nil {
			return err
		}
		p.printf("\nNothing was changed.\n")
		return p.err
	}
	err = u.Apply()
	for _, s := range u.Steps {
		switch {
		case s.Remove:
			p.printf("removed %s\n", s.Path)
		case s.Merged:
			p.printf("took what is ours out of %s, which was edited since\n", s.Path)
		default:
			p.printf("restored %s\n", s.Path)
		}
	}
	if err != nil {
		return errors.Join(err, p.err)
	}
	if u.NoRecord {
		p.printf("There is no record of an installation in %s: engines' configuration was left as it is, and may still name %s/runtimes.\n",
			u.Options.StateDir, u.Options.LibDir)
	}
	if u.PassThrough {
		p.printf("%s/runtimes leads to the real runtimes now, for engines that run and for pods that they made.\n", u.Options.LibDir)
		for _, e := range u.Record.Engines {
			if e.Unit != "" {
				p.printf("systemctl restart %s when it suits (running pods are not touched)\n", e.Unit)
			}
		}
	}
	return p.err
}
