package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodeadmit/nodeadmit/internal/ociargs"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// CRI-O reads crio.conf and then crio.conf.d/* by name. A table of a runtime in a
// later file replaces an earlier one whole, so ours has all fields of the one
// that it replaces (a missing monitor_path keeps CRI-O from starting:
// nvidia-container-toolkit issue 681). Its built-in handler stays configured
// beside those in files, and is wrapped as well: crun from CRI-O 1.31 on, runc
// before.
const (
	crioConfig = "/etc/crio/crio.conf"
	crioDropIn = "/etc/crio/crio.conf.d/zz-nodeadmit.conf"
	// sharedHooks is where CRI-O and podman look for hooks unasked. Both do, and
	// a hook is told its engine: so each has a directory of its own.
	sharedHooks = "/usr/share/containers/oci/hooks.d"
	ownHooks    = "/etc/nodeadmit/hooks.d"
)

func (p *Plan) crio() error {
	o := &p.Options
	main := crioConfig
	if o.EngineConfig != "" {
		main = o.EngineConfig
	}
	e := Engine{Dialect: spec.CRIO, Config: main, Unit: "crio"}
	if binary := o.program("crio"); binary != "" && o.Root == "" {
		if out, err := output(binary, "--version"); err == nil {
			if m := versionPattern.FindSubmatch(out); m != nil {
				e.Version = string(m[1])
			}
		}
	}
	dropIn := main + ".d/" + filepath.Base(crioDropIn)
	tree, err := p.crioTree(main, dropIn)
	if err != nil {
		return err
	}
	table := lookupTable(tree, "crio", "runtime")
	runtimes := lookupTable(table, "runtimes")
	if runtimes == nil {
		runtimes = map[string]any{}
	}
	for _, name := range crioBuiltin(e.Version) {
		if runtimes[name] == nil && p.crioRuntime(name) != "" {
			runtimes[name] = map[string]any{}
		}
	}
	settings := p.kubeletRoots()
	if caps, ok := table["default_capabilities"].([]any); ok {
		settings = append(settings, "defaultCapabilities: "+yamlList(caps))
	}
	settings = append(settings, p.storageRoots(lookupString(tree, "crio", "root"), lookupString(tree, "crio", "runroot"), "/run/crio", "/var/lib/crio")...)
	var b bytes.Buffer
	b.WriteString("# Written by nodeadmit install, removed by nodeadmit uninstall: every handler calls\n# nodeadmit's wrapper, which calls the runtime that was here before.\n")
	dirs, _ := table["hooks_dir"].([]any)
	if dirs == nil {
		dirs = []any{sharedHooks}
	}
	fmt.Fprintf(&b, "[crio.runtime]\n  hooks_dir = %s\n", tomlValue(append(slices.Clone(dirs), ownHooks+"/crio")))
	for _, handler := range slices.Sorted(maps.Keys(runtimes)) {
		rt, _ := runtimes[handler].(map[string]any)
		if kind := lookupString(rt, "runtime_type"); kind != "" && kind != "oci" && kind != "pod" {
			p.uncovered(spec.CRIO, handler, "its type %q calls no OCI runtime that could be wrapped", kind)
			continue
		}
		real := orDefault(lookupString(rt, "runtime_path"), p.crioRuntime(handler))
		if strings.HasPrefix(filepath.Base(real), "nvidia-container-runtime") {
			if err := p.nvidia(spec.CRIO, handler, real, settings); err != nil {
				return err
			}
			continue
		}
		path := p.handle(spec.CRIO, handler, real, settings)
		if path == "" {
			continue
		}
		p.riskyAnnotations(spec.CRIO, handler, rt)
		fields := maps.Clone(rt)
		fields["runtime_path"] = path
		if lookupString(rt, "runtime_root") == "" && rt["runtime_path"] == nil {
			fields["runtime_root"] = "/run/" + handler // CRI-O's own for a built-in handler
		}
		fmt.Fprintf(&b, "\n[%s]\n", tomlPath([]string{"crio", "runtime", "runtimes", handler}))
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			fmt.Fprintf(&b, "  %s = %s\n", tomlPath([]string{key}), tomlValue(fields[key]))
		}
	}
	if len(p.Handlers) == 0 {
		return errors.New("no handler can be wrapped")
	}
	if _, err := tomlTree(dropIn, b.Bytes()); err != nil {
		return err
	}
	if drop, ok := table["drop_infra_ctr"].(bool); ok && drop || !ok {
		p.warn("crio: drop_infra_ctr is on: a pod without an infra container is judged only when its containers are made")
	}
	p.Engines = append(p.Engines, e)
	if err := p.hookFile("crio"); err != nil {
		return err
	}
	return p.write(EngineConfig, dropIn, b.Bytes())
}

