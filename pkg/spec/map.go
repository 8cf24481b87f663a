package spec

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	specs "github.com/opencontainers/runtime-spec/specs-go"
)

// Options says what [Map] may use beside the document.
type Options struct {
	Engine Engine
	// ID is the container's id as the runtime was told, or "".
	ID string
	// RuntimeHandler is the name that the wrapper was called under, or "".
	RuntimeHandler string
	// Host is the machine, or nil for a look at the document alone.
	Host Host
	// PID is the container's first process, seen in a prestart or
	// createRuntime hook. 0 before it exists.
	PID int
}

// Map works out what the document asks of the node.
//
// It fails if the document can't be attributed: some but not all of the
// engine's identity keys, a container type that the engine doesn't have, or
// two namespaces of one type, of which each runtime might take another.
func Map(doc *Document, o Options) (*Intent, error) {
	s := doc.Spec
	in := &Intent{Engine: o.Engine, Bundle: doc.Dir}
	if err := identify(in, s); err != nil {
		return nil, err
	}
	if o.RuntimeHandler != "" {
		in.RuntimeHandler = known(o.RuntimeHandler, "configuration")
	}
	mapStaticPod(in, s.Annotations)
	if err := mapNamespaces(in, s, o); err != nil {
		return nil, err
	}
	m := newMountMapper(in, doc, o)
	if err := m.mapMounts(s); err != nil {
		return nil, err
	}
	mapProcess(in, s)
	mapLinux(in, s)
	mapPrivileged(in, s)
	mapAnnotations(in, s.Annotations)
	mapAppArmorHost(in, o.Host)
	for _, k := range doc.UnknownKeys {
		if readByControls(k) {
			in.UnknownKeys = append(in.UnknownKeys, k)
		}
	}
	return in, nil
}

// readByControls reports whether an unknown key lies in a part of the
// document that controls read. Elsewhere a newer runtime-spec may add keys.
func readByControls(path string) bool {
	top, _, nested := strings.Cut(path, ".")
	top, _, _ = strings.Cut(top, "[")
	switch top {
	case "process", "linux", "mounts", "hooks", "root":
		return nested || strings.Contains(path, "[")
	}
	return false
}

func identify(in *Intent, s *specs.Spec) error {
	switch in.Engine.Dialect {
	case Containerd:
		return identifyContainerd(in, s.Annotations, s.Version)
	case CRIO:
		return identifyCRIO(in, s.Annotations)
	default:
		// podman, docker and everything else write no identity that a pod's
		// author could not have written.
		in.Kind = KindUnmanaged
		ignoreKeys(in, s.Annotations, containerdPrefix, crioPrefix)
		return nil
	}
}

// ignoreKeys lists the annotations under another engine's prefixes.
func ignoreKeys(in *Intent, annotations map[string]string, prefixes ...string) {
	for k := range annotations {
		for _, p := range prefixes {
			if strings.HasPrefix(k, p) {
				in.Ignored = append(in.Ignored, k)
			}
		}
	}
	slices.Sort(in.Ignored)
}

// configSource is set by the kubelet on every pod, over what the pod says
// (kubelet pkg/kubelet/config, kubetypes.ConfigSourceAnnotationKey): "api" for
// the API server's, else "file" or "http".
const configSource = "kubernetes.io/config.source"

// mapStaticPod reads the kubelet's mark. containerd hands it on where the
// handler's pod_annotations let it through; CRI-O always does, but on a sandbox
// a pod's label of the same name would be written over it.
func mapStaticPod(in *Intent, a map[string]string) {
	in.StaticPod = unknown[bool](configSource)
	source, ok := a[configSource]
	if !ok || in.Kind == KindUnmanaged {
		return
	}
	in.StaticPod = known(source == "file" || source == "http", configSource)
	in.StaticPod.Forgeable = in.Kind == KindSandbox && in.Engine.Dialect == CRIO
}

// identityKeys reads keys that the engine writes all together or not at all.
func identityKeys(annotations map[string]string, keys ...string) (present bool, err error) {
	var have, miss []string
	for _, k := range keys {
		if _, ok := annotations[k]; ok {
			have = append(have, k)
		} else {
			miss = append(miss, k)
		}
	}
	if len(have) > 0 && len(miss) > 0 {
		return false, fmt.Errorf("annotations: %s without %s: the engine writes all of them or none", have[0], strings.Join(miss, ", "))
	}
	return len(have) > 0, nil
}

var errTwoNamespaces = errors.New("two entries of one type: a runtime may take either")

func fieldOf(format string, i int, rest string) string {
	return fmt.Sprintf("%s[%d]%s", format, i, rest)
}

// absolute makes a path of the document absolute against the bundle, as
// runtimes do (runc specconv.createLibcontainerMount), and cleans it.
func absolute(dir, path string) string {
	if path == "" {
		return ""
	}
	if !filepath.IsAbs(path) && dir != "" {
		path = filepath.Join(dir, path)
	}
	return filepath.Clean(path)
}

// below reports whether path is dir or lies below it, on path boundaries.
func below(path, dir string) bool {
	if dir == "/" {
		return strings.HasPrefix(path, "/")
	}
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// rest returns what follows dir in path, without a leading slash.
func rest(path, dir string) (string, bool) {
	if !below(path, dir) || path == dir {
		return "", false
	}
	return strings.TrimPrefix(strings.TrimPrefix(path, dir), "/"), true
}

func linux(s *specs.Spec) *specs.Linux {
	if s.Linux == nil {
		return &specs.Linux{}
	}
	return s.Linux
}
