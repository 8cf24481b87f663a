package install

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// containerd's CRI configuration is in a plugin's table, whose name depends on
// the configuration's version: "cri" in version 1, and from 3 on it is two
// plugins. Files named by imports come after the file that names them. Before
// containerd 2.1 a later file's plugin table replaces an earlier one whole
// (containerd issue 5837), so a drop-in would take everything else away: there
// the file that counts is edited. From 2.1 on tables merge key by key, and from
// 2.2 on /etc/containerd/conf.d is read unasked. What a containerd really makes
// of its files is asked of itself, by `containerd config dump`.

const (
	containerdConfig = "/etc/containerd/config.toml"
	dropInName       = "zz-nodeadmit.toml"
	// Runtime types whose options have a BinaryName.
	shimRuncV1, shimRuncV2 = "io.containerd.runc.v1", "io.containerd.runc.v2"
)

// criTable is the path of the CRI runtime's table.
func criTable(version int) []string {
	switch {
	case version <= 1:
		return []string{"plugins", "cri"}
	case version == 2:
		return []string{"plugins", "io.containerd.grpc.v1.cri"}
	}
	return []string{"plugins", "io.containerd.cri.v1.runtime"}
}

// cri returns the CRI runtime's table of a document and its path.
func cri(tree map[string]any) (table map[string]any, path []string) {
	path = criTable(configVersion(tree))
	return lookupTable(tree, path...), path
}

func configVersion(tree map[string]any) int {
	v, ok := tree["version"].(int64)
	if !ok {
		return 1
	}
	return int(v)
}

// rancherEngine is the containerd that k3s or RKE2 brings.
type rancherEngine struct{ name, config, binary string }

func (p *Plan) rancher() *rancherEngine {
	for _, name := range []string{"k3s", "rke2"} {
		dir := "/var/lib/rancher/" + name
		r := rancherEngine{name, dir + "/agent/etc/containerd/config.toml", ""}
		if p.Options.exists(r.config) {
			r.binary = p.Options.program(dir+"/data/current/bin/containerd", dir+"/bin/containerd")
			return &r
		}
	}
	return nil
}

func (p *Plan) criDisabled() bool {
	text, err := p.Options.readFile(containerdConfig)
	if err != nil {
		return false
	}
	tree, err := tomlTree(containerdConfig, text)
	return err == nil && disablesCRI(tree)
}

func disablesCRI(tree map[string]any) bool {
	list, _ := tree["disabled_plugins"].([]any)
	return slices.ContainsFunc(list, func(v any) bool {
		return v == "cri" || v == "io.containerd.grpc.v1.cri" || v == "io.containerd.cri.v1.runtime"
	})
}

func (p *Plan) containerd() error {
	o := &p.Options
	e := Engine{Dialect: spec.Containerd, Config: containerdConfig, Unit: "containerd"}
	binary := o.program("containerd")
	if r := p.rancher(); r != nil && o.EngineConfig == "" {
		e.Config, binary, e.Unit = r.config, r.binary, r.name
		if r.name == "rke2" {
			e.Unit = "rke2-agent"
		}
	}
	if o.EngineConfig != "" {
		e.Config = o.EngineConfig
	}
	if o.EngineBinary != "" {
		binary = o.EngineBinary
	}
	e.Version = o.containerdVersion(binary)
	if o.Root == "" {
		e.binary = binary
	}
	files, err := p.containerdFiles(e.Config)
	if err != nil {
		return err
	}
	effective, err := e.dump()
	if err != nil {
		return err
	}
	if effective == nil {
		if effective, err = mergeFiles(files, mergesByKey(e.Version)); err != nil {
			return err
		}
	}
	e.effective = effective
	if disablesCRI(effective) {
		return fmt.Errorf("%s disables CRI: this containerd serves no pods", e.Config)
	}
	table, _ := cri(effective)
	runtimes := lookupTable(table, "containerd", "runtimes")
	if len(runtimes) == 0 {
		runtimes = map[string]any{"runc": map[string]any{"runtime_type": shimRuncV2}}
	}
	settings := p.containerdSettings(effective)
	wrap := map[string]string{}
	for _, handler := range slices.Sorted(maps.Keys(runtimes)) {
		rt, _ := runtimes[handler].(map[string]any)
		kind := lookupString(rt, "runtime_type")
		if kind != shimRuncV2 && kind != shimRuncV1 {
			p.uncovered(spec.Containerd, handler, "its shim %s doesn't call an OCI runtime that could be wrapped", kind)
			continue
		}
		real := lookupString(rt, "options", "BinaryName")
		if real == "" {
			real = "runc"
		}
		if strings.HasPrefix(filepath.Base(real), "nvidia-container-runtime") {
			if err := p.nvidia(spec.Containerd, handler, real, settings); err != nil {
				return err
			}
			continue
		}
		if path := p.handle(spec.Containerd, handler, real, settings); path != "" && path != lookupString(rt, "options", "BinaryName") {
			wrap[handler] = path
		} else if path != "" {
			wrap[handler] = ""
		}
		p.riskyAnnotations(spec.Containerd, handler, rt)
	}
	for _, old := range []string{"default_runtime", "untrusted_workload_runtime"} {
		if lookupString(table, "containerd", old, "runtime_type") != "" {
			p.uncovered(spec.Containerd, old, "this old form can't be wrapped: make it an entry of runtimes")
		}
	}
	if len(wrap) == 0 && len(p.Handlers) == 0 {
		return fmt.Errorf("%s: no handler can be wrapped", e.Config)
	}
	if err := p.containerdWrite(&e, files, wrap, runtimes); err != nil {
		return err
	}
	p.Engines = append(p.Engines, e)
	return nil
}

