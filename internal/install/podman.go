package install

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// podman reads containers.conf in /usr/share and /etc and then containers.conf.d
// by name. [engine.runtimes] is a map of lists: a later file replaces single
// names. Names that it has built in are wrapped where their runtime is found.
const (
	podmanConfig = "/etc/containers/containers.conf"
	podmanDropIn = "/etc/containers/containers.conf.d/zz-nodeadmit.conf"
)

func (p *Plan) podman() error {
	tree := map[string]any{}
	var paths []string
	for _, main := range []string{"/usr/share/containers/containers.conf", podmanConfig} {
		found, _ := filepath.Glob(p.Options.at(main + ".d/*.conf"))
		for _, f := range append([]string{p.Options.at(main)}, found...) {
			if f = strings.TrimPrefix(f, p.Options.Root); f != podmanDropIn && p.Options.exists(f) {
				paths = append(paths, f)
			}
		}
	}
	for _, path := range paths {
		text, err := p.Options.readFile(path)
		if err != nil {
			return err
		}
		t, err := tomlTree(path, text)
		if err != nil {
			return err
		}
		merge(tree, t, func([]string) bool { return true }, nil)
	}
	runtimes := lookupTable(tree, "engine", "runtimes")
	if runtimes == nil {
		runtimes = map[string]any{}
	}
	for _, name := range []string{"crun", "runc"} {
		if runtimes[name] == nil {
			if path := p.Options.program(name); path != "" {
				runtimes[name] = []any{path}
			}
		}
	}
	settings := append(p.kubeletRoots(), p.storageRoots("", "")...)
	if caps, ok := lookup(tree, "containers", "default_capabilities").([]any); ok {
		settings = append(settings, "defaultCapabilities: "+yamlList(caps))
	}
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(runtimes)) {
		list, _ := runtimes[name].([]any)
		real := ""
		for _, v := range list {
			s, _ := v.(string)
			if real = p.Options.program(s); real != "" {
				break
			}
		}
		if real == "" {
			continue // podman can't use it either
		}
		if path := p.handle(spec.Podman, name, real, settings); path != "" {
			fmt.Fprintf(&lines, "  %s = [%s]\n", tomlPath([]string{name}), tomlString(path))
		}
	}
	for _, name := range []string{"kata", "runsc", "youki", "krun", "ocijail", "crun-vm", "crun-wasm"} {
		if runtimes[name] == nil && p.Options.program(name) != "" {
			p.uncovered(spec.Podman, name, "the command line of %s is in no table (runc and crun are)", name)
		}
	}
	if lines.Len() == 0 {
		return errors.New("no runtime can be wrapped")
	}
	dirs, _ := lookup(tree, "engine", "hooks_dir").([]any)
	if dirs == nil {
		dirs = []any{sharedHooks}
	}
	var b bytes.Buffer
	b.WriteString("# Written by nodeadmit install, removed by nodeadmit uninstall: these runtimes are\n# nodeadmit's wrapper, which calls the runtime that was here before.\n")
	fmt.Fprintf(&b, "[engine]\n  hooks_dir = %s\n\n[engine.runtimes]\n%s", tomlValue(append(slices.Clone(dirs), ownHooks+"/podman")), lines.String())
	p.warn("podman: users without root read the same configuration, and a runtime that is named by its path is not wrapped")
	p.Engines = append(p.Engines, Engine{Dialect: spec.Podman, Config: podmanConfig})
	if err := p.hookFile("podman"); err != nil {
		return err
	}
	return p.write(EngineConfig, podmanDropIn, b.Bytes())
}
