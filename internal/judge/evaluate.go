package judge

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/nodeadmit/nodeadmit/internal/evaluator"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// evaluate adds to a decision what only `nodeadmit evaluate` can say: policies in
// CEL, and plugins. Where there are none it costs a look at the plugins' directory.
// What the node's own controls refuse already is not asked.
func (a *Answer) evaluate(r Request, set *policy.Set) error {
	plugins, err := pluginFiles(r.Config.PluginDir)
	if err != nil {
		return &Fault{BadPolicy, fmt.Errorf("plugins can't be read: %w", firstLine(err))}
	}
	cel := set.NeedsEvaluator() && a.Intent.Kind != spec.KindUnmanaged
	if !cel && plugins == nil {
		return nil
	}
	q := &evaluator.Request{
		Moment: evaluator.MomentOf(a.Intent, r.Late), BundleDigest: a.Document.Digest, Spec: a.Document.Raw, Intent: evaluator.NewIntent(a.Intent),
		PolicyDir: r.Config.PolicyDir, StateDir: r.Config.StateDir, PolicyDigest: set.Digest,
	}
	if plugins != nil {
		q.PluginDir, q.PluginDigest = plugins.Name, plugins.Digest
	}
	c := evaluator.Client{Socket: r.Config.EvaluatorSocket, Deadline: r.Config.Deadline}
	found, passed, err := c.Ask(q)
	if passed != nil {
		a.Notes = append(a.Notes, "the resident evaluator was passed over: "+passed.Error())
	}
	if err != nil {
		return &Fault{NoEvaluator, fmt.Errorf("the evaluator can't decide: %w", firstLine(err))}
	}
	a.Decision.Add(found.Violations, found.Undetermined)
	a.Notes = append(a.Notes, found.Notes...)
	return nil
}

// pluginFiles returns the plugins' files, or nil if there are none.
func pluginFiles(dir string) (*policy.Sources, error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	s, err := policy.ReadSources(dir, policy.LoadOptions{RequireRoot: true})
	if err != nil || len(s.Files) == 0 {
		return nil, err
	}
	return s, nil
}
