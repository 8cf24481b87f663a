package policy

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// since says from which minor version on a level restricts a control, by
// upstream's MinimumVersion and its level, and -1 where it never does.
var since = map[string]struct{ baseline, restricted int }{
	"privileged":               {0, 0},
	"hostPID":                  {0, 0},
	"hostNetwork":              {0, 0},
	"hostIPC":                  {0, 0},
	"hostPaths":                {0, 0},
	"capabilities":             {0, 0},
	"procMount":                {0, 0},
	"sysctls":                  {0, 0},
	"seccompProfile":           {0, 0},
	"appArmorProfile":          {0, 0},
	"seLinuxOptions":           {0, 0},
	"hostPorts":                {0, 0},
	"volumes":                  {-1, 0},
	"runAsNonRoot":             {-1, 0},
	"runAsUser":                {-1, 23},
	"allowPrivilegeEscalation": {-1, 8},
	// Not upstream's: escapes that no honest pod trips.
	"workingDirectory":   {0, 0},
	"runtimeAnnotations": {0, 0},
	// Nobody's preset.
	"hostUsers":              {-1, -1},
	"devices":                {-1, -1},
	"cgroupWritable":         {-1, -1},
	"sysWritable":            {-1, -1},
	"readOnlyRootFilesystem": {-1, -1},
	"environment":            {-1, -1},
	"images":                 {-1, -1},
}

func TestALevelRestrictsAControlFromUpstreamsVersionOn(t *testing.T) {
	t.Parallel()
	for _, c := range Controls() {
		want, ok := since[c.Name]
		if !ok {
			t.Errorf("%s is not in the table", c.Name)
			continue
		}
		for minor := 0; minor <= newestVersion+1; minor++ {
			v := Version{minor: minor, latest: minor > newestVersion}
			if c.Restricts(Privileged, v) {
				t.Errorf("privileged %s restricts %s", v, c.Name)
			}
			if got := c.Restricts(Baseline, v); got != (want.baseline >= 0 && minor >= want.baseline) {
				t.Errorf("baseline %s restricts %s: %v", v, c.Name, got)
			}
			if got := c.Restricts(Restricted, v); got != (want.restricted >= 0 && minor >= want.restricted) {
				t.Errorf("restricted %s restricts %s: %v", v, c.Name, got)
			}
		}
	}
	if len(since) != len(Controls()) {
		t.Errorf("%d controls, %d in the table", len(Controls()), len(since))
	}
}

func TestOnlyHostPortsMayStayUndeterminedInAPreset(t *testing.T) {
	t.Parallel()
	for _, level := range []Level{Baseline, Restricted} {
		var got []string
		for _, a := range rulePolicy(t, level, "", "", "").active {
			if a.undeterminedAllowed {
				got = append(got, a.control.Name)
			}
		}
		if diff := cmp.Diff([]string{"hostPorts"}, got); diff != "" {
			t.Errorf("%s: %s", level, diff)
		}
	}
	for name, c := range map[string]struct {
		level    Level
		settings string
		want     bool
	}{
		"own settings over a preset keep it":     {Baseline, "{allow: [80]}", true},
		"a policy can take it back":              {Baseline, "{onUndetermined: Deny}", false},
		"without a preset it isn't allowed":      {Privileged, "{}", false},
		"without a preset a policy can allow it": {Privileged, "{onUndetermined: Allow}", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, a := range rulePolicy(t, c.level, "", "hostPorts", c.settings).active {
				if a.control.Name == "hostPorts" && a.undeterminedAllowed != c.want {
					t.Errorf("allowed: %v, want %v", a.undeterminedAllowed, c.want)
				}
			}
		})
	}
}

func TestEveryControlCanBeSetAlone(t *testing.T) {
	t.Parallel()
	for _, name := range ControlNames() {
		p := rulePolicy(t, Privileged, "", name, "{}")
		if len(p.active) != 1 || p.active[0].control.Name != name {
			t.Errorf("%s: {} activates %d controls", name, len(p.active))
		}
	}
}

