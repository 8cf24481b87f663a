// Package test has the tests that belong to no package of the product.
package test

import (
	"path/filepath"
	"testing"

	"github.com/nodeadmit/nodeadmit/pkg/policy"
)

func TestTheShippedPoliciesLoad(t *testing.T) {
	files, err := filepath.Glob("../packaging/policies/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("found %d policies: %v", len(files), err)
	}
	for _, f := range files {
		if _, err := policy.Load(f, policy.LoadOptions{}); err != nil {
			t.Error(err)
		}
	}
}
