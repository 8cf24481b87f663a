package policy

import (
	"strings"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// images
//
// Images must come from listed registries, be named by digest, and be none that
// is denied.
//
// Reads: the engine's annotation of the image's name; on CRI-O also the digests
// that it knows the image by.
// Known: at the container. On containerd before 2.0 the annotation is some name
// of the image, so that the control is undetermined. So it is for an image named
// by its id, and on CRI-O for a name without a registry, which CRI-O's
// configuration completes.
// Settings: registries and deniedRegistries (a registry, or one and the start of
// a repository's name, on whole parts: docker.io/library), requireDigest (true or
// false), deniedDigests ("sha256:..."). A name without a registry is docker.io's,
// one of a single part docker.io/library's, and index.docker.io is docker.io. A
// tag beside a digest says nothing.
// Can't see: on containerd the digest of an image that is named by tag:
// deniedDigests is undetermined for it. The digests of an index's parts.
// Upstream: none; no preset has it.
var imagesControl = Control{
	Name:   "images",
	preset: never,
	parse: func(d *decoder, settings *strictyaml.Object, _ rule) rule {
		var r images
		for _, f := range settings.Fields {
			switch f.Name {
			case "registries":
				r.registries = d.registries(f)
			case "deniedRegistries":
				r.deniedRegistries = d.registries(f)
			case "requireDigest":
				r.requireDigest = d.Bool(f)
			case "deniedDigests":
				for _, item := range d.List(f) {
					s := d.Str(item)
					if item.Node.Tag == "!!str" && !validDigest(s) {
						d.Errorf(item.Node, "digest %q: want sha256: and 64 hexadecimal digits", s)
					}
					r.deniedDigests = append(r.deniedDigests, s)
				}
			default:
				d.UnknownField(settings, f, "registries", "deniedRegistries", "requireDigest", "deniedDigests")
			}
		}
		return r
	},
}

// registries reads registries' names with or without the start of a
// repository's.
func (d *decoder) registries(f strictyaml.Field) []string {
	out := []string{}
	for _, item := range d.List(f) {
		s := d.Str(item)
		host, path, hasPath := strings.Cut(s, "/")
		ok := isRegistry(host) && validHost(host)
		for part := range strings.SplitSeq(path, "/") {
			ok = ok && (!hasPath || validComponent(part))
		}
		if item.Node.Tag == "!!str" && !ok {
			d.Errorf(item.Node, "registry %q: want a registry's host first, as docker.io/library or localhost:5000, and no tag", s)
		}
		host = strings.ToLower(host)
		if host == "index.docker.io" {
			host = dockerHub
		}
		if hasPath {
			host += "/" + path
		}
		out = append(out, host)
	}
	return out
}

// images has rules, of which nil is none.
type images struct {
	registries, deniedRegistries []string
	requireDigest                bool
	deniedDigests                []string
}

func (r images) evaluate(in *spec.Intent) []finding {
	f := in.Pod.Image
	if r.registries == nil && r.deniedRegistries == nil && !r.requireDigest && len(r.deniedDigests) == 0 {
		return nil
	}
	what := "image " + spec.Quote(f.Value.Name)
	switch {
	case in.Kind == spec.KindSandbox:
		return waits("annotations")
	case f.Certainty == spec.Unknown:
		return []finding{undetermined("annotations", "the image's name can't be told")}
	case f.Certainty == spec.Assumed:
		return []finding{undetermined(f.Source, what+" is one of the image's names, maybe not the pod's")}
	}
	ref, ok := parseImage(f.Value.Name)
	if !ok {
		return []finding{undetermined(f.Source, what+" is no name that has a registry")}
	}
	out := r.registry(in, what, ref)
	if r.requireDigest && ref.digest == "" {
		out = append(out, violated(f.Source, what+" is not named by digest"))
	}
	return append(out, r.digests(in, what, ref)...)
}

func (r images) registry(in *spec.Intent, what string, ref imageRef) []finding {
	source := in.Pod.Image.Source
	if r.registries == nil && r.deniedRegistries == nil {
		return nil
	}
	if ref.short && in.Engine.Dialect == spec.CRIO {
		return []finding{undetermined(source, what+" has no registry: CRI-O's configuration names it")}
	}
	name := ref.registry + "/" + ref.repository
	listed := func(list []string) bool {
		for _, l := range list {
			if prefix(name, l) {
				return true
			}
		}
		return false
	}
	if listed(r.deniedRegistries) || r.registries != nil && !listed(r.registries) {
		return []finding{violated(source, what+" is from "+spec.Quote(ref.registry))}
	}
	return nil
}

func (r images) digests(in *spec.Intent, what string, ref imageRef) []finding {
	if len(r.deniedDigests) == 0 {
		return nil
	}
	f := in.Pod.Image
	digests := []string{ref.digest}
	for _, name := range f.Value.RepoDigests {
		_, digest, _ := strings.Cut(name, "@")
		digests = append(digests, digest)
	}
	seen := false
	for _, digest := range digests {
		seen = seen || digest != ""
		if contains(r.deniedDigests, digest) {
			return []finding{violated(f.Source, what+" has digest "+spec.Quote(digest))}
		}
	}
	if !seen {
		return []finding{undetermined(f.Source, "the digest of "+what+" can't be told")}
	}
	return nil
}
