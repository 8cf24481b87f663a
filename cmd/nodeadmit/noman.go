//go:build !docs

package main

import "github.com/spf13/cobra"

// generators are commands for building packages: the product has none.
func generators() []*cobra.Command { return nil }