func TestSettingsAreReadStrictly(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ control, settings, want string }{
		"hostUsers has no level":                          {"hostUsers", "{level: 1}", `p.yaml:7:17: unknown field "level" in hostUsers: want allow`},
		"a control's words are true or false":             {"hostUsers", "{allow: yes please}", `want true or false`},
		"a port is a number":                              {"hostPorts", "{allow: [http]}", `p.yaml:7:25: allow[0]: want a mapping, not "http"`},
		"a port is at most 65535":                         {"hostPorts", "{allow: [65536]}", `p.yaml:7:25: allow[0] is 65536: want a number from 0 to 65535`},
		"a range has both ends":                           {"hostPorts", "{allow: [{min: 80}]}", `want a number, or both min and max`},
		"a range runs upward":                             {"hostPorts", "{allow: [{min: 80, max: 79}]}", `max 79 is below min 80`},
		"a range has no third end":                        {"hostPorts", "{allow: [{min: 80, max: 81, step: 2}]}", `unknown field "step" in allow[0]`},
		"a list is a list":                                {"hostPorts", "{allow: 80}", `allow: want a list, not the number 80`},
		"a volume type is known":                          {"volumes", "{allow: [emptydir]}", `p.yaml:7:23: unknown volume type "emptydir": did you mean "emptyDir"?`},
		"an empty word is not known":                      {"volumes", `{allow: [""]}`, `unknown volume type ""`},
		"a sysctl has a name":                             {"sysctls", `{allow: ["*"]}`, `sysctl "*": want a name`},
		"a sysctl's star stands last":                     {"sysctls", `{allow: ["net.*.forwarding"]}`, `sysctl "net.*.forwarding": want a name`},
		"a sysctl is no path out":                         {"sysctls", `{allow: ["net/../kernel"]}`, `want a name`},
		"a seccomp type is known":                         {"seccompProfile", "{types: [Unconfined]}", `unknown seccomp profile type "Unconfined": want RuntimeDefault or Localhost`},
		"seccompProfile has no allow":                     {"seccompProfile", "{allow: []}", `unknown field "allow" in seccompProfile`},
		"an AppArmor pattern can match":                   {"appArmorProfile", `{profiles: ["["]}`, `pattern "[" can't match`},
		"a host without AppArmor is allowed or denied":    {"appArmorProfile", "{onHostWithout: Ignore}", `onHostWithout is "Ignore": want Allow or Deny`},
		"an SELinux type is one word":                     {"seLinuxOptions", `{types: ["a:b"]}`, `types[0] is "a:b": want one word, as container_t`},
		"an SELinux type has no patterns":                 {"seLinuxOptions", `{types: ["container_*"]}`, `want one word`},
		"runAsNonRoot takes true or false":                {"runAsNonRoot", "{required: 1}", `required: want true or false, not the number 1`},
		"a uid is below 2^32":                             {"runAsUser", "{ranges: [4294967296]}", `want a number from 0 to 4294967295`},
		"runAsUser has ranges of groups by name":          {"runAsUser", "{groups: []}", `unknown field "groups" in runAsUser`},
		"a device has a path or numbers":                  {"devices", "{allow: [{type: c}]}", `allow[0]: want a path, or type and major`},
		"a device is a character or block one":            {"devices", "{allow: [{type: u, major: 1}]}", `type is "u": want c or b`},
		"a device's access is of three letters":           {"devices", "{allow: [{path: /dev/x, access: rx}]}", `access "rx": want letters of r, w and m`},
		"a variable has a name":                           {"environment", "{allow: [{value: x}]}", `allow[0]: name is missing`},
		"a variable's pattern can match":                  {"environment", `{allow: [{name: LD_PRELOAD, value: "[a"}]}`, `pattern "[a" can't match`},
		"an annotation is no number":                      {"runtimeAnnotations", "{allow: [1]}", `allow[0]: want a mapping`},
		"a registry has a host":                           {"images", "{registries: [library]}", `registry "library": want a registry's host first`},
		"a registry has no tag":                           {"images", `{registries: ["docker.io/library/nginx:1"]}`, `want a registry's host first`},
		"a registry doesn't end in a slash":               {"images", `{registries: ["reg.corp/"]}`, `want a registry's host first`},
		"a denied digest is one":                          {"images", `{deniedDigests: ["sha256:abc"]}`, `digest "sha256:abc": want sha256: and 64`},
		"images has no allow":                             {"images", `{allow: []}`, `unknown field "allow" in images: want registries, deniedRegistries, requireDigest or deniedDigests`},
		"a capability that must be dropped is known":      {"capabilities", `{requireDrop: [NET_RAWW]}`, `unknown capability "NET_RAWW": did you mean "NET_RAW"?`},
		"readOnlyRootFilesystem has required":             {"readOnlyRootFilesystem", "{allow: true}", `unknown field "allow" in readOnlyRootFilesystem: want required`},
		"exec is a later control, no silent one":          {"exec", "{}", `unknown control "exec"`},
		"every control has mode and onUndetermined":       {"images", "{mode: Warn}", `mode is "Warn": want Enforce or Audit`},
		"a device's number isn't hexadecimal":             {"devices", "{allow: [{type: c, major: 0x0a}]}", `want a number`},
		"workingDirectory takes only allow":               {"workingDirectory", "{paths: []}", `unknown field "paths" in workingDirectory`},
		"cgroupWritable takes only allow":                 {"cgroupWritable", "{required: true}", `unknown field "required" in cgroupWritable`},
		"allowPrivilegeEscalation takes only allow":       {"allowPrivilegeEscalation", "{required: true}", `unknown field "required"`},
		"an environment's allow list has names and pairs": {"environment", "{allow: [[LD_PRELOAD]]}", `allow[0]: want a mapping`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := "apiVersion: " + APIVersion + "\nkind: NodePolicy\nmetadata: {name: p}\nspec:\n  preset: privileged\n  controls:\n    " + c.control + ": " + c.settings + "\n"
			_, err := Parse("p.yaml", []byte(text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %s", err, c.want)
			}
			if err != nil && !strings.HasPrefix(err.Error(), "p.yaml:7:") {
				t.Errorf("error has no place: %v", err)
			}
		})
	}
}

