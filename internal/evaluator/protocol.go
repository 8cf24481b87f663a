package evaluator

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nodeadmit/nodeadmit/internal/version"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// APIVersion is the protocol's. Both sides are of one version of nodeadmit: a
// resident evaluator of before an upgrade is passed over.
const APIVersion = "evaluator.nodeadmit.dev/v1alpha1"

// Sizes of what is said, in bytes.
const (
	MaxRequest  = 64 << 20
	MaxResponse = 4 << 20
)

// Accepted is the byte that a resident evaluator sends when it has read a
// question, before it works on it.
const Accepted = 'A'

// Declined is the byte that a resident evaluator sends instead where the question
// is for one that is started for it.
const Declined = 'D'

// Moment is when a question is asked.
type Moment string

// The moments.
const (
	Sandbox   Moment = "sandbox"
	Container Moment = "container"
	// Late is the late check, of a sandbox or a container that was judged before.
	Late Moment = "lateCheck"
	// Unmanaged is a container that no CRI made.
	Unmanaged Moment = "unmanaged"
)

// Request is a question.
type Request struct {
	APIVersion string `json:"apiVersion"`
	Version    string `json:"version"`
	// ID is made for this question alone, and stands in its answer.
	ID     string `json:"id"`
	Moment Moment `json:"moment"`
	// BundleDigest is that of Spec, the config.json as it was read.
	BundleDigest string `json:"bundleDigest"`
	Spec         []byte `json:"spec"`
	Intent       Intent `json:"intent"`
	// Budget is how long an answer may take.
	Budget time.Duration `json:"budget"`

	PolicyDir string `json:"policyDir"`
	StateDir  string `json:"stateDir"`
	// PolicyDigest is that of the policy in force. The evaluator reads the policy
	// itself and must come to the same.
	PolicyDigest string `json:"policyDigest"`
	// PluginDir is "" if there are no plugins.
	PluginDir    string `json:"pluginDir,omitempty"`
	PluginDigest string `json:"pluginDigest,omitempty"`
}

// Response is an answer.
type Response struct {
	APIVersion   string `json:"apiVersion"`
	Version      string `json:"version"`
	ID           string `json:"id"`
	BundleDigest string `json:"bundleDigest"`
	PolicyDigest string `json:"policyDigest"`
	PluginDigest string `json:"pluginDigest,omitempty"`
	// Error is why the question can't be answered.
	Error string `json:"error,omitempty"`
	// Decided is true if all that was asked was judged.
	Decided      bool               `json:"decided"`
	Violations   []policy.Violation `json:"violations,omitempty"`
	Undetermined []policy.Note      `json:"undetermined,omitempty"`
	// Notes are warnings and audit annotations, for the decision log.
	Notes []string `json:"notes,omitempty"`
}

// Intent is a [spec.Intent] that can be written down.
type Intent struct {
	*spec.Intent
	MountCertainty []spec.Certainty
}

// NewIntent wraps an intent for a request.
func NewIntent(in *spec.Intent) Intent {
	out := Intent{Intent: in}
	for i := range in.Mounts {
		out.MountCertainty = append(out.MountCertainty, in.Mounts[i].Certainty)
	}
	return out
}

// Unwrap returns the intent of a request that was read.
func (i *Intent) Unwrap() (*spec.Intent, error) {
	if i.Intent == nil || len(i.MountCertainty) != len(i.Mounts) {
		return nil, errors.New("the request has no whole intent")
	}
	for n := range i.Mounts {
		i.Mounts[n].Certainty = i.MountCertainty[n]
	}
	return i.Intent, nil
}

// newID returns 16 random bytes in hexadecimal. crypto/rand would link math/big.
func newID() (string, error) {
	var b [16]byte
	if n, err := unix.Getrandom(b[:], 0); n != len(b) {
		return "", fmt.Errorf("no random bytes: %w", err)
	}
	return hex.EncodeToString(b[:]), nil
}

// Answer begins the answer to a question.
func (r *Request) Answer() *Response {
	return &Response{
		APIVersion: APIVersion, Version: version.Version, ID: r.ID,
		BundleDigest: r.BundleDigest, PolicyDigest: r.PolicyDigest, PluginDigest: r.PluginDigest,
	}
}

// Check says what is wrong with a question before it is read any further.
func (r *Request) Check() error {
	switch {
	case r.APIVersion != APIVersion:
		return fmt.Errorf("apiVersion is %q: want %s", r.APIVersion, APIVersion)
	case r.Version != version.Version:
		return fmt.Errorf("the question is of nodeadmit %s, and this is %s", r.Version, version.Version)
	case r.ID == "" || r.PolicyDir == "" || r.PolicyDigest == "":
		return errors.New("the question is not whole")
	}
	return nil
}

// readResponse reads an answer to a question. Whatever isn't one is an error: an
// answer must never be taken from what only looks like it.
func readResponse(r *Request, data []byte) (*Response, error) {
	var a Response
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, fmt.Errorf("its answer is no JSON: %w", err)
	}
	switch {
	case a.APIVersion != APIVersion, a.Version != version.Version:
		return nil, fmt.Errorf("it is of nodeadmit %s (%s): want %s (%s)", spec.Quote(a.Version), spec.Quote(a.APIVersion), version.Version, APIVersion)
	case a.ID != r.ID, a.BundleDigest != r.BundleDigest:
		return nil, errors.New("it answers another question")
	case a.Error != "":
		return nil, errors.New(a.Error)
	case a.PolicyDigest != r.PolicyDigest, a.PluginDigest != r.PluginDigest:
		return nil, errors.New("it read another policy")
	case !a.Decided:
		return nil, errors.New("its answer decides nothing")
	}
	for _, v := range a.Violations {
		if v.Policy == "" || v.Control == "" || v.Message == "" || v.Mode != policy.Enforce && v.Mode != policy.Audit {
			return nil, errors.New("its answer has a violation that isn't whole")
		}
	}
	return &a, nil
}
