package install

import (
	"fmt"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// nvidia-container-runtime is itself a wrapper, which adds to the bundle what a
// GPU needs. It stays outermost (DESIGN.md, ruling 9), so that what it adds is
// judged: its own list of runtimes gets our name, and the engine's entry stays.
const nvidiaConfig = "/etc/nvidia-container-runtime/config.toml"

const nvidiaName = "nvidia"

func (p *Plan) nvidia(e spec.Dialect, handler, outer string, settings []string) error {
	text, err := p.text(nvidiaConfig)
	if err != nil {
		p.uncovered(e, handler, "%s is called, whose list of runtimes can't be read: %v", outer, err)
		return nil
	}
	tree, err := tomlTree(nvidiaConfig, text)
	if err != nil {
		return err
	}
	table := []string{"nvidia-container-runtime"}
	list, _ := lookup(tree, "nvidia-container-runtime", "runtimes").([]any)
	if list == nil {
		list = []any{"runc", "crun"}
	}
	for _, v := range list {
		real, _ := v.(string)
		if name, ok := p.ours(real); ok {
			if name != p.name(e, nvidiaName) {
				p.uncovered(e, handler, "%s already calls %s, which is of another engine", outer, real)
				return nil
			}
		} else if real = p.Options.program(real); real == "" {
			continue
		}
		for _, h := range p.Handlers {
			if h.Name == p.name(e, nvidiaName) {
				return nil
			}
		}
		path := p.handle(e, nvidiaName, real, settings)
		if path == "" {
			return nil
		}
		p.Handlers[len(p.Handlers)-1].Via = outer
		if text, err = tomlSet(nvidiaConfig, text, table, "runtimes", []any{path}); err != nil {
			return err
		}
		return p.write(EngineConfig, nvidiaConfig, text)
	}
	return fmt.Errorf("handler %q: %s finds none of the runtimes %v", handler, outer, list)
}
