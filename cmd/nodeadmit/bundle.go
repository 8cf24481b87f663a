package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/nodeadmit/nodeadmit/internal/config"
	"github.com/nodeadmit/nodeadmit/internal/policybundle"
	"github.com/nodeadmit/nodeadmit/internal/rootfile"
	"github.com/nodeadmit/nodeadmit/pkg/cel"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

// defaultConfig is where the node's configuration is.
const defaultConfig = config.DefaultPath

// loads reports why policy files wouldn't be in force.
func loads(o policy.Origin) error {
	sources, err := o.ReadSources()
	if err != nil {
		return err
	}
	set, _, err := sources.Parse()
	if err != nil {
		return err
	}
	_, err = cel.Load(set.External)
	return err
}

func policyBundleCommand() *cobra.Command {
	var (
		keyFile, out string
		number       uint64
	)
	cmd := &cobra.Command{
		Use:   "bundle DIR --key FILE --version N --out FILE",
		Short: "Make a signed bundle of a policy directory, for policy pull",
		Long: `Bundle puts the policy files of a directory into one file and signs it, for nodes
to fetch with policy pull. The files must load. A node takes no lower version than it
has, so that an old bundle can't be played back to it. The same files, version and key
make the same bytes.

The key is an Ed25519 key as openssl makes it; nodes need its public half.`,
		Example: `  openssl genpkey -algorithm ed25519 -out policy.key
  openssl pkey -in policy.key -pubout -out policy.pub
  nodeadmit policy bundle policies.d --key policy.key --version 7 --out policies.bundle`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, _, err := rootfile.Read(keyFile, 1<<20, nil)
			if err != nil {
				return err
			}
			key, err := policybundle.PrivateKey(text)
			if err != nil {
				return fmt.Errorf("%s: %w", keyFile, err)
			}
			dir := policy.Dir{Name: args[0]}
			if err := loads(dir); err != nil {
				return err
			}
			sources, err := dir.ReadSources()
			if err != nil {
				return err
			}
			data, err := policybundle.Make(sources, number, key)
			if err != nil {
				return err
			}
			return writeWhole(out, data)
		},
	}
	cmd.Flags().StringVar(&keyFile, "key", "", "private key that signs, PEM")
	cmd.Flags().Uint64Var(&number, "version", 0, "version of the bundle: higher than all before")
	cmd.Flags().StringVar(&out, "out", "", "file to write")
	for _, name := range []string{"key", "version", "out"} {
		_ = cmd.MarkFlagRequired(name)
	}
	_ = cmd.MarkFlagFilename("key")
	return cmd
}

// writeWhole writes a file, whole or not at all.
func writeWhole(name string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

func policyPullCommand() *cobra.Command {
	var (
		o                           policybundle.Options
		keyFile, caFile, configFile string
		output                      string
	)
	cmd := &cobra.Command{
		Use:   "pull SOURCE",
		Short: "Fetch a signed bundle and make it this node's policy",
		Long: `Pull fetches a bundle that policy bundle made, from a file or an https URL, and puts
it in the place of the policy directory, at once and as a whole. It must be signed by
one of the keys, be of no lower version than the one in place, and load; else all
stays as it is. A directory that no bundle made is left alone, unless --replace has it
put aside.

Exit code: 0 this bundle is in place, 2 error; nothing was changed.`,
		Example: `  nodeadmit policy pull https://config.corp/policies.bundle
  nodeadmit policy pull ./policies.bundle --public-key ./policy.pub --dry-run -o json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := pull(cmd, args[0], o, keyFile, caFile, configFile)
			if err != nil {
				return showError(cmd, output, err)
			}
			if output == "json" {
				return writeJSON(cmd.OutOrStdout(), struct {
					APIVersion string `json:"apiVersion"`
					Kind       string `json:"kind"`
					DryRun     bool   `json:"dryRun,omitempty"`
					*policybundle.Result
				}{apiVersion, "PullResult", o.DryRun, r})
			}
			return showPull(cmd, r, o.DryRun)
		},
	}
	f := cmd.Flags()
	f.StringVar(&keyFile, "public-key", "/etc/nodeadmit/policy.pub", "keys of which one must have signed, PEM; root's")
	f.StringVar(&caFile, "ca-file", "", "authorities for the server's certificate, PEM (default: the system's)")
	f.StringVar(&configFile, "config", defaultConfig, "the node's configuration")
	f.StringVar(&o.Dir, "dir", "", "policy directory (default: the configuration's policyDir)")
	f.StringVar(&o.StateDir, "state-dir", "", "directory that keeps the version in place (default: the configuration's stateDir)")
	f.BoolVar(&o.AllowOlder, "allow-older", false, "take a lower version than the one in place")
	f.BoolVar(&o.Replace, "replace", false, "put aside a directory that no bundle made")
	f.BoolVar(&o.DryRun, "dry-run", false, "verify and load, and change nothing")
	outputFlag(cmd, &output, "text", "json")
	_ = cmd.MarkFlagFilename("public-key")
	_ = cmd.MarkFlagDirname("dir")
	return cmd
}

func pull(cmd *cobra.Command, source string, o policybundle.Options, keyFile, caFile, configFile string) (*policybundle.Result, error) {
	c, err := config.Load(configFile)
	if errors.Is(err, fs.ErrNotExist) && configFile == defaultConfig {
		c, err = config.Defaults(), nil
	}
	if err != nil && (o.Dir == "" || o.StateDir == "") {
		return nil, err
	}
	if o.Dir == "" {
		o.Dir = c.PolicyDir
	}
	if o.StateDir == "" {
		o.StateDir = c.StateDir
	}
	text, _, err := rootfile.Read(keyFile, 1<<20, rootfile.Check)
	if err != nil {
		return nil, err
	}
	if o.Keys, err = policybundle.PublicKeys(text); err != nil {
		return nil, fmt.Errorf("%s: %w", keyFile, err)
	}
	var roots *x509.CertPool
	if caFile != "" {
		text, _, err := rootfile.Read(caFile, 1<<20, nil)
		if err != nil {
			return nil, err
		}
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: has no certificate: want PEM", caFile)
		}
	}
	data, err := policybundle.Fetch(cmd.Context(), source, roots)
	if err != nil {
		return nil, err
	}
	o.Check = loads
	return policybundle.Put(source, data, o)
}

func showPull(cmd *cobra.Command, r *policybundle.Result, dry bool) error {
	word := "is in place"
	switch {
	case !r.Changed:
		word = "was in place already"
	case dry:
		word = "would be put in place"
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "version %d %s: %d files in %s\n", r.Version, word, len(r.Files), r.Dir)
	if err == nil && r.Aside != "" {
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "what was there before: %s\n", r.Aside)
	}
	return err
}