// containerdSettings are what nodeadmit must know of this containerd.
func (p *Plan) containerdSettings(tree map[string]any) []string {
	root, state := lookupString(tree, "root"), lookupString(tree, "state")
	var out []string
	if root != "" && state != "" && (root != "/var/lib/containerd" || state != "/run/containerd") {
		out = append(out, fmt.Sprintf("engineRoots: [%s, %s]", yamlString(root), yamlString(state)))
	}
	return append(out, p.kubeletRoots()...)
}

func (p *Plan) kubeletRoots() []string {
	if len(p.Options.KubeletRoots) == 0 {
		return nil
	}
	roots := make([]string, len(p.Options.KubeletRoots))
	for i, r := range p.Options.KubeletRoots {
		roots[i] = yamlString(r)
	}
	return []string{"kubeletRoots: [" + strings.Join(roots, ", ") + "]"}
}

// riskyAnnotations warns of annotations of pods that reach the runtime.
func (p *Plan) riskyAnnotations(e spec.Dialect, handler string, rt map[string]any) {
	for _, key := range []string{"pod_annotations", "container_annotations", "allowed_annotations"} {
		list, _ := rt[key].([]any)
		for _, v := range list {
			if pattern, _ := v.(string); RiskyAnnotation(pattern) {
				p.warn("%s: handler %q: %s has %q: pod authors can give the runtime commands by it", e, handler, key, pattern)
			}
		}
	}
}

// RiskyAnnotation tells whether a pattern lets a pod author's annotation reach
// what a runtime obeys.
func RiskyAnnotation(pattern string) bool {
	switch pattern {
	case "*", "*/*", "**", "io.kubernetes.cri-o.Devices":
		return true
	}
	for _, prefix := range []string{"run.oci.", "org.criu.", "org.systemd.property.", "io.kubernetes.cri.", "module.wasm.", "krun."} {
		if strings.HasPrefix(pattern, prefix) {
			return true
		}
	}
	return false
}

