package policy

import (
	_ "crypto/sha512" // else the library knows no such digests
	"strings"
	"testing"

	"github.com/distribution/reference"
	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

const (
	digestA = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	digestB = "sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

func TestImages(t *testing.T) {
	t.Parallel()
	image := func(name string) func(*specs.Spec) { return annotate("io.kubernetes.cri.image-name", name) }
	crio := func(name, digests string) func(*specs.Spec) {
		return both(annotate("io.kubernetes.cri-o.Image", name), annotate("io.kubernetes.cri-o.ImageRepoDigests", digests))
	}
	old := func(s *specs.Spec) { s.Version = "1.1.0" }
	unnamed := func(s *specs.Spec) { delete(s.Annotations, "io.kubernetes.cri.image-name") }
	from := func(registries, name string, want Result) ruleTest {
		c := ruleTest{settings: "{registries: [" + registries + "]}", change: image(name), want: want}
		if want == Violated {
			c.says = "image " + spec.Quote(name) + " is from "
		}
		return c
	}
	const denied = "{deniedDigests: [\"" + digestA + "\"]}"
	runRuleTests(t, "images", map[string]ruleTest{
		"no preset asks":                                       {level: Restricted, change: image("evil.example/x"), want: Satisfied},
		"no settings ask nothing":                              {settings: "{}", change: unnamed, want: Satisfied},
		"an image of a listed registry is satisfied":           from("reg.corp", "reg.corp/team/app:1", Satisfied),
		"an image of another is refused":                       from("reg.corp", "evil.example/team/app:1", Violated),
		"a registry ends where its name does":                  from("reg.corp", "reg.corp.evil.example/app", Violated),
		"a registry with a port is another":                    from("reg.corp", "reg.corp:5000/app", Violated),
		"a registry with a port can be listed":                 from(`"reg.corp:5000"`, "reg.corp:5000/app", Satisfied),
		"a path matches whole parts":                           from("reg.corp/team", "reg.corp/team-b/app", Violated),
		"a path matches what is below":                         from("reg.corp/team", "reg.corp/team/a/b/c", Satisfied),
		"a path may be the whole name":                         from("reg.corp/team/app", "reg.corp/team/app:2", Satisfied),
		"a path is no other's":                                 from("reg.corp/team", "reg.corp/other/app", Violated),
		"a name without a registry is docker.io's":             from("docker.io", "nginx", Satisfied),
		"a name of one part is docker.io/library's":            from("docker.io/library", "nginx:1.27", Satisfied),
		"docker.io/nginx is docker.io/library/nginx":           from("docker.io/library", "docker.io/nginx", Satisfied),
		"index.docker.io is docker.io":                         from("docker.io/library", "index.docker.io/library/nginx", Satisfied),
		"index.docker.io in a policy is docker.io":             from("index.docker.io", "nginx", Satisfied),
		"a user on docker.io isn't library":                    from("docker.io/library", "evil/nginx", Violated),
		"docker.io.evil.example is not docker.io":              from("docker.io", "docker.io.evil.example/x", Violated),
		"localhost is a registry":                              from("localhost", "localhost/app:1", Satisfied),
		"the case of a host's letters doesn't matter":          from("Reg.Corp", "REG.corp/app", Satisfied),
		"an empty list has no registry":                        from("", "nginx", Violated),
		"a registry can be denied":                             {settings: "{deniedRegistries: [docker.io]}", change: image("nginx"), want: Violated, says: "image nginx is from docker.io"},
		"library/nginx is denied with it":                      {settings: "{deniedRegistries: [docker.io]}", change: image("library/nginx"), want: Violated, says: "is from docker.io"},
		"another is not denied":                                {settings: "{deniedRegistries: [docker.io]}", change: image("docker.io.evil.com/x"), want: Satisfied},
		"denied wins over listed":                              {settings: "{registries: [reg.corp], deniedRegistries: [reg.corp/old]}", change: image("reg.corp/old/x"), want: Violated, says: "is from reg.corp"},
		"a digest can be required":                             {settings: "{requireDigest: true}", change: image("reg.corp/x:1"), want: Violated, says: "is not named by digest"},
		"a tag beside a digest says nothing":                   {settings: "{requireDigest: true}", change: image("reg.corp/x:1@" + digestA), want: Satisfied},
		"a digest alone is enough":                             {settings: "{requireDigest: true}", change: image("x@" + digestA), want: Satisfied},
		"a tag that looks like a digest is a tag":              {settings: "{requireDigest: true}", change: image("reg.corp/x:sha256"), want: Violated, says: "is not named by digest"},
		"half a digest is no name":                             {settings: "{requireDigest: true}", change: image("reg.corp/x@sha256:abc"), want: Undetermined, says: "is no name that has a registry"},
		"a denied digest is refused":                           {settings: denied, change: image("x@" + digestA), want: Violated, says: "has digest " + digestA},
		"another digest is satisfied":                          {settings: denied, change: image("x@" + digestB), want: Satisfied},
		"on containerd a tag's digest can't be told":           {settings: denied, change: image("x:1"), want: Undetermined, says: "the digest of image x:1 can't be told"},
		"CRI-O knows the digest of a tag":                      {settings: denied, engine: spec.CRIO, change: crio("reg.corp/x:1", "reg.corp/x@"+digestA), want: Violated, says: "has digest " + digestA},
		"CRI-O knows that it is another":                       {settings: denied, engine: spec.CRIO, change: crio("reg.corp/x:1", "reg.corp/x@"+digestB), want: Satisfied},
		"every digest that CRI-O knows counts":                 {settings: denied, engine: spec.CRIO, change: crio("reg.corp/x@"+digestB, "reg.corp/x@"+digestB+",y/x@"+digestA), want: Violated, says: digestA},
		"on CRI-O a short name is anybody's":                   {settings: "{registries: [docker.io]}", engine: spec.CRIO, change: crio("nginx", ""), want: Undetermined, says: "CRI-O's configuration names it"},
		"on CRI-O a full name is what it says":                 {settings: "{registries: [docker.io]}", engine: spec.CRIO, change: crio("docker.io/nginx", ""), want: Satisfied},
		"on CRI-O a short name may still have its digest":      {settings: "{requireDigest: true}", engine: spec.CRIO, change: crio("nginx@"+digestA, ""), want: Satisfied},
		"before containerd 2.0 the name may be another":        {settings: "{registries: [reg.corp]}", change: both(old, image("reg.corp/x")), want: Undetermined, says: "maybe not the pod's"},
		"an image named by its id has no registry":             {settings: "{registries: [docker.io]}", change: image(digestA), want: Undetermined, says: "is no name that has a registry"},
		"an id without its algorithm has none":                 {settings: "{registries: [docker.io]}", change: image(digestA[7:]), want: Undetermined, says: "is no name that has a registry"},
		"a container without a name can't be told":             {settings: "{registries: [docker.io]}", change: unnamed, want: Undetermined, says: "the image's name can't be told"},
		"the pause image is nobody's choice":                   {settings: "{registries: [reg.corp]}", kind: spec.KindSandbox, change: annotate("io.kubernetes.cri.podsandbox.image-name", "registry.k8s.io/pause:3.10"), want: Undetermined, says: "when the pod's containers"},
		"outside Kubernetes nobody says what the image is":     {settings: "{registries: [reg.corp]}", engine: spec.Podman, kind: spec.KindUnmanaged, want: Undetermined, says: "the image's name can't be told"},
		"a name that could pass for a message's end is quoted": {settings: "{registries: [reg.corp]}", change: image("x y"), want: Undetermined, says: `image "x y" is no name`},
	})
}

// sameAsUpstream compares our reading of a reference with that of the package
// that engines use.
func sameAsUpstream(t *testing.T, s string) {
	t.Helper()
	got, ok := parseImage(s)
	want, err := reference.ParseNormalizedNamed(s)
	if validDigest(s) {
		if ok {
			t.Errorf("%q: an image's id is taken as a name", s)
		}
		return
	}
	if ok != (err == nil) {
		t.Errorf("%q: ours reads it: %v; theirs: %v", s, ok, err)
		return
	}
	if !ok {
		return
	}
	wantDigest := ""
	if d, ok := want.(reference.Digested); ok {
		wantDigest = d.Digest().String()
	}
	if got.registry != strings.ToLower(reference.Domain(want)) || got.repository != reference.Path(want) || got.digest != wantDigest {
		t.Errorf("%q: got %+v, want %s, %s, %s", s, got, reference.Domain(want), reference.Path(want), wantDigest)
	}
}

var references = []string{
	"nginx", "nginx:1", "library/nginx", "docker.io/nginx", "docker.io/library/nginx", "index.docker.io/nginx", "index.docker.io/a/b/c",
	"localhost/x", "localhost:5000/x", "localhost", "reg.corp/x", "reg.corp:5000/x:1", "reg.corp:5000", "REG.corp/x", "Nginx", "library/Nginx",
	"Registry/x", "Registry/x/y", "x@" + digestA, "x:1@" + digestA, "x@sha256:abc", "x@" + digestA + "@" + digestA, "x@", "@" + digestA, ":1", "", "/x", "x/", "a//b",
	"a.b/c", "a_b/c", "a__b", "a___b", "a-b", "a--b", "a-_b", "a..b", ".a", "a.", "-a", "a-", "[::1]:5000/x", "[::1]/x", "[::1/x", "[]/x", "1.2.3.4/x", "x:_1", "x:-1", "x:.1", "x:1.2-3_4",
	"x:" + strings.Repeat("a", 128), "x:" + strings.Repeat("a", 129), strings.Repeat("a", 255), strings.Repeat("a", 256), "docker.io/" + strings.Repeat("a", 247), "docker.io/" + strings.Repeat("a", 248),
	"reg.corp:/x", "reg.corp:a/x", "reg..corp/x", "-reg.corp/x", "reg-.corp/x", "reg.corp./x", ".reg.corp/x", "rég.corp/x", "x y", "x\ny", digestA[7:], digestA, "x/" + digestA[7:], "docker.io/" + digestA[7:],
	"x@sha512:" + strings.Repeat("a", 128), "x@sha384:" + strings.Repeat("a", 96), "x@md5:" + strings.Repeat("a", 32), "x@SHA256:" + digestA[7:], "x@sha256:" + strings.Repeat("A", 64),
	"index.docker.io/library/x", "Index.docker.io/x", "Docker.io/x", "docker.io", "docker.io/", "http://reg.corp/x", "a:b:c", "a/b:c/d", "a:1/b:2",
}

func TestAReferenceIsReadAsEnginesReadIt(t *testing.T) {
	t.Parallel()
	for _, s := range references {
		sameAsUpstream(t, s)
	}
}

func FuzzParseImage(f *testing.F) {
	for _, s := range references {
		f.Add(s)
	}
	f.Fuzz(sameAsUpstream)
}
