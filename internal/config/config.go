// Package config reads the node's configuration, /etc/nodeadmit/config.yaml.
package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/nodeadmit/nodeadmit/internal/ociargs"
	"github.com/nodeadmit/nodeadmit/internal/rootfile"
	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// APIVersion and Kind are those of the configuration file.
const (
	APIVersion = "nodeadmit.dev/v1alpha1"
	Kind       = "NodeConfig"
)

// DefaultPath is where the configuration lies unless a link beside the
// wrapper's name, or the hook's --config, names another file.
const DefaultPath = "/etc/nodeadmit/config.yaml"

const maxSize = 1 << 20

// Unmanaged says how containers are judged that no CRI made.
type Unmanaged string

// The ways to judge a container that no CRI made.
const (
	UnmanagedEnforce Unmanaged = "Enforce"
	UnmanagedAudit   Unmanaged = "Audit"
	UnmanagedAllow   Unmanaged = "Allow"
)

// Runtime is one wrapped runtime: an engine's handler.
type Runtime struct {
	Engine  spec.Engine
	Grammar ociargs.Grammar
}

// Config is the node's configuration with defaults filled in.
type Config struct {
	File      string
	PolicyDir string
	// PluginDir holds the plugins' files. It need not exist.
	PluginDir string
	// EvaluatorSocket is where a resident evaluator may listen.
	EvaluatorSocket string
	// Runtimes are keyed by the name that the wrapper is called under.
	Runtimes map[string]Runtime
	// FailOpen is failureMode: Open. It covers faults of the node (policy,
	// I/O), never a bundle's.
	FailOpen     bool
	Unmanaged    Unmanaged
	HostileAdmin bool
	// NodeLabels say which policies apply here (nodes.matchLabels).
	NodeLabels map[string]string
	LateCheck  bool
	// Deadline bounds a whole decision.
	Deadline    time.Duration
	DecisionLog string
	// StateDir holds what outlives a decision: the last good policy.
	StateDir string
}

// Defaults returns the configuration of an empty file.
func Defaults() *Config {
	return &Config{
		PolicyDir:   "/etc/nodeadmit/policies.d",
		PluginDir:   "/etc/nodeadmit/plugins.d",
		Runtimes:    map[string]Runtime{},
		Unmanaged:   UnmanagedEnforce,
		LateCheck:   true,
		Deadline:    DefaultDeadline,
		DecisionLog: "/var/log/nodeadmit/decisions.jsonl",
		StateDir:    "/var/lib/nodeadmit",

		EvaluatorSocket: "/run/nodeadmit/evaluator.sock",
	}
}

// DefaultDeadline bounds a decision for which no configuration was read yet.
const DefaultDeadline = 5 * time.Second

// Load reads a configuration file, which must be root's and writable by nobody
// else. All faults are in the error.
func Load(name string) (*Config, error) {
	data, _, err := rootfile.Read(name, maxSize, rootfile.Check)
	if err != nil {
		return nil, fmt.Errorf("configuration: %w", err)
	}
	return Parse(name, data)
}

