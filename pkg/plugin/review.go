package plugin

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodeadmit/nodeadmit/pkg/pod"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// Control is the word for a plugin's refusal where others have their control's name.
const Control = "plugin"

// Question is what plugins are asked about.
type Question struct {
	Moment string
	Intent *spec.Intent
	Spec   []byte
	Digest string
	Node   string
}

// Result is what all plugins say.
type Result struct {
	Violations []policy.Violation
	Notes      []string
}

// Set is all plugins of a node.
type Set struct{ plugins []*plugin }

type plugin struct {
	*Config
	asker
}

// asker is a way to ask.
type asker interface {
	// review asks. An error is a failure of the plugin.
	review(ctx context.Context, r *Request) (*Response, error)
	// check tells whether the plugin would answer.
	check(ctx context.Context) error
	close()
}

// Load reads the plugins of a directory.
func Load(sources *policy.Sources) (*Set, error) {
	configs, err := parse(sources)
	if err != nil {
		return nil, err
	}
	s := &Set{}
	for _, c := range configs {
		var a asker
		switch c.Type {
		case Exec:
			a = &execAsker{c}
		case Webhook:
			a, err = newWebhook(c)
		case GRPC:
			a, err = newGRPC(c)
		}
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("%s: plugin %q: %w", c.File, c.Name, err)
		}
		s.plugins = append(s.plugins, &plugin{c, a})
	}
	return s, nil
}

// Close ends connections.
func (s *Set) Close() {
	for _, p := range s.plugins {
		p.close()
	}
}

// Names lists the plugins in the order in which they are asked.
func (s *Set) Names() []string {
	var out []string
	for _, p := range s.plugins {
		out = append(out, p.Name)
	}
	return out
}

// Check asks each plugin whether it would answer.
func (s *Set) Check(ctx context.Context) error {
	var errs []error
	for _, p := range s.plugins {
		ctx, cancel := context.WithTimeout(ctx, p.Timeout)
		if err := p.check(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: plugin %q: %w", p.File, p.Name, err))
		}
		cancel()
	}
	return errors.Join(errs...)
}

// Review asks the plugins that want to be asked, until one denies.
func (s *Set) Review(ctx context.Context, q *Question) *Result {
	out := &Result{}
	var r *Request
	for _, p := range s.plugins {
		if !p.wants(q) {
			continue
		}
		if r == nil {
			var err error
			if r, err = newRequest(q); err != nil {
				out.failed(p, err)
				continue
			}
		}
		if p.ask(ctx, r, out) && p.Mode == policy.Enforce {
			break
		}
	}
	return out
}

// ask reports whether a plugin denies.
func (p *plugin) ask(ctx context.Context, r *Request, out *Result) bool {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	deadline, _ := ctx.Deadline()
	mine := *r
	mine.UID, mine.Deadline = newUID(), deadline.UTC().Format(time.RFC3339Nano)
	a, err := p.safeReview(ctx, &mine)
	if err == nil && a.UID != mine.UID {
		err = errors.New("its answer is to another question")
	}
	if err != nil {
		if ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("gave no answer within %s", p.Timeout)
		}
		return out.failed(p, err)
	}
	for _, w := range limited(a.Warnings) {
		out.Notes = append(out.Notes, fmt.Sprintf("plugin %s warns: %s", p.Name, text(w)))
	}
	var keys []string
	for k := range a.AuditAnnotations {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	for _, k := range limited(keys) {
		out.Notes = append(out.Notes, fmt.Sprintf("audit annotation %s/%s: %s", p.Name, spec.Quote(k), text(a.AuditAnnotations[k])))
	}
	if *a.Allowed {
		return false
	}
	message := "denies it"
	if a.Message != "" {
		message = text(a.Message)
	}
	out.add(p, message)
	return true
}

// safeReview makes an error of a panic.
func (p *plugin) safeReview(ctx context.Context, r *Request) (a *Response, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("internal error: %v", v)
		}
	}()
	a, err = p.review(ctx, r)
	if err == nil && a.Allowed == nil {
		err = errors.New("its answer doesn't say whether it allows")
	}
	return a, err
}

func (o *Result) add(p *plugin, message string) {
	o.Violations = append(o.Violations, policy.Violation{
		Policy: p.Name, Control: Control, Field: "plugins.d", Mode: p.Mode, Message: fmt.Sprintf("%s: %s", p.Name, message),
	})
}

