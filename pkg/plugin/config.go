package plugin

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// ConfigVersion and Kind are those of a plugin's file.
const (
	ConfigVersion = policy.APIVersion
	Kind          = "Plugin"
)

// Type is how a plugin is asked.
type Type string

// The types.
const (
	Exec    Type = "exec"
	Webhook Type = "webhook"
	GRPC    Type = "grpc"
)

// Times of a plugin.
const (
	DefaultTimeout = time.Second
	MaxTimeout     = 4 * time.Second
)

// moments are the words of internal/evaluator.
var moments = []string{"sandbox", "container", "lateCheck", "unmanaged"}

// Config is one plugin's file.
type Config struct {
	Name, File string
	Type       Type
	Timeout    time.Duration
	Moments    []string
	// FailOpen is failureMode: Open.
	FailOpen bool
	Mode     policy.Mode
	Match    Match

	// Command and Args are an exec plugin's.
	Command string
	Args    []string
	// URL is a webhook's; Socket that of a webhook or a gRPC server.
	URL    string
	Socket string
	// Address is a gRPC server's on this machine.
	Address    string
	ServerName string
	// CAFile, CertFile and KeyFile are for TLS; CABundle is PEM in the file itself.
	CAFile, CertFile, KeyFile string
	CABundle                  string
}

// Match says which containers a plugin is asked about. What isn't known matches.
type Match struct {
	Namespaces, ExceptNamespaces []string
	Images                       []string
}

// parse reads all plugins of a directory, in order.
func parse(sources *policy.Sources) ([]*Config, error) {
	var (
		out  []*Config
		errs []error
	)
	for _, f := range sources.Files {
		d, nodes := strictyaml.Documents(f.Name, f.Data)
		for _, n := range nodes {
			if c := read(d, n); c != nil {
				if slices.ContainsFunc(out, func(o *Config) bool { return o.Name == c.Name }) {
					d.Errorf(n.Node, "plugin %q is already defined", c.Name)
				}
				c.File = f.Name
				out = append(out, c)
			}
		}
		errs = append(errs, d.Errs...)
	}
	return out, errors.Join(errs...)
}

func read(d *strictyaml.Decoder, at strictyaml.Field) *Config {
	before := len(d.Errs)
	o := d.Object(at)
	if len(d.Errs) > before || !d.Header(o, at, ConfigVersion, Kind) {
		return nil
	}
	c := &Config{Timeout: DefaultTimeout, Moments: []string{"sandbox", "container"}, Mode: policy.Enforce}
	for _, f := range o.Fields {
		switch f.Name {
		case "apiVersion", "kind":
		case "metadata":
			o := d.Object(f)
			for _, f := range o.Fields {
				switch f.Name {
				case "name":
					c.Name = d.Str(f)
				default:
					d.UnknownField(o, f, "name")
				}
			}
		case "spec":
			c.spec(d, d.Object(f))
		default:
			d.UnknownField(o, f, "apiVersion", "kind", "metadata", "spec")
		}
	}
	if c.Name == "" || spec.Quote(c.Name) != c.Name {
		d.Errorf(at.Node, "metadata.name %q: want a plain word", c.Name)
	}
	if err := c.validate(); err != nil {
		d.Errorf(at.Node, "plugin %q: %v", c.Name, err)
	}
	return c
}

func (c *Config) spec(d *strictyaml.Decoder, o *strictyaml.Object) {
	for _, f := range o.Fields {
		switch f.Name {
		case "type":
			c.Type = strictyaml.Choice(d, f, Exec, Webhook, GRPC)
		case "timeout":
			s := d.Str(f)
			t, err := time.ParseDuration(s)
			if err != nil || t < time.Millisecond || t > MaxTimeout {
				d.Errorf(f.Node, "timeout %q: want a time up to %s, as 500ms", s, MaxTimeout)
			}
			c.Timeout = t
		case "moments":
			c.Moments = nil
			for _, item := range d.List(f) {
				c.Moments = append(c.Moments, strictyaml.Choice(d, item, moments...))
			}
		case "failureMode":
			c.FailOpen = strictyaml.Choice(d, f, "Closed", "Open") == "Open"
		case "mode":
			c.Mode = strictyaml.Choice(d, f, policy.Enforce, policy.Audit)
		case "match":
			m := d.Object(f)
			for _, f := range m.Fields {
				switch f.Name {
				case "namespaces":
					c.Match.Namespaces = stringList(d, f)
				case "exceptNamespaces":
					c.Match.ExceptNamespaces = stringList(d, f)
				case "images":
					c.Match.Images = stringList(d, f)
				default:
					d.UnknownField(m, f, "namespaces", "exceptNamespaces", "images")
				}
			}
		case "command":
			c.Command = d.Str(f)
		case "args":
			c.Args = stringList(d, f)
		case "url":
			c.URL = d.Str(f)
		case "socket":
			c.Socket = d.Str(f)
		case "address":
			c.Address = d.Str(f)
		case "serverName":
			c.ServerName = d.Str(f)
		case "caFile":
			c.CAFile = d.Str(f)
		case "certFile":
			c.CertFile = d.Str(f)
		case "keyFile":
			c.KeyFile = d.Str(f)
		case "caBundle":
			c.CABundle = d.Str(f)
		default:
			d.UnknownField(o, f, "type", "timeout", "moments", "failureMode", "mode", "match", "command", "args", "url", "socket",
				"address", "serverName", "caFile", "certFile", "keyFile", "caBundle")
		}
	}
}

