package policy

import "strings"

// imageRef is an image's reference, taken apart as
// github.com/distribution/reference does. That package compiles regular
// expressions at every start of a process and is used in tests alone.
type imageRef struct {
	// registry is a host in lower case, repository the rest of the name.
	registry, repository string
	// short is true if the text names no registry: docker.io is implied.
	short  bool
	digest string
}

// parseImage takes a reference apart. It fails for what is none, and for an
// image's id, which names no registry.
func parseImage(s string) (imageRef, bool) {
	var r imageRef
	name, digest, hasDigest := strings.Cut(s, "@")
	if hasDigest && !validDigest(digest) {
		return imageRef{}, false
	}
	r.digest = digest
	if i := strings.LastIndexByte(name, ':'); i >= 0 && !strings.Contains(name[i:], "/") {
		tag := name[i+1:]
		if !validTag(tag) {
			return imageRef{}, false
		}
		if !hasDigest && validDigest(name) {
			return imageRef{}, false
		}
		name = name[:i]
	}
	if len(name) == 64 && hexadecimal(name) {
		return imageRef{}, false
	}
	r.registry, r.repository, r.short = splitRegistry(name)
	for part := range strings.SplitSeq(r.repository, "/") {
		if !validComponent(part) {
			return imageRef{}, false
		}
	}
	if !r.short && !validHost(r.registry) || len(r.repository) > 255 {
		return imageRef{}, false
	}
	r.registry = strings.ToLower(r.registry)
	return r, true
}

const dockerHub = "docker.io"

// splitRegistry tells a registry's host from the first part of a repository: it
// has a dot, a colon or a capital letter, or is localhost.
func splitRegistry(name string) (registry, repository string, short bool) {
	first, rest, ok := strings.Cut(name, "/")
	if !ok || !isRegistry(first) {
		registry, repository, short = dockerHub, name, true
	} else {
		registry, repository = first, rest
	}
	if registry == "index.docker.io" {
		registry = dockerHub
	}
	if registry == dockerHub && !strings.Contains(repository, "/") {
		repository = "library/" + repository
	}
	return registry, repository, short
}

func isRegistry(s string) bool {
	return s == "localhost" || strings.ContainsAny(s, ".:") || strings.ToLower(s) != s
}

// validHost accepts a DNS name or an address, and a port.
func validHost(s string) bool {
	if rest, ok := strings.CutPrefix(s, "["); ok {
		address, port, ok := strings.Cut(rest, "]")
		return ok && address != "" && strings.Trim(address, "0123456789abcdefABCDEF:") == "" && (port == "" || port[0] == ':' && digits(port[1:]))
	}
	host, port, hasPort := strings.Cut(s, ":")
	if hasPort && !digits(port) {
		return false
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := 0; i < len(label); i++ {
			if c := label[i]; (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' {
				return false
			}
		}
	}
	return true
}

// validComponent accepts lower-case letters and digits, with one dot, one or
// two underscores or any number of dashes between them.
func validComponent(s string) bool {
	separator := ""
	alnum := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
	if s == "" || !alnum(s[0]) || !alnum(s[len(s)-1]) {
		return false
	}
	for i := 0; i < len(s); i++ {
		if !alnum(s[i]) {
			separator += s[i : i+1]
			continue
		}
		switch {
		case separator == "", separator == ".", separator == "_", separator == "__", strings.Trim(separator, "-") == "":
		default:
			return false
		}
		separator = ""
	}
	return true
}

func validTag(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && (i == 0 || c != '.' && c != '-') {
			return false
		}
	}
	return s != "" && len(s) <= 128
}

func validDigest(s string) bool {
	algorithm, sum, _ := strings.Cut(s, ":")
	size := map[string]int{"sha256": 64, "sha384": 96, "sha512": 128}[algorithm]
	return size > 0 && len(sum) == size && hexadecimal(sum)
}

func hexadecimal(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }
