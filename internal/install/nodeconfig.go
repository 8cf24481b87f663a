package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	yaml "go.yaml.in/yaml/v3"

	"github.com/nodeadmit/nodeadmit/internal/config"
)

// nodeConfig adds the wrapped runtimes to nodeadmit's configuration, as lines: all
// else, comments and layout, stays. An entry that is there already is its
// owner's and stays, too. A missing file is made from the packaged one.
func (p *Plan) nodeConfig() error {
	path := p.Options.Config
	text, err := p.Options.readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = p.Options.readFile(p.Options.ShareDir + "/config.yaml"); err != nil {
			return fmt.Errorf("%w: install the package, or name the directory with --share-dir", err)
		}
	}
	if err != nil {
		return err
	}
	before, err := config.Parse(path, text)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	for _, h := range p.Handlers {
		if rt, ok := before.Runtimes[h.Name]; ok {
			if rt.Engine.Dialect != h.Engine || rt.Grammar != h.Grammar {
				p.warn("%s: %s says {engine: %s, grammar: %s}; what is found here is {engine: %s, grammar: %s}: it was left as it is",
					path, h.Name, rt.Engine.Dialect, rt.Grammar, h.Engine, h.Grammar)
			}
			if len(h.settings) > 0 {
				p.checkSettings(path, h, text)
			}
			continue
		}
		line := fmt.Sprintf("%s: {%s}", yamlString(h.Name), strings.Join(append([]string{
			"engine: " + string(h.Engine), "grammar: " + string(h.Grammar)}, h.settings...), ", "))
		if text, err = addRuntime(text, line); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	after, err := config.Parse(path, text)
	if err != nil {
		return fmt.Errorf("%s can't be edited: add the runtimes by hand (docs/install.md): %w", path, err)
	}
	for _, h := range p.Handlers {
		if _, ok := after.Runtimes[h.Name]; !ok {
			return fmt.Errorf("%s can't be edited: add %q under runtimes by hand", path, h.Name)
		}
	}
	return p.write(NodeConfig, path, text)
}

// checkSettings warns if an entry lacks what the engine's configuration asks for.
func (p *Plan) checkSettings(path string, h Handler, text []byte) {
	var doc struct {
		Runtimes map[string]map[string]any `yaml:"runtimes"`
	}
	if yaml.Unmarshal(text, &doc) != nil {
		return
	}
	for _, s := range h.settings {
		key, _, _ := strings.Cut(s, ":")
		if _, ok := doc.Runtimes[h.Name][key]; !ok {
			p.warn("%s: %s has no %s: the engine is configured so that it needs {%s}", path, h.Name, key, s)
		}
	}
}

// addRuntime adds a line to the mapping under runtimes.
func addRuntime(text []byte, line string) ([]byte, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return nil, errors.New("holds no mapping")
	}
	if !bytes.HasSuffix(text, []byte("\n")) {
		text = append(slices.Clone(text), '\n')
	}
	all := lines(text)
	root := doc.Content[0]
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if key.Value != "runtimes" {
			continue
		}
		if root.Style&yaml.FlowStyle != 0 || value.Kind == yaml.MappingNode && value.Style&yaml.FlowStyle != 0 && len(value.Content) > 0 {
			return nil, errors.New("runtimes is written in braces: give each its own line, or add by hand: " + line)
		}
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 {
			first := value.Content[0]
			at := lastLine(value)
			return []byte(strings.Join(slices.Insert(all, at, strings.Repeat(" ", first.Column-1)+line+"\n"), "")), nil
		}
		all[key.Line-1] = strings.Repeat(" ", key.Column-1) + "runtimes:\n" + strings.Repeat(" ", key.Column+1) + line + "\n"
		return []byte(strings.Join(all, "")), nil
	}
	return append(slices.Clone(text), "runtimes:\n  "+line+"\n"...), nil
}

// lastLine is the last line that any part of a node stands on.
func lastLine(n *yaml.Node) int {
	last := n.Line
	for _, c := range n.Content {
		last = max(last, lastLine(c))
	}
	return last
}

// yamlString writes a plain word as it is and quotes all else.
func yamlString(s string) string {
	if s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./") == "" && s[0] != '-' && s[0] != '.' {
		return s
	}
	return jsonString(s)
}

func yamlList(list []any) string {
	words := make([]string, len(list))
	for i, v := range list {
		words[i] = yamlString(fmt.Sprint(v))
	}
	return "[" + strings.Join(words, ", ") + "]"
}