func TestPrivilegedAloneJudgesWhatItTurnsOff(t *testing.T) {
	t.Parallel()
	in := ruleIntent(t, ruleTest{change: asPrivileged, host: machine{appArmor: true}})
	controls := func(d Decision) []string {
		var out []string
		for _, v := range d.Violations {
			out = append(out, v.Control)
		}
		return out
	}
	evaluate := func(p *Policy) []string { return controls((&Set{Policies: []*Policy{p}}).Evaluate(in)) }
	if diff := cmp.Diff([]string{"privileged"}, evaluate(rulePolicy(t, Baseline, "", "", ""))); diff != "" {
		t.Errorf("baseline: %s", diff)
	}
	// Upstream judges these fields of a privileged container as of any other.
	if diff := cmp.Diff([]string{"privileged", "allowPrivilegeEscalation"}, evaluate(rulePolicy(t, Restricted, "", "", ""))); diff != "" {
		t.Errorf("restricted: %s", diff)
	}
	if diff := cmp.Diff([]string(nil), evaluate(rulePolicy(t, Baseline, "", "privileged", "{allow: true}"))); diff != "" {
		t.Errorf("a policy that allows privileged allows what follows from it: %s", diff)
	}
	for _, name := range []string{"seccompProfile", "appArmorProfile", "procMount", "devices", "cgroupWritable", "sysWritable"} {
		if diff := cmp.Diff([]string{name}, evaluate(rulePolicy(t, Privileged, "", name, "{}"))); diff != "" {
			t.Errorf("a policy that has no control privileged judges %s itself: %s", name, diff)
		}
	}
}

func TestRestrictedAsksNoMoreOfASandboxThanBaseline(t *testing.T) {
	t.Parallel()
	for _, engine := range []spec.Dialect{spec.Containerd, spec.CRIO} {
		in := ruleIntent(t, ruleTest{engine: engine, kind: spec.KindSandbox})
		for _, level := range []Level{Baseline, Restricted} {
			set := &Set{Policies: []*Policy{rulePolicy(t, level, "", "", "")}}
			if d := set.Evaluate(in); !d.Allowed || len(d.Violations) > 0 {
				t.Errorf("%s, %s: %+v", engine, level, d.Violations)
			}
		}
	}
}
