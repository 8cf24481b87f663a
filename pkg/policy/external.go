package policy

import (
	"fmt"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
)

// External is a document of the policy directory that this package knows by
// name alone: Kubernetes' own policies in CEL, with their bindings, parameters
// and namespaces. `nodeadmit evaluate` reads them (pkg/cel).
type External struct {
	APIVersion string
	Kind       string
	Name       string
	File       string
	Node       *yaml.Node
}

// AdmissionGroup is the API group of Kubernetes' policies, AdmissionVersion what
// is read of it.
const (
	AdmissionGroup   = "admissionregistration.k8s.io"
	AdmissionVersion = AdmissionGroup + "/v1"
)

// The kinds that are read.
const (
	KindPolicy  = "ValidatingAdmissionPolicy"
	KindBinding = "ValidatingAdmissionPolicyBinding"
)

// NeedsEvaluator reports whether the documents decide anything that only `nodeadmit
// evaluate` can.
func (s *Set) NeedsEvaluator() bool {
	for i := range s.External {
		if s.External[i].Kind == KindPolicy || s.External[i].Kind == KindBinding {
			return true
		}
	}
	return false
}

// head is what every Kubernetes object has.
type head struct{ apiVersion, kind, name string }

func headOf(n *yaml.Node) head {
	var h head
	h.apiVersion, h.kind = scalar(n, "apiVersion"), scalar(n, "kind")
	h.name = scalar(n, "metadata", "name")
	return h
}

// scalar is the text at a path of mappings, or "".
func scalar(n *yaml.Node, path ...string) string {
	if n = at(n, path...); n != nil && n.Kind == yaml.ScalarNode {
		return n.Value
	}
	return ""
}

func at(n *yaml.Node, path ...string) *yaml.Node {
	for _, name := range path {
		n = followed(n)
		if n == nil || n.Kind != yaml.MappingNode {
			return nil
		}
		var next *yaml.Node
		for i := 0; i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == name {
				next = n.Content[i+1]
			}
		}
		n = next
	}
	return followed(n)
}

func followed(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// external sorts a document: one that is left to pkg/cel, or an error, or
// neither. A document of a group of its own may be a policy's parameters, which
// is known when all documents are (see parameters).
func external(docs Documents, f strictyaml.Field) (list []External, ok bool, err error) {
	fault := func(n *yaml.Node, format string, args ...any) error {
		return &strictyaml.Error{File: docs.File, Line: n.Line, Column: n.Column, Text: fmt.Sprintf(format, args...)}
	}
	h := headOf(f.Node)
	group, _, _ := strings.Cut(h.apiVersion, "/")
	switch {
	case h.apiVersion == "v1" && h.kind == "List", h.apiVersion == AdmissionVersion && (h.kind == KindPolicy+"List" || h.kind == KindBinding+"List"):
		items := at(f.Node, "items")
		if items == nil || items.Kind != yaml.SequenceNode {
			return nil, true, fault(f.Node, "kind %q has no items", h.kind)
		}
		for _, item := range items.Content {
			inner, _, err := external(docs, strictyaml.Field{Node: followed(item)})
			if err != nil {
				return nil, true, err
			}
			if inner == nil {
				ih := headOf(item)
				return nil, true, fault(item, "an item of a list is of kind %q: want %s or %s", ih.kind, KindPolicy, KindBinding)
			}
			list = append(list, inner...)
		}
		return list, true, nil
	case group == AdmissionGroup:
		switch h.kind {
		case KindPolicy, KindBinding:
			if h.apiVersion != AdmissionVersion {
				return nil, true, fault(f.Node, "%s of %s: want %s", h.kind, h.apiVersion, AdmissionVersion)
			}
		case "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "MutatingWebhookConfiguration":
			return nil, true, fault(f.Node, "kind %q changes what it admits, and nodeadmit changes nothing: want a %s", h.kind, KindPolicy)
		case "ValidatingWebhookConfiguration":
			return nil, true, fault(f.Node, "kind %q is no policy: a webhook is a plugin of plugins.d", h.kind)
		default:
			return nil, true, fault(f.Node, "kind is %q: want %s or %s", h.kind, KindPolicy, KindBinding)
		}
	case h.apiVersion == "v1" && h.kind == "Namespace":
	case group != "" && h.kind != "" && h.apiVersion != APIVersion:
		// May be a parameter.
	default:
		return nil, false, nil
	}
	return []External{{h.apiVersion, h.kind, h.name, docs.File, f.Node}}, true, nil
}

// parameters returns an error for each document that is of no kind that
// decides: neither a policy nor what a policy names as its parameters.
func parameters(list []External) []error {
	kinds := map[[2]string]bool{}
	for _, e := range list {
		if e.Kind == KindPolicy {
			kinds[[2]string{scalar(e.Node, "spec", "paramKind", "apiVersion"), scalar(e.Node, "spec", "paramKind", "kind")}] = true
		}
	}
	var errs []error
	for _, e := range list {
		group, _, _ := strings.Cut(e.APIVersion, "/")
		if group == AdmissionGroup || e.APIVersion == "v1" && e.Kind == "Namespace" || kinds[[2]string{e.APIVersion, e.Kind}] {
			continue
		}
		errs = append(errs, &strictyaml.Error{File: e.File, Line: e.Node.Line, Column: e.Node.Column, Text: fmt.Sprintf(
			"kind is %q of %q: want %s of %s, %s or %s, or what a policy's paramKind names",
			e.Kind, e.APIVersion, Kind, APIVersion, KindPolicy, KindBinding)})
	}
	return errs
}

// duplicates returns an error for each object that two documents define.
func duplicates(list []External) []error {
	seen := map[[4]string]string{}
	var errs []error
	for _, e := range list {
		key := [4]string{e.APIVersion, e.Kind, scalar(e.Node, "metadata", "namespace"), e.Name}
		if file, ok := seen[key]; ok {
			errs = append(errs, &strictyaml.Error{File: e.File, Line: e.Node.Line, Column: e.Node.Column, Text: fmt.Sprintf("%s %q is already defined in %s", e.Kind, e.Name, file)})
		}
		seen[key] = e.File
	}
	return errs
}
