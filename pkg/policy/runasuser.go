package policy

import (
	"fmt"
	"math"

	"github.com/nodeadmit/nodeadmit/internal/strictyaml"
	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// runAsUser
//
// Users and groups must be within the ranges.
//
// Reads: process.user (uid, gid, additionalGids).
// Known: at the container.
// Settings: ranges (of uids; default in the preset all but 0), runAsGroup (of the
// gid), supplementalGroups and fsGroup (of additional groups, each of which must
// be in one of the two), all lists of numbers and of {min, max};
// allowInUserNamespace (true or false: uid 0 of a user namespace of the pod's own
// is allowed; of the preset's as long as ranges isn't set).
// Can't see: whether the pod or its image named the user; which of the additional
// groups is fsGroup. Numbers are the container's, before a user namespace maps
// them.
// Upstream: restricted since v1.23, Running as Non-root user (check_runAsUser.go);
// since v1.35 allowed in a user namespace. Groups: no preset.
var runAsUserControl = Control{
	Name:  "runAsUser",
	reads: []string{"process", "linux"},
	preset: func(l Level, v Version) rule {
		if l != Restricted || !v.atLeast(23) {
			return nil
		}
		return runAsUser{users: []interval{{1, maxID}}, allowInUserNamespace: v.atLeast(35)}
	},
	parse: func(d *decoder, settings *strictyaml.Object, preset rule) rule {
		r, _ := preset.(runAsUser)
		if _, ok := settings.Get("ranges"); ok {
			r.allowInUserNamespace = false
		}
		for _, f := range settings.Fields {
			switch f.Name {
			case "ranges":
				r.users = d.intervals(f, maxID)
			case "runAsGroup":
				r.groups = d.intervals(f, maxID)
			case "supplementalGroups":
				r.supplemental, r.limitsSupplemental = append(r.supplemental, d.intervals(f, maxID)...), true
			case "fsGroup":
				r.supplemental, r.limitsSupplemental = append(r.supplemental, d.intervals(f, maxID)...), true
			case "allowInUserNamespace":
				r.allowInUserNamespace = d.Bool(f)
			default:
				d.UnknownField(settings, f, "ranges", "runAsGroup", "supplementalGroups", "fsGroup", "allowInUserNamespace")
			}
		}
		return r
	},
}

const maxID = math.MaxUint32

// runAsUser has ranges, of which nil is no limit.
type runAsUser struct {
	users, groups, supplemental []interval
	limitsSupplemental          bool
	allowInUserNamespace        bool
}

func (r runAsUser) evaluate(in *spec.Intent) []finding {
	if in.Kind == spec.KindSandbox {
		return waits("process.user")
	}
	if in.UID.Certainty == spec.Unknown {
		return []finding{undetermined(in.UID.Source, "the user that it runs as can't be told")}
	}
	var out []finding
	if uid := in.UID.Value; r.users != nil && !within(r.users, int64(uid)) {
		relaxed := false
		if uid == 0 && r.allowInUserNamespace {
			relaxed, out = userNamespace(in)
		}
		if !relaxed {
			out = append(out, violated(in.UID.Source, fmt.Sprintf("it runs as user %d", uid)))
		}
	}
	gid := in.GID.Value
	if r.groups != nil && !within(r.groups, int64(gid)) {
		out = append(out, violated(in.GID.Source, fmt.Sprintf("it runs as group %d", gid)))
	}
	if !r.limitsSupplemental {
		return out
	}
	for i, g := range in.AdditionalGIDs.Value {
		// Engines list the primary group here too, which runAsGroup judges.
		if !within(r.supplemental, int64(g)) && (g != gid || r.groups == nil) {
			out = append(out, violated(fmt.Sprintf("%s[%d]", in.AdditionalGIDs.Source, i), fmt.Sprintf("it has supplemental group %d", g)))
		}
	}
	return out
}
