package doctor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v3"
	"golang.org/x/sys/unix"

	"github.com/nodeadmit/nodeadmit/internal/breakglass"
	"github.com/nodeadmit/nodeadmit/internal/config"
	"github.com/nodeadmit/nodeadmit/internal/install"
	"github.com/nodeadmit/nodeadmit/internal/policystore"
	"github.com/nodeadmit/nodeadmit/internal/rootfile"
	"github.com/nodeadmit/nodeadmit/pkg/policy"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// files looks who can write what decides.
func (x *examination) files() {
	lib := x.record.LibDir
	for _, name := range []string{lib + "/runtime-wrapper", lib + "/runtime-judge", lib + "/oci-hook", lib, lib + "/runtimes", x.record.Config, filepath.Dir(x.record.Config)} {
		info, err := os.Stat(name)
		if err == nil {
			err = rootfile.Check(name, info)
		}
		if err == nil && info.Mode().IsRegular() && name != x.record.Config && info.Mode()&0o111 == 0 {
			err = fmt.Errorf("%s: can't be executed (chmod 755 %s)", name, name)
		}
		x.note("files", name, err)
	}
}

// hooks looks at all hooks.d files that call us: an engine drops a hook whose
// program is missing and says nothing.
func (x *examination) hooks() {
	for _, pattern := range []string{"/etc/nodeadmit/hooks.d/*/*.json", "/usr/share/containers/oci/hooks.d/*.json", "/etc/containers/oci/hooks.d/*.json"} {
		found, _ := filepath.Glob(pattern)
		for _, name := range found {
			text, err := os.ReadFile(name)
			if err != nil || !bytes.Contains(text, []byte("nodeadmit")) {
				continue
			}
			x.note("hooks", name, checkHook(name, text))
		}
	}
}

func checkHook(name string, text []byte) error {
	var h struct {
		Version string
		Hook    struct {
			Path string
			Env  []string
		}
		When   map[string]any
		Stages []string
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return fmt.Errorf("%s: engines drop it: %w", name, err)
	}
	info, err := os.Stat(h.Hook.Path)
	switch {
	case err != nil:
		return fmt.Errorf("%s: points nowhere, so engines run containers without it: %w", name, err)
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return fmt.Errorf("%s: %s can't be executed", name, h.Hook.Path)
	case h.When["always"] != true:
		return fmt.Errorf("%s: when.always is %v: want true, as a boolean", name, h.When["always"])
	case len(h.Hook.Env) == 0:
		return fmt.Errorf("%s: hook.env is empty: some runtimes give the container's then", name)
	case len(h.Stages) == 0 || slices.ContainsFunc(h.Stages, func(s string) bool { return s != "prestart" && s != "createRuntime" }):
		return fmt.Errorf("%s: stages are %v: want createRuntime", name, h.Stages)
	}
	return nil
}

func (x *examination) configuration() {
	c, err := config.Load(x.record.Config)
	x.note("configuration", x.record.Config, err)
	if err != nil {
		return
	}
	x.config = c
	for _, h := range x.record.Handlers {
		if _, ok := c.Runtimes[h.Name]; !ok {
			x.add("configuration", h.Name, Problem, "%s: runtimes has no %q: no container of handler %q starts (nodeadmit install)", x.record.Config, h.Name, h.Handler)
		}
	}
	if c.FailOpen {
		x.add("configuration", "failureMode", Warning, "Open: what can't be judged because of the node's own faults is started")
	}
	if c.Unmanaged == config.UnmanagedAllow {
		x.add("configuration", "unmanaged", Warning, "Allow: a container that no Kubernetes made is not judged")
	}
	if !c.LateCheck {
		x.add("configuration", "lateCheck", Warning, "off: what is real only when a container is made is not judged")
	}
}

func (x *examination) policies() {
	if x.config == nil {
		return
	}
	dir := x.config.PolicyDir
	set, err := policy.Load(dir, policy.LoadOptions{RequireRoot: true})
	if err != nil {
		loaded, serr := policystore.Load(dir, filepath.Join(x.config.StateDir, "policy"))
		if serr != nil {
			x.add("policy", dir, Problem, "no policy is in force, every start is refused: %v", err)
			return
		}
		x.add("policy", dir, Problem, "doesn't load; the last good policy, of %s, is in force: %v", loaded.Since.UTC().Format(time.RFC3339), err)
		set = loaded.Set
	} else {
		x.add("policy", dir, OK, "%d policies, digest %s", len(set.Policies), set.Digest)
	}
	if !slices.ContainsFunc(set.Policies, func(p *policy.Policy) bool { return p.Mode == policy.Enforce }) {
		x.add("policy", dir, Warning, "every policy is in mode Audit: nothing is refused")
	}
	x.undecided(set)
}

