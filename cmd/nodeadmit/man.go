//go:build docs

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/nodeadmit/nodeadmit/internal/version"
)

// generators make man pages and completions: go run -tags docs ./cmd/nodeadmit
// docs DIR. The date is SOURCE_DATE_EPOCH's, so that they are the same each time.
func generators() []*cobra.Command {
	return []*cobra.Command{{
		Use: "docs DIR", Hidden: true, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			root, dir := cmd.Root(), args[0]
			root.InitDefaultHelpCmd()
			root.InitDefaultCompletionCmd()
			root.DisableAutoGenTag = true
			seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
			if err != nil {
				return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
			}
			date := time.Unix(seconds, 0).UTC()
			for _, d := range []string{"man", "bash", "zsh", "fish"} {
				if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
					return err
				}
			}
			h := &doc.GenManHeader{Section: "8", Date: &date, Source: "nodeadmit " + version.Version, Manual: "Administration of a node"}
			if err := doc.GenManTree(root, h, filepath.Join(dir, "man")); err != nil {
				return err
			}
			if err := root.GenBashCompletionFileV2(filepath.Join(dir, "bash/nodeadmit"), true); err != nil {
				return err
			}
			if err := root.GenZshCompletionFile(filepath.Join(dir, "zsh/_nodeadmit")); err != nil {
				return err
			}
			return root.GenFishCompletionFile(filepath.Join(dir, "fish/nodeadmit.fish"), true)
		},
	}}
}
