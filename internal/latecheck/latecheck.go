// Package latecheck has a judged container judged once more by our own hook,
// when its namespaces and mounts are real.
package latecheck

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/internal/config"
	"github.com/nodeadmit/nodeadmit/internal/judge"
	"github.com/nodeadmit/nodeadmit/internal/ociargs"
	"github.com/nodeadmit/nodeadmit/internal/record"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// stage is where the hook is added: its container's mounts are made by then,
// nothing of it has run, and runc and crun both have it.
const stage = "createRuntime"

// Env is what our hook is given. A hook without an environment of its own
// would get the caller's.
var Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}

// Add puts our hook at the end of the judged bundle's createRuntime hooks, and
// leaves a record of what was judged. The answer's document becomes the one
// that the runtime will read. The returned note says why nothing was added.
func Add(c *config.Config, runtime string, cmd *ociargs.Command, a *judge.Answer) (note string, err error) {
	doc := a.Document
	if cmd.OwnConfig() {
		return "no late check: the configuration lies outside the bundle", nil
	}
	hook, err := hookFor(c, runtime, cmd.Root)
	if err != nil {
		return "", err
	}
	if !hasHook(doc.Spec, hook) {
		raw, err := spec.AddHook(doc.Raw, stage, hook)
		if err != nil {
			return "", err
		}
		if err := spec.ReplaceConfig(doc.Dir, raw); err != nil {
			return "", err
		}
		a.Document = doc.Rewritten(raw)
	}
	err = record.Write(record.Dir, record.Record{
		Root: cmd.Root, ID: cmd.ID, Bundle: doc.Dir, Digest: a.Document.Digest,
		JudgedAt: time.Now().UTC(), PolicyDigest: a.PolicyDigest(),
	})
	if err != nil {
		// The hook judges in full with or without it.
		return "no record of what was judged: " + err.Error(), nil
	}
	return "", nil
}

// hookFor returns the hook that judges again under the same configuration. Its
// binary lies beside ours.
func hookFor(c *config.Config, runtime, root string) (specs.Hook, error) {
	self, err := os.Executable()
	if err != nil {
		return specs.Hook{}, err
	}
	path := filepath.Join(filepath.Dir(self), "oci-hook")
	if _, err := os.Stat(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%s is missing (install it, or set lateCheck: false in %s)", path, c.File)
		}
		return specs.Hook{}, err
	}
	timeout := int(config.HookTimeout / time.Second)
	return specs.Hook{
		Path: path, Args: []string{"oci-hook", "--config", c.File, "--runtime", runtime, "--late", "--root", root},
		Env: Env, Timeout: &timeout,
	}, nil
}

func hasHook(s *specs.Spec, hook specs.Hook) bool {
	if s.Hooks == nil || len(s.Hooks.CreateRuntime) == 0 {
		return false
	}
	last := s.Hooks.CreateRuntime[len(s.Hooks.CreateRuntime)-1]
	return last.Path == hook.Path && slices.Equal(last.Args, hook.Args) && slices.Equal(last.Env, hook.Env) &&
		last.Timeout != nil && *last.Timeout == *hook.Timeout
}
