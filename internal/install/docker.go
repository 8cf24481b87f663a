package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// dockerd has no drop-in directory: daemon.json is edited, in its order. The name
// runc is dockerd's own and can't be given another path, so ours is another name,
// and the default; who calls docker can still ask for --runtime runc, and is root
// on the node anyway.
const (
	dockerConfig = "/etc/docker/daemon.json"
	dockerName   = "nodeadmit"
)

func (p *Plan) docker() error {
	path := dockerConfig
	if p.Options.EngineConfig != "" {
		path = p.Options.EngineConfig
	}
	text, err := p.Options.readFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(bytes.TrimSpace(text)) == 0 {
		text = []byte("{\n}\n")
	}
	var tree map[string]any
	if err := json.Unmarshal(text, &tree); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	runtimes := lookupTable(tree, "runtimes")
	for _, name := range slices.Sorted(maps.Keys(runtimes)) {
		if name == dockerName {
			continue
		}
		rt, _ := runtimes[name].(map[string]any)
		real := lookupString(rt, "path")
		if real == "" {
			p.uncovered(spec.Docker, name, "its shim %s is not an OCI runtime that could be wrapped", lookupString(rt, "runtimeType"))
			continue
		}
		if strings.HasPrefix(real[strings.LastIndexByte(real, '/')+1:], "nvidia-container-runtime") {
			if err := p.nvidia(spec.Docker, name, real, nil); err != nil {
				return err
			}
			continue
		}
		if wrapper := p.handle(spec.Docker, name, real, nil); wrapper != "" {
			if text, err = jsonSet(path, text, []string{"runtimes", name, "path"}, wrapper); err != nil {
				return err
			}
		}
	}
	standard := "runc"
	if wrapped := lookupString(runtimes, dockerName, "path"); wrapped != "" {
		standard = wrapped
	}
	switch d := lookupString(tree, "default-runtime"); d {
	case "", "runc", dockerName:
		wrapper := p.handle(spec.Docker, dockerName, standard, nil)
		if wrapper == "" {
			return errors.New("runc is not on this node")
		}
		if text, err = jsonSet(path, text, []string{"default-runtime"}, dockerName); err == nil {
			text, err = jsonSet(path, text, []string{"runtimes", dockerName, "path"}, wrapper)
		}
		if err != nil {
			return err
		}
	}
	p.warn("docker: dockerd lets nobody give the name runc another path: docker run --runtime runc goes round the wrapper")
	p.Engines = append(p.Engines, Engine{Dialect: spec.Docker, Config: path, Unit: "docker"})
	return p.write(EngineConfig, path, text)
}

// jsonSet sets one string in a document's text and changes nothing else. It is
// read back.
func jsonSet(name string, text []byte, path []string, value string) ([]byte, error) {
	var want map[string]any
	if err := json.Unmarshal(text, &want); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	set(want, path, value)
	out, err := jsonSetText(text, path, value)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var got map[string]any
	if err := json.Unmarshal(out, &got); err != nil || !reflect.DeepEqual(got, want) {
		return nil, fmt.Errorf("%s: %s can't be edited here: set it to %q by hand", name, strings.Join(path, "."), value)
	}
	return out, nil
}

func jsonSetText(text []byte, path []string, value string) ([]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(text))
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	for depth, key := range path {
		last := depth == len(path)-1
		found, empty := false, true
		open := d.InputOffset()
		for !found && d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			empty = false
			if found = name.String() == key; found {
				break
			}
			if err := d.SkipValue(); err != nil {
				return nil, err
			}
		}
		if found && !last {
			if _, err := d.ReadToken(); err != nil {
				return nil, err
			}
			continue
		}
		if found {
			v, err := d.ReadValue()
			if err != nil {
				return nil, err
			}
			end := int(d.InputOffset())
			return splice(text, end-len(v), end, jsonString(value)), nil
		}
		// Add what is missing, after the opening brace, indented as its neighbours.
		indent := strings.Repeat("  ", depth+1)
		if rest := text[open:]; !empty && bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r"), []byte("\n")) {
			line := rest[bytes.IndexByte(rest, '\n')+1:]
			indent = string(line[:len(line)-len(bytes.TrimLeft(line, " \t"))])
		}
		add := jsonString(value)
		for i := len(path) - 1; i > depth; i-- {
			inner := indent + strings.Repeat("  ", i-depth)
			add = "{\n" + inner + jsonString(path[i]) + ": " + add + "\n" + inner[2:] + "}"
		}
		add = "\n" + indent + jsonString(key) + ": " + add
		if !empty {
			add += ","
		}
		if rest := text[open:]; !bytes.HasPrefix(bytes.TrimLeft(rest, " \t\r"), []byte("\n")) {
			add += "\n"
			if !empty {
				add += indent
			}
		}
		return splice(text, int(open), int(open), add), nil
	}
	return nil, errors.New("nothing to set")
}

func jsonString(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}