// failed is a plugin that can't be asked. It reports whether that denies.
func (o *Result) failed(p *plugin, err error) bool {
	message := "can't be asked: " + oneLine(err.Error())
	if p.FailOpen {
		o.Notes = append(o.Notes, fmt.Sprintf("plugin %s failed and is failureMode Open: %s", p.Name, message))
		return false
	}
	o.add(p, message)
	return true
}

// What is kept of what a plugin says.
const (
	maxText  = 300
	maxNotes = 16
)

func limited(list []string) []string { return list[:min(len(list), maxNotes)] }

// text is a plugin's, which may hold what a pod's author wrote: quoted and cut.
func text(s string) string {
	if len(s) > maxText {
		s = s[:maxText] + "..."
	}
	return strconv.Quote(s)
}

func oneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxText {
		s = s[:maxText] + "..."
	}
	return s
}

func newUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// APIVersion is the protocol's.
const APIVersion = "plugin.nodeadmit.dev/v1"

// Request is what a plugin is asked.
type Request struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// UID is this question's. The answer must have it.
	UID string `json:"uid"`
	// Moment is sandbox, container, lateCheck or unmanaged.
	Moment string `json:"moment"`
	// Deadline is when an answer is of no use any more.
	Deadline string `json:"deadline"`
	Node     string `json:"node"`
	Engine   string `json:"engine"`
	// RuntimeHandler is the name that the wrapper was called under.
	RuntimeHandler string `json:"runtimeHandler,omitempty"`
	// Container is the container's name in its pod, if known.
	Container    string `json:"container,omitempty"`
	BundleDigest string `json:"bundleDigest"`
	// Review is an AdmissionReview (admission.k8s.io/v1) of the pod as far as the
	// bundle shows it. It is null for a container that no CRI made.
	Review *admissionv1.AdmissionReview `json:"review"`
	// Unknown are the JSON paths of the pod's fields that the bundle doesn't show:
	// that they are missing in the object says nothing.
	Unknown []string `json:"unknown"`
	// Spec is config.json.
	Spec json.RawMessage `json:"spec"`
}

// Response is a plugin's answer.
type Response struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	UID        string `json:"uid"`
	// Allowed must be there.
	Allowed          *bool             `json:"allowed"`
	Message          string            `json:"message,omitempty"`
	Warnings         []string          `json:"warnings,omitempty"`
	AuditAnnotations map[string]string `json:"auditAnnotations,omitempty"`
}

// newRequest makes the question, but for the UID and the deadline.
func newRequest(q *Question) (*Request, error) {
	in := q.Intent
	r := &Request{
		APIVersion: APIVersion, Kind: "ReviewRequest", Moment: q.Moment, Node: q.Node, Engine: string(in.Engine.Dialect),
		RuntimeHandler: in.RuntimeHandler.Value, Container: in.Pod.Container.Value, BundleDigest: q.Digest, Spec: q.Spec, Unknown: []string{},
	}
	if in.Kind == spec.KindUnmanaged {
		return r, nil
	}
	p, unknown := pod.Rebuild(in)
	object, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	r.Unknown = unknown
	no := false
	gvk := metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}
	gvr := metav1.GroupVersionResource{Version: "v1", Resource: "pods"}
	r.Review = &admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			Kind: gvk, Resource: gvr, RequestKind: &gvk, RequestResource: &gvr, Name: p.Name, Namespace: p.Namespace,
			Operation: admissionv1.Create, DryRun: &no, Object: runtime.RawExtension{Raw: object},
			UserInfo: authenticationv1.UserInfo{Username: "nodeadmit:" + q.Node, Extra: map[string]authenticationv1.ExtraValue{
				"nodeadmit.dev/moment": {q.Moment}, "nodeadmit.dev/container": {in.Pod.Container.Value}, "nodeadmit.dev/unknown": unknown,
			}},
		},
	}
	return r, nil
}

// withUID is the review with the question's UID in it.
func (r *Request) withUID() *Request {
	if r.Review == nil {
		return r
	}
	out, review, request := *r, *r.Review, *r.Review.Request
	request.UID = types.UID(r.UID)
	review.Request, out.Review = &request, &review
	return &out
}

// SocketsOnly reports whether all plugins are asked over unix sockets: no program
// is run and nothing is sent over a network.
func (s *Set) SocketsOnly() bool {
	return !slices.ContainsFunc(s.plugins, func(p *plugin) bool { return p.Socket == "" })
}