// containerdWrite plans the change of the file that counts.
func (p *Plan) containerdWrite(e *Engine, files []tomlFile, wrap map[string]string, runtimes map[string]any) error {
	handlers := slices.Sorted(maps.Keys(wrap))
	if dir := p.dropInDir(e); dir != "" {
		path := dir + "/" + dropInName
		var b bytes.Buffer
		b.WriteString("# Written by nodeadmit install, removed by nodeadmit uninstall: these handlers call\n# nodeadmit's wrapper, which calls the runtime that was here before.\n")
		fmt.Fprintf(&b, "version = %d\n", max(3, configVersion(files[0].tree)))
		for _, h := range handlers {
			table := append(criTable(3), "containerd", "runtimes", h)
			rt, _ := runtimes[h].(map[string]any)
			fmt.Fprintf(&b, "\n[%s]\n  runtime_type = %s\n[%s]\n  BinaryName = %s\n", tomlPath(table), tomlString(lookupString(rt, "runtime_type")),
				tomlPath(append(table, "options")), tomlString(p.wrapper(p.name(spec.Containerd, h))))
		}
		if len(handlers) == 0 {
			return nil
		}
		return p.write(EngineConfig, path, b.Bytes())
	}
	if strings.HasPrefix(e.Config, "/var/lib/rancher/") {
		return fmt.Errorf("%s is made anew at each start, and this version reads no drop-in directory: make a template beside it "+
			"(config.toml.tmpl, or config-v3.toml.tmpl) in which each handler's BinaryName is its name in %s/runtimes", e.Config, p.Options.LibDir)
	}
	// The last file with a CRI table is the one that counts.
	target := files[0]
	for _, f := range files {
		if table, _ := cri(f.tree); table != nil {
			target = f
		}
	}
	text, version := target.text, configVersion(target.tree)
	if len(bytes.TrimSpace(text)) == 0 {
		version = 2
		text = append(text, "version = 2\n"...)
	}
	var err error
	for _, h := range handlers {
		if wrap[h] == "" {
			continue
		}
		table := append(criTable(version), "containerd", "runtimes", h)
		rt, _ := runtimes[h].(map[string]any)
		text, err = tomlSet(target.path, text, table, "runtime_type", lookupString(rt, "runtime_type"))
		if err == nil {
			text, err = tomlSet(target.path, text, append(table, "options"), "BinaryName", wrap[h])
		}
		if err != nil {
			return err
		}
	}
	if bytes.Equal(text, target.text) {
		return nil
	}
	return p.write(EngineConfig, target.path, text)
}

// dropInDir is a directory of files that this containerd reads and merges key by
// key, or "".
func (p *Plan) dropInDir(e *Engine) string {
	if !mergesByKey(e.Version) && configVersion(e.effective) < 4 { // version 4 is of 2.3
		return ""
	}
	imports, _ := e.effective["imports"].([]any)
	for _, v := range slices.Backward(imports) { // the last one counts most
		pattern, _ := v.(string)
		if dir, ok := strings.CutSuffix(pattern, "/*.toml"); ok && filepath.IsAbs(dir) && !strings.ContainsAny(dir, "*?[") {
			return dir
		}
	}
	return ""
}

// mergesByKey tells whether a containerd merges files' plugin tables.
func mergesByKey(version string) bool {
	major, minor := versionNumbers(version)
	return major > 2 || major == 2 && minor >= 1
}

func versionNumbers(version string) (major, minor int) {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	major, _ = strconv.Atoi(parts[0])
	if len(parts) > 1 {
		minor, _ = strconv.Atoi(parts[1])
	}
	return major, minor
}

var versionPattern = regexp.MustCompile(`\bv?(\d+\.\d+\.\d+[-+~.\w]*)`)

func (o *Options) containerdVersion(binary string) string {
	if binary == "" {
		return ""
	}
	if o.Root != "" {
		info, err := buildinfo.ReadFile(o.at(binary))
		if err != nil {
			return ""
		}
		return strings.TrimPrefix(strings.TrimSuffix(info.Main.Version, "(devel)"), "v")
	}
	out, err := output(binary, "--version")
	if err != nil {
		return ""
	}
	if m := versionPattern.FindSubmatch(out); m != nil {
		return string(m[1])
	}
	return ""
}