func orDefault(s, d string) string {
	if s == "" {
		return d
	}
	return s
}

// crioBuiltin are the handlers that CRI-O has without any configuration.
func crioBuiltin(version string) []string {
	major, minor := versionNumbers(version)
	switch {
	case version == "":
		return []string{"crun", "runc"}
	case major > 1 || minor >= 31:
		return []string{"crun"}
	}
	return []string{"runc"}
}

// crioRuntime is where CRI-O finds a handler without a runtime_path.
func (p *Plan) crioRuntime(handler string) string {
	return p.Options.program(handler, "/usr/libexec/crio/"+handler, "/usr/lib/crio/"+handler)
}

// crioTree merges the configuration as CRI-O does, without our own file.
func (p *Plan) crioTree(main, skip string) (map[string]any, error) {
	found, _ := filepath.Glob(p.Options.at(main + ".d/*"))
	paths := []string{main}
	for _, f := range found {
		if f = strings.TrimPrefix(f, p.Options.Root); f != skip {
			paths = append(paths, f)
		}
	}
	out := map[string]any{}
	for _, path := range paths {
		text, err := p.Options.readFile(path)
		if errors.Is(err, fs.ErrNotExist) && path == main {
			continue
		}
		if err != nil {
			return nil, err
		}
		tree, err := tomlTree(path, text)
		if err != nil {
			return nil, err
		}
		merge(out, tree, func(at []string) bool { return len(at) < 4 }, nil)
	}
	return out, nil
}

// storageRoots are the directories of containers/storage, if they aren't the
// usual ones: those given, or else storage.conf's.
func (p *Plan) storageRoots(root, run string, more ...any) []string {
	for _, path := range []string{"/etc/containers/storage.conf", "/usr/share/containers/storage.conf"} {
		text, err := p.Options.readFile(path)
		if err != nil {
			continue
		}
		tree, err := tomlTree(path, text)
		if err != nil {
			p.warn("%v", err)
			break
		}
		root = orDefault(root, lookupString(tree, "storage", "graphroot"))
		run = orDefault(run, lookupString(tree, "storage", "runroot"))
		break // the first is the only one that is read
	}
	const usualRoot, usualRun = "/var/lib/containers/storage", "/run/containers/storage"
	root, run = orDefault(root, usualRoot), orDefault(run, usualRun)
	if root == usualRoot && strings.TrimPrefix(run, "/var") == usualRun {
		return nil
	}
	return []string{"engineRoots: " + yamlList(append([]any{root, run}, more...))}
}

// hookFile puts an engine's hook where only that engine looks. It is told the
// engine, or, if the engine has settings, a runtime that has them: one of crun's
// if there is any, since a hook says less under crun (cmd/oci-hook).
func (p *Plan) hookFile(engine string) error {
	text, err := p.Options.readFile(p.Options.ShareDir + "/hooks.d/00-nodeadmit-" + engine + ".json")
	if err != nil {
		return fmt.Errorf("%w: install the package, or name the directory with --share-dir", err)
	}
	text = bytes.ReplaceAll(text, []byte(`"`+DefaultLibDir+`/`), []byte(`"`+p.Options.LibDir+`/`))
	if p.Options.Config != "/etc/nodeadmit/config.yaml" {
		text = bytes.Replace(text, []byte(`"--engine"`), []byte(`"--config", "`+p.Options.Config+`", "--engine"`), 1)
	}
	name, grammar := "", ociargs.Grammar("")
	for _, h := range p.Handlers {
		if string(h.Engine) == engine && len(h.settings) > 0 && grammar != ociargs.Crun {
			name, grammar = h.Name, h.Grammar
		}
	}
	if name != "" {
		text = bytes.Replace(text, []byte(`"--engine", "`+engine+`"`), []byte(`"--runtime", "`+name+`"`), 1)
	}
	return p.write(HookFile, ownHooks+"/"+engine+"/00-nodeadmit.json", text)
}
