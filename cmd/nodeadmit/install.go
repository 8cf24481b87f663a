package main

import (
	"fmt"
	"io"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/nodeadmit/nodeadmit/internal/install"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// placeFlags are the flags that say where an installation is.
func placeFlags(cmd *cobra.Command, o *install.Options) {
	f := cmd.Flags()
	f.StringVar(&o.Root, "root", "", "root directory of an image (default: this machine)")
	f.StringVar(&o.LibDir, "lib-dir", install.DefaultLibDir, "directory of the programs, and of the wrapper's names")
	f.StringVar(&o.StateDir, "state-dir", install.DefaultStateDir, "directory that keeps what was there before")
	_ = cmd.MarkFlagDirname("root")
	_ = cmd.MarkFlagDirname("lib-dir")
	_ = cmd.MarkFlagDirname("state-dir")
}

var engineNames = []string{"containerd", "crio", "podman", "docker"}

func installCommand() *cobra.Command {
	var (
		o               install.Options
		engines         []string
		dryRun, restart bool
	)
	cmd := &cobra.Command{
		Use:   "install [--engine NAME]...",
		Short: "Put the wrapper in front of this node's container engines",
		Long: `Install wraps every handler of the engines that serve pods here: it makes the
wrapper's names, adds them to nodeadmit's configuration, and has the engines call
them, by a drop-in file where the engine reads one and else by an edit that keeps
everything else. It can be run again, and should be after a handler was added.

Nothing is done without a valid policy, since every start would be refused then.
What was there is kept in the state directory, and uninstall puts it back.
Engines are restarted only with --restart; running pods are not touched by that.

Exit code: 0 done, 1 done but a handler is not covered, 2 error; nothing was done.`,
		Example: `  nodeadmit install --dry-run
  nodeadmit install --engine containerd --restart
  nodeadmit install --root /mnt/image --engine crio`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range engines {
				d, err := spec.ParseDialect(name)
				if err != nil {
					return err
				}
				o.Engines = append(o.Engines, d)
			}
			return doInstall(cmd.OutOrStdout(), o, dryRun, restart)
		},
	}
	placeFlags(cmd, &o)
	f := cmd.Flags()
	f.StringSliceVar(&engines, "engine", nil, "engine to wrap: containerd, crio, podman or docker (default: those that serve pods here)")
	f.BoolVar(&dryRun, "dry-run", false, "show what would be done, as a diff, and do nothing")
	f.BoolVar(&restart, "restart", false, "restart the engines afterwards")
	f.StringVar(&o.Config, "config", "", "nodeadmit's configuration (default /etc/nodeadmit/config.yaml)")
	f.StringVar(&o.ShareDir, "share-dir", install.DefaultShareDir, "directory of the packaged configuration")
	f.StringVar(&o.EngineConfig, "engine-config", "", "the engine's configuration, if it isn't where it usually is")
	f.StringVar(&o.EngineBinary, "engine-binary", "", "the engine's program, if it isn't where it usually is")
	f.StringSliceVar(&o.KubeletRoots, "kubelet-root", nil, "the kubelet's --root-dir, if it isn't /var/lib/kubelet")
	_ = cmd.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions(engineNames, cobra.ShellCompDirectiveNoFileComp))
	cmd.MarkFlagsMutuallyExclusive("root", "restart")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "restart")
	return cmd
}

func doInstall(w io.Writer, o install.Options, dryRun, restart bool) error {
	var err error
	if o.Root != "" {
		if o.Root, err = filepath.Abs(o.Root); err != nil {
			return err
		}
	}
	plan, err := install.NewPlan(o)
	if err != nil {
		return err
	}
	set, err := plan.CheckPolicy()
	if err != nil {
		return err
	}
	p := &printer{w: w}
	if dryRun {
		if err := plan.Diff(w); err != nil {
			return err
		}
	} else if !plan.Empty() {
		if err := plan.Apply(); err != nil {
			return fmt.Errorf("nothing was changed: %w", err)
		}
	}
	if dryRun {
		p.printf("\nNothing was changed. These handlers would be wrapped:\n")
	} else if plan.Empty() {
		p.printf("Nothing to do: all is in place. Wrapped handlers:\n")
	} else {
		p.printf("Wrapped handlers:\n")
	}
	for _, h := range plan.Handlers {
		via := ""
		if h.Via != "" {
			via = " (called by " + h.Via + ")"
		}
		p.printf("  %s: %s -> %s%s\n", h.Engine, h.Handler, h.Real, via)
	}
	for _, u := range plan.Uncovered {
		p.printf("NOT COVERED: %s: %s: %s\n", u.Engine, u.Handler, u.Reason)
	}
	for _, text := range plan.Warnings {
		p.printf("warning: %s\n", text)
	}
	for _, pol := range set.Policies {
		p.printf("policy %q is in force (%s, preset %s)\n", pol.Name, pol.Mode, pol.Preset)
	}
	if !dryRun {
		for _, e := range plan.Engines {
			switch {
			case e.Unit == "" || plan.Options.Root != "" || !plan.NeedsRestart(e):
			case restart:
				if out, err := exec.Command("systemctl", "restart", e.Unit).CombinedOutput(); err != nil {
					return fmt.Errorf("systemctl restart %s: %w: %s", e.Unit, err, out)
				}
				p.printf("%s was restarted\n", e.Unit)
			default:
				p.printf("%s calls the wrapper once it is restarted: systemctl restart %s (running pods are not touched)\n", e.Dialect, e.Unit)
			}
		}
		if plan.Options.Root == "" {
			p.printf("Then see that it works: nodeadmit doctor\n")
		}
	}
	if p.err == nil && len(plan.Uncovered) > 0 {
		return errRefused
	}
	return p.err
}