// output runs a program for what it says.
func output(name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = "/"
	c.WaitDelay = time.Second
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		return out, fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// dump is the configuration as containerd understands it, or nil if it can't be
// asked: below a root, or without a configuration and a version that needs one.
func (e *Engine) dump() (map[string]any, error) {
	if e.binary == "" {
		return nil, nil
	}
	out, err := output(e.binary, "--config", e.Config, "config", "dump")
	if err != nil {
		return nil, fmt.Errorf("containerd doesn't take its configuration: %w", err)
	}
	if len(bytes.TrimSpace(out)) == 0 {
		return nil, nil
	}
	return tomlTree(e.binary+" config dump", out)
}

// verify asks containerd whether it now calls the wrappers, and that all else is
// as it was.
func (e *Engine) verify(p *Plan) error {
	if e.Dialect != spec.Containerd || e.binary == "" {
		return nil
	}
	now, err := e.dump()
	if err != nil || now == nil {
		return err
	}
	table, _ := cri(now)
	for _, h := range p.Handlers {
		if h.Engine != spec.Containerd || h.Via != "" {
			continue
		}
		if got := lookupString(table, "containerd", "runtimes", h.Handler, "options", "BinaryName"); got != p.wrapper(h.Name) {
			return fmt.Errorf("containerd's handler %q would call %q and not %s: another file overrides it", h.Handler, got, p.wrapper(h.Name))
		}
	}
	if before, after := withoutNames(e.effective), withoutNames(now); e.effective != nil && !reflect.DeepEqual(before, after) {
		return errors.New("containerd would understand more than its runtimes' names differently: nothing was changed (please report this with `containerd config dump`)")
	}
	return nil
}

// withoutNames is a configuration without what an installation changes, and
// without what has its zero value.
func withoutNames(tree map[string]any) map[string]any {
	out := map[string]any{}
	for key, v := range tree {
		if key == "BinaryName" || key == "imports" {
			continue
		}
		if table, ok := v.(map[string]any); ok {
			v = withoutNames(table)
		}
		rv := reflect.ValueOf(v)
		if !rv.IsValid() || rv.IsZero() || (rv.Kind() == reflect.Map || rv.Kind() == reflect.Slice) && rv.Len() == 0 {
			continue
		}
		out[key] = v
	}
	return out
}

// tomlFile is a configuration file and what is in it.
type tomlFile struct {
	path string
	text []byte
	tree map[string]any
}

// containerdFiles reads a configuration and what it imports, in the order in
// which they count. The first is there even if the file isn't.
func (p *Plan) containerdFiles(path string) ([]tomlFile, error) {
	text, err := p.Options.readFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	tree, err := tomlTree(path, text)
	if err != nil {
		return nil, err
	}
	files := []tomlFile{{path, text, tree}}
	for i := 0; i < len(files) && len(files) < 100; i++ {
		imports, _ := files[i].tree["imports"].([]any)
		for _, v := range imports {
			pattern, _ := v.(string)
			if !filepath.IsAbs(pattern) {
				pattern = filepath.Join(filepath.Dir(files[i].path), pattern)
			}
			found, _ := filepath.Glob(p.Options.at(pattern))
			for _, f := range found {
				f = strings.TrimPrefix(f, p.Options.Root)
				if slices.ContainsFunc(files, func(g tomlFile) bool { return g.path == f }) {
					continue
				}
				text, err := p.Options.readFile(f)
				if err != nil {
					return nil, err
				}
				tree, err := tomlTree(f, text)
				if err != nil {
					return nil, err
				}
				files = append(files, tomlFile{f, text, tree})
			}
		}
	}
	return files, nil
}

// mergeFiles is what containerd makes of its files, without its defaults. All
// must have one version, or they are not understood.
func mergeFiles(files []tomlFile, byKey bool) (map[string]any, error) {
	out := map[string]any{}
	for _, f := range files {
		if len(f.tree) == 0 {
			continue
		}
		if _, ok := out["version"]; ok && !slices.Equal(criTable(configVersion(out)), criTable(configVersion(f.tree))) {
			return nil, fmt.Errorf("%s has another version than the file that imports it: run this on the node itself", f.path)
		}
		merge(out, f.tree, func(path []string) bool { return byKey || len(path) < 2 || path[0] != "plugins" }, nil)
	}
	if len(out) == 0 {
		out["version"] = int64(2)
	}
	return out, nil
}

func merge(to, from map[string]any, deep func([]string) bool, path []string) {
	for key, v := range from {
		at := append(slices.Clone(path), key)
		table, ok := v.(map[string]any)
		old, had := to[key].(map[string]any)
		if ok && had && deep(at) {
			merge(old, table, deep, at)
			continue
		}
		if ok {
			fresh := map[string]any{}
			merge(fresh, table, deep, at)
			v = fresh
		}
		to[key] = v
	}
}