func stringList(d *strictyaml.Decoder, f strictyaml.Field) []string {
	var out []string
	for _, item := range d.List(f) {
		out = append(out, d.Str(item))
	}
	return out
}

// validate says what doesn't fit the type.
func (c *Config) validate() error {
	for name, path := range map[string]string{"command": c.Command, "socket": c.Socket, "caFile": c.CAFile, "certFile": c.CertFile, "keyFile": c.KeyFile} {
		if path != "" && (!filepath.IsAbs(path) || filepath.Clean(path) != path) {
			return fmt.Errorf("%s %q: want an absolute path", name, path)
		}
	}
	unwanted := func(values ...string) bool { return strings.Join(values, "") != "" }
	switch c.Type {
	case Exec:
		if c.Command == "" || unwanted(c.URL, c.Socket, c.Address, c.ServerName, c.CAFile, c.CertFile, c.KeyFile, c.CABundle) {
			return errors.New("type exec: want command and args")
		}
	case Webhook:
		u, err := url.Parse(c.URL)
		if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" || unwanted(c.Command, c.Address, c.ServerName) || len(c.Args) > 0 {
			return errors.New("type webhook: want url, with caBundle or caFile, or with socket")
		}
		switch {
		case c.Socket != "" && u.Scheme != "http":
			return errors.New("url: want http://NAME/PATH with a socket")
		case c.Socket == "" && u.Scheme != "https":
			return errors.New("url: want https")
		case c.Socket == "" && c.CABundle == "" && c.CAFile == "":
			return errors.New("want caBundle or caFile: the node's own list of authorities is not trusted for this")
		}
	case GRPC:
		if (c.Socket == "") == (c.Address == "") || unwanted(c.Command, c.URL, c.CABundle) || len(c.Args) > 0 {
			return errors.New("type grpc: want socket, or address with caFile, certFile and keyFile")
		}
		if c.Address != "" {
			host, _, err := net.SplitHostPort(c.Address)
			if ip := net.ParseIP(host); err != nil || ip == nil || !ip.IsLoopback() {
				return fmt.Errorf("address %q: want an address of this machine, as 127.0.0.1:9443", c.Address)
			}
			if c.CAFile == "" || c.CertFile == "" || c.KeyFile == "" {
				return errors.New("address: want caFile, certFile and keyFile too")
			}
		}
	default:
		return errors.New("type: want exec, webhook or grpc")
	}
	if (c.CertFile == "") != (c.KeyFile == "") {
		return errors.New("want both certFile and keyFile")
	}
	return nil
}

// wants reports whether the plugin is asked.
func (c *Config) wants(q *Question) bool {
	if !slices.Contains(c.Moments, q.Moment) {
		return false
	}
	id := &q.Intent.Pod
	if ns := id.Namespace; ns.Certainty != spec.Unknown {
		if len(c.Match.Namespaces) > 0 && !slices.Contains(c.Match.Namespaces, ns.Value) || slices.Contains(c.Match.ExceptNamespaces, ns.Value) {
			return false
		}
	}
	if len(c.Match.Images) > 0 && id.Image.Certainty == spec.Known && q.Intent.Kind != spec.KindSandbox { // a sandbox's is its own
		name := id.Image.Value.Name
		return slices.ContainsFunc(c.Match.Images, func(pattern string) bool {
			prefix, any := strings.CutSuffix(pattern, "*")
			return pattern == name || any && strings.HasPrefix(name, prefix)
		})
	}
	return true
}
