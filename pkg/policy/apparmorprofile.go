package policy

import (
	"strings"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// appArmorProfile
//
// On a node that has AppArmor, a container must run under a profile.
//
// Reads: process.apparmorProfile; on the machine
// /sys/kernel/security/apparmor and the module's parameter.
// Known: at the container. Offline a container without a profile is taken to be
// for a node without AppArmor, and said to be assumed. Of a privileged container
// it is judged by the control privileged alone.
// Settings: profiles (names and patterns; default any), onHostWithout (Allow or
// Deny: what a node without AppArmor means; default Allow).
// Can't see: a profile that is loaded and in complain mode, or that allows all.
// Upstream: baseline, AppArmor (check_appArmorProfile.go), which refuses
// Unconfined; that is "" or "unconfined" here.
var appArmorProfileControl = Control{
	Name:              "appArmorProfile",
	reads:             []string{"process"},
	followsPrivileged: true,
	preset: func(l Level, _ Version) rule {
		if !baselineUp(l) {
			return nil
		}
		return appArmorProfile{}
	},
	parse: func(d *decoder, settings *strictyaml.Object, _ rule) rule {
		var r appArmorProfile
		for _, f := range settings.Fields {
			switch f.Name {
			case "profiles":
				r.profiles = d.patterns(f)
			case "onHostWithout":
				r.denyWithout = strictyaml.Choice(d.Decoder, f, "Allow", "Deny") == "Deny"
			default:
				d.UnknownField(settings, f, "profiles", "onHostWithout")
			}
		}
		return r
	},
}

type appArmorProfile struct {
	profiles    []string
	denyWithout bool
}

func (r appArmorProfile) evaluate(in *spec.Intent) []finding {
	f := in.AppArmor
	switch {
	case in.Kind == spec.KindSandbox:
		return waits(f.Source)
	case f.Certainty == spec.Unknown:
		return []finding{undetermined(f.Source, "its AppArmor profile can't be told")}
	case !unconfined(f.Value) && (r.profiles == nil || anyGlob(r.profiles, f.Value)):
		return nil
	case !unconfined(f.Value):
		return []finding{violated(f.Source, "AppArmor profile "+spec.Quote(f.Value)+" is used")}
	}
	switch host := in.AppArmorHost; {
	case host.Certainty == spec.Unknown:
		return []finding{undetermined(host.Source, "there is no AppArmor profile, and whether the node has AppArmor can't be told")}
	case host.Value:
		return []finding{violated(f.Source, "there is no AppArmor profile")}
	case r.denyWithout:
		return []finding{violated(host.Source, "there is no AppArmor profile, as on a node without AppArmor")}
	case host.Certainty == spec.Assumed:
		return []finding{assumption(f.Source, "there is no AppArmor profile: the node is taken to have no AppArmor")}
	}
	return nil
}

// unconfined reports whether a profile is none, as it is in every AppArmor
// namespace (":ns:unconfined").
func unconfined(profile string) bool {
	profile = profile[strings.LastIndexAny(profile, ":/")+1:]
	return profile == "" || profile == "unconfined"
}
