package engine

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"text/template"
)

// BaselinePolicy is the smallest NodePolicy with a preset.
const BaselinePolicy = `apiVersion: nodeadmit.dev/v1alpha1
kind: NodePolicy
metadata: {name: baseline}
spec: {mode: Enforce, preset: baseline}
`

// Build builds the project's programs, static, into a directory.
func Build(dir string) error {
	c := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", dir+"/",
		"github.com/nodeadmit/nodeadmit/cmd/runtime-wrapper", "github.com/nodeadmit/nodeadmit/cmd/runtime-judge",
		"github.com/nodeadmit/nodeadmit/cmd/oci-hook", "github.com/nodeadmit/nodeadmit/cmd/nodeadmit")
	c.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build nodeadmit: %w\n%s", err, out)
	}
	return nil
}

// Installation is nodeadmit in front of runtimes.
type Installation struct {
	Dir         string
	ConfigFile  string
	PolicyDir   string
	DecisionLog string
	StateDir    string
}

// InstallOptions say what to install.
type InstallOptions struct {
	// Dir is where it goes: programs, runtimes/, config.yaml, policies.d/.
	Dir string
	// Programs is a directory that Build has filled.
	Programs string
	// Runtimes are the real runtimes' paths by the name of their wrapper.
	Runtimes map[string]string
	// Policies are the documents by file name. Nil is BaselinePolicy.
	Policies map[string]string
	// EngineRoots and KubeletRoots are the private directories of the engine.
	EngineRoots, KubeletRoots []string
	// Config is more lines for the NodeConfig.
	Config string
}

// InstallBefore is Install for an engine that is to start in base. Dir is a name
// in base, "nodeadmit" if empty.
func InstallBefore(base string, o InstallOptions) (*Installation, error) {
	if o.Dir == "" {
		o.Dir = "nodeadmit"
	}
	o.Dir = filepath.Join(base, o.Dir)
	o.EngineRoots = []string{filepath.Join(base, "root"), filepath.Join(base, "state")}
	o.KubeletRoots = []string{filepath.Join(base, "kubelet")}
	return Install(o)
}

var nodeConfig = template.Must(template.New("config.yaml").Parse(`apiVersion: nodeadmit.dev/v1alpha1
kind: NodeConfig
policyDir: {{ .I.PolicyDir }}
decisionLog: {path: {{ .I.DecisionLog }}}
stateDir: {{ .I.StateDir }}
runtimes:
{{- range $name, $real := .O.Runtimes }}
  {{ $name }}:
    engine: containerd
    grammar: runc
    {{- with $.O.EngineRoots }}
    engineRoots: [{{ range $i, $r := . }}{{ if $i }}, {{ end }}{{ $r }}{{ end }}]
    {{- end }}
    {{- with $.O.KubeletRoots }}
    kubeletRoots: [{{ range $i, $r := . }}{{ if $i }}, {{ end }}{{ $r }}{{ end }}]
    {{- end }}
{{- end }}
{{ .O.Config }}`))

// Install lays nodeadmit out as a package does (docs/install.md), but in one
// directory: runtimes/NAME is the wrapper, runtimes/NAME.real the runtime,
// runtimes/NAME.config the configuration.
func Install(o InstallOptions) (*Installation, error) {
	i := &Installation{
		Dir:         o.Dir,
		ConfigFile:  filepath.Join(o.Dir, "config.yaml"),
		PolicyDir:   filepath.Join(o.Dir, "policies.d"),
		DecisionLog: filepath.Join(o.Dir, "decisions.jsonl"),
		StateDir:    filepath.Join(o.Dir, "state"),
	}
	for _, dir := range []string{o.Dir, i.PolicyDir, filepath.Join(o.Dir, "runtimes")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	programs, err := os.ReadDir(o.Programs)
	if err != nil {
		return nil, err
	}
	for _, p := range programs {
		data, err := os.ReadFile(filepath.Join(o.Programs, p.Name()))
		if err != nil {
			return nil, err
		}
		if err := replace(filepath.Join(o.Dir, p.Name()), data, 0o755); err != nil {
			return nil, err
		}
	}
	var config bytes.Buffer
	if err := nodeConfig.Execute(&config, map[string]any{"I": i, "O": o}); err != nil {
		return nil, err
	}
	if err := replace(i.ConfigFile, config.Bytes(), 0o644); err != nil {
		return nil, err
	}
	for name, real := range o.Runtimes {
		for link, target := range map[string]string{
			i.Wrapper(name):             "../runtime-wrapper",
			i.Wrapper(name) + ".real":   real,
			i.Wrapper(name) + ".config": i.ConfigFile,
		} {
			if err := os.Symlink(target, link); err != nil {
				return nil, err
			}
		}
	}
	policies := o.Policies
	if policies == nil {
		policies = map[string]string{"baseline.yaml": BaselinePolicy}
	}
	for name, text := range policies {
		if err := replace(filepath.Join(i.PolicyDir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return i, nil
}

// Wrapper returns what the engine is to call for a runtime.
func (i *Installation) Wrapper(name string) string { return filepath.Join(i.Dir, "runtimes", name) }

// Decisions returns the decision log's lines.
func (i *Installation) Decisions() []string {
	data, _ := os.ReadFile(i.DecisionLog)
	var out []string
	for line := range bytes.Lines(data) {
		out = append(out, string(bytes.TrimSpace(line)))
	}
	return out
}

// replace writes a file by rename, with that mode whatever the umask is.
func replace(name string, data []byte, mode os.FileMode) error {
	if err := os.WriteFile(name+".new", data, mode); err != nil {
		return err
	}
	if err := os.Chmod(name+".new", mode); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}