// undecided judges a container that asks for nothing: what can't be decided of it
// can't be decided of any.
func (x *examination) undecided(set *policy.Set) {
	var dialects []spec.Dialect
	for _, h := range x.record.Handlers {
		if slices.Contains(dialects, h.Engine) {
			continue
		}
		dialects = append(dialects, h.Engine)
		in, err := plainContainer(x.config.Runtimes[h.Name].Engine)
		if err != nil {
			x.add("undecided", string(h.Engine), Problem, "%v", err)
			continue
		}
		d := set.Evaluate(in)
		for _, n := range d.Undetermined {
			x.add("undecided", string(h.Engine)+" "+n.Control, Note, "policy %q can't decide it for any container and lets it pass: %s%s", n.Policy, n.Message, sourceFor(n.Control))
		}
		for _, v := range d.Violations {
			s := Problem
			if v.Mode != policy.Enforce {
				s = Warning
			}
			x.add("undecided", string(h.Engine)+" "+v.Control, s, "policy %q refuses even a container that asks for nothing: %s%s", v.Policy, v.Message, sourceFor(v.Control))
		}
	}
}

// sourceFor names what would know a fact.
func sourceFor(control string) string {
	switch control {
	case "hostPorts":
		return " (a pod source knows it: kubeletPodsAPI, staticManifests or containerd; or containerd's container_annotations = [\"io.kubernetes.container.*\"])"
	case "volumes":
		return " (a pod source knows it: kubeletPodsAPI or staticManifests)"
	case "images":
		return " (containerd 2 tells the image's name; before it an image source would)"
	}
	return ""
}

// minFree is what the decision log's filesystem should have.
const minFree = 100 << 20

func (x *examination) log() {
	if x.config == nil || x.config.DecisionLog == "" {
		return
	}
	path := x.config.DecisionLog
	dir := filepath.Dir(path)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if os.IsNotExist(err) {
		for err = error(nil); ; dir = filepath.Dir(dir) {
			if _, serr := os.Stat(dir); serr == nil || dir == "/" {
				break
			}
		}
		err = unix.Access(dir, unix.W_OK)
	} else if err == nil {
		err = f.Close()
	}
	if err != nil {
		x.add("log", path, Problem, "can't be written: decisions are taken and not recorded: %v", err)
		return
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		x.add("log", path, Problem, "%v", err)
		return
	}
	free := st.Bavail * uint64(st.Bsize)
	if free < minFree || st.Files > 0 && st.Ffree < 100 {
		x.add("log", path, Problem, "its filesystem has %d MiB and %d inodes left", free>>20, st.Ffree)
		return
	}
	x.add("log", path, OK, "%d MiB are free", free>>20)
}

// kubelet looks at what of the kubelet's configuration matters, where it can be
// seen.
func (x *examination) kubelet() {
	on, seen := seccompDefault()
	if seen && !on {
		x.add("kubelet", "seccompDefault", Warning, "off: a container that names no seccomp profile runs without one (seccompDefault: true in the kubelet's configuration)")
	} else if seen {
		x.add("kubelet", "seccompDefault", OK, "")
	}
}

func seccompDefault() (on, seen bool) {
	file := "/var/lib/kubelet/config.yaml"
	found, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range found {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		args := strings.Split(string(text), "\x00")
		if filepath.Base(args[0]) != "kubelet" {
			continue
		}
		seen = true
		for i, a := range args {
			if a == "--seccomp-default" || a == "--seccomp-default=true" {
				on = true
			}
			if v, ok := strings.CutPrefix(a, "--config="); ok {
				file = v
			} else if a == "--config" && i+1 < len(args) {
				file = args[i+1]
			}
		}
	}
	var c struct {
		SeccompDefault bool `yaml:"seccompDefault"`
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return on, seen
	}
	if yaml.Unmarshal(text, &c) == nil {
		on, seen = on || c.SeccompDefault, true
	}
	return on, seen
}

func (x *examination) breakGlass() {
	until, err := breakglass.Active(time.Now())
	switch {
	case err != nil:
		x.add("break-glass", breakglass.File, Problem, "%v: it is not obeyed", err)
	case !until.IsZero():
		x.add("break-glass", breakglass.File, Problem, "nothing is refused until %s (nodeadmit enable)", until.UTC().Format(time.RFC3339))
	}
}

// handlers looks at each engine's handlers and proves the wrapped ones.
func (x *examination) handlers() {
	if x.plan == nil {
		return
	}
	for _, u := range x.plan.Uncovered {
		x.add("handler", string(u.Engine)+" "+u.Handler, Problem, "not covered: %s", u.Reason)
	}
	for _, w := range x.plan.Warnings {
		x.add("warning", "", Warning, "%s", w)
	}
	versions := map[string]bool{}
	for _, h := range x.plan.Handlers {
		subject := string(h.Engine) + " " + h.Handler
		if !x.plan.Wrapped(h) {
			x.add("handler", subject, Problem, "not wrapped: a pod of this handler goes round nodeadmit (nodeadmit install)")
			continue
		}
		x.add("handler", subject, OK, "%s calls %s", x.plan.Wrapper(h), h.Real)
		if !versions[h.Real] {
			versions[h.Real] = true
			x.runtimeVersion(h)
		}
		if !x.o.NoProof {
			x.prove(h)
		}
	}
	for _, e := range x.plan.Engines {
		if install.RunsSinceBefore(e, x.record) {
			x.add("engine", string(e.Dialect), Problem, "runs since before its configuration was changed: systemctl restart %s", e.Unit)
		}
	}
}