// Parse reads a configuration. name is for messages.
func Parse(name string, data []byte) (*Config, error) {
	d, documents := strictyaml.Documents(name, data)
	c := Defaults()
	c.File = name
	switch {
	case len(d.Errs) > 0:
	case len(documents) != 1:
		d.Errorf(nil, "holds %d documents: want one %s", len(documents), Kind)
	default:
		c.read(d, documents[0])
	}
	if err := errors.Join(d.Errs...); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Config) read(d *strictyaml.Decoder, at strictyaml.Field) {
	o := d.Object(at)
	if len(d.Errs) > 0 || !d.Header(o, at, APIVersion, Kind) {
		return
	}
	for _, f := range o.Fields {
		switch f.Name {
		case "apiVersion", "kind":
		case "metadata":
			d.Object(f)
		case "policyDir":
			c.PolicyDir = absolutePath(d, f)
		case "pluginDir":
			c.PluginDir = absolutePath(d, f)
		case "evaluatorSocket":
			c.EvaluatorSocket = absolutePath(d, f)
		case "runtimes":
			for _, f := range d.Object(f).Fields {
				c.Runtimes[f.Name] = readRuntime(d, f)
			}
		case "failureMode":
			c.FailOpen = strictyaml.Choice(d, f, "Closed", "Open") == "Open"
		case "unmanaged":
			c.Unmanaged = strictyaml.Choice(d, f, UnmanagedEnforce, UnmanagedAudit, UnmanagedAllow)
		case "threatModel":
			c.HostileAdmin = strictyaml.Choice(d, f, "Misconfiguration", "HostileAdmin") == "HostileAdmin"
		case "lateCheck":
			c.LateCheck = d.Bool(f)
		case "deadline":
			c.Deadline = duration(d, f)
		case "decisionLog":
			o := d.Object(f)
			for _, f := range o.Fields {
				switch f.Name {
				case "path":
					c.DecisionLog = absolutePath(d, f)
				default:
					d.UnknownField(o, f, "path")
				}
			}
		case "nodeLabels":
			c.NodeLabels = map[string]string{}
			for _, l := range d.Object(f).Fields {
				c.NodeLabels[l.Name] = d.Str(l)
			}
		case "stateDir":
			c.StateDir = absolutePath(d, f)
		case "podSources":
			if items := d.List(f); len(items) > 0 {
				d.Errorf(items[0].Node, "podSources: this version has no pod sources: want []")
			}
		default:
			d.UnknownField(o, f, "policyDir", "pluginDir", "evaluatorSocket", "runtimes", "failureMode", "unmanaged", "threatModel", "lateCheck",
				"deadline", "decisionLog", "stateDir", "nodeLabels", "podSources")
		}
	}
}

func readRuntime(d *strictyaml.Decoder, at strictyaml.Field) Runtime {
	r := Runtime{Grammar: ociargs.Runc}
	o := d.Object(at)
	if strings.ContainsAny(at.Name, "/ ") || at.Name == "" {
		d.Errorf(at.Key, "runtime name %q: want the base name that the wrapper is called under", at.Name)
	}
	engine, ok := o.Get("engine")
	if !ok {
		d.Errorf(at.Node, "%s: engine is missing: want containerd, crio, podman, docker or none", at.Name)
		return r
	}
	r.Engine = spec.NewEngine(strictyaml.Choice(d, engine, spec.Dialects...))
	for _, f := range o.Fields {
		switch f.Name {
		case "engine":
		case "grammar":
			r.Grammar = strictyaml.Choice(d, f, ociargs.Runc, ociargs.Crun)
		case "engineRoots":
			r.Engine.Roots = absolutePaths(d, f)
		case "kubeletRoots":
			r.Engine.KubeletRoots = absolutePaths(d, f)
		case "defaultCapabilities":
			r.Engine.DefaultCapabilities = nil
			for _, item := range d.List(f) {
				r.Engine.DefaultCapabilities = append(r.Engine.DefaultCapabilities, spec.CapabilityName(d.Str(item)))
			}
		default:
			d.UnknownField(o, f, "engine", "grammar", "engineRoots", "kubeletRoots", "defaultCapabilities")
		}
	}
	return r
}

func absolutePath(d *strictyaml.Decoder, f strictyaml.Field) string {
	p := d.Str(f)
	if p != "" && !filepath.IsAbs(p) {
		d.Errorf(f.Node, "%s %q: want an absolute path", f.Name, p)
	}
	return p
}

func absolutePaths(d *strictyaml.Decoder, f strictyaml.Field) []string {
	var out []string
	for _, item := range d.List(f) {
		out = append(out, absolutePath(d, item))
	}
	return out
}

// duration reads a time of at least 100ms, less than the hook's own time-out.
func duration(d *strictyaml.Decoder, f strictyaml.Field) time.Duration {
	s := d.Str(f)
	t, err := time.ParseDuration(s)
	if s != "" && (err != nil || t < 100*time.Millisecond || t >= HookTimeout) {
		d.Errorf(f.Node, "deadline %q: want a time from 100ms to less than %s, as 5s", s, HookTimeout)
	}
	return t
}

// HookTimeout is what runtimes are told to give our hook.
const HookTimeout = 10 * time.Second
