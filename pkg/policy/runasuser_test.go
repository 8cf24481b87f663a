package policy

import (
	"testing"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

func TestRunAsUser(t *testing.T) {
	t.Parallel()
	root := runAs(0, 0)
	const users = "{ranges: [{min: 1000, max: 1999}, 5000]}"
	runRuleTests(t, "runAsUser", map[string]ruleTest{
		"baseline allows root":                                 {level: Baseline, change: root, want: Satisfied},
		"restricted v1.22 doesn't ask":                         {level: Restricted, version: "v1.22", change: root, want: Satisfied},
		"restricted v1.23 refuses root":                        {level: Restricted, version: "v1.23", change: root, want: Violated, says: "it runs as user 0"},
		"restricted allows any other":                          {level: Restricted, change: runAs(4294967295, 0), want: Satisfied},
		"root in a user namespace is refused in v1.34":         {level: Restricted, version: "v1.34", change: both(root, podUsers), want: Violated, says: "it runs as user 0"},
		"root in a user namespace is allowed in v1.35":         {level: Restricted, version: "v1.35", change: both(root, podUsers), want: Satisfied},
		"a namespace behind a path is assumed offline":         {level: Restricted, change: both(root, joinedUsers), want: Satisfied, says: "taken as the pod's own"},
		"a namespace that is gone can't be told":               {level: Restricted, host: goneMachine{}, change: both(root, joinedUsers), want: Undetermined, says: "can't be told"},
		"a sandbox waits":                                      {level: Restricted, kind: spec.KindSandbox, change: root, want: Undetermined, says: "when the pod's containers"},
		"without a process nothing can be told":                {level: Restricted, change: noProcess, want: Undetermined, says: "can't be told"},
		"a user in a range is satisfied":                       {settings: users, change: runAs(1999, 0), want: Satisfied},
		"a single number is a range":                           {settings: users, change: runAs(5000, 0), want: Satisfied},
		"a user out of range is refused":                       {settings: users, change: runAs(2000, 0), want: Violated, says: "it runs as user 2000"},
		"own ranges aren't relaxed by a user namespace":        {level: Restricted, settings: users, change: both(root, podUsers), want: Violated, says: "it runs as user 0"},
		"but they can be":                                      {level: Restricted, settings: "{ranges: [1000], allowInUserNamespace: true}", change: both(root, podUsers), want: Satisfied},
		"a relaxed user namespace is for root alone":           {settings: "{ranges: [1000], allowInUserNamespace: true}", change: both(runAs(7, 7), podUsers), want: Violated, says: "it runs as user 7"},
		"an empty list of ranges has nobody":                   {settings: "{ranges: []}", change: runAs(1000, 0), want: Violated, says: "it runs as user 1000"},
		"without ranges there is no limit":                     {settings: "{}", change: root, want: Satisfied},
		"the preset's range stays beside limits on groups":     {level: Restricted, settings: "{runAsGroup: [0]}", change: root, want: Violated, says: "it runs as user 0"},
		"a group in range is satisfied":                        {settings: "{runAsGroup: [{min: 1, max: 9999}]}", change: runAs(0, 1000, 1000), want: Satisfied},
		"root's group is refused (CASE 53)":                    {settings: "{runAsGroup: [{min: 1, max: 9999}]}", change: runAs(1000, 0, 0), want: Violated, says: "it runs as group 0"},
		"root's group is seen among the supplemental":          {settings: "{supplementalGroups: [{min: 1, max: 9999}]}", change: runAs(1000, 0, 0), want: Violated, says: "it has supplemental group 0"},
		"the primary group is left to its own range":           {settings: "{runAsGroup: [0], supplementalGroups: [2000]}", change: runAs(1000, 0, 0, 2000), want: Satisfied},
		"a supplemental group out of range is refused":         {settings: "{supplementalGroups: [2000]}", change: runAs(1000, 2000, 2000, 3000), want: Violated, says: "it has supplemental group 3000"},
		"fsGroup shows as a supplemental group":                {settings: "{supplementalGroups: [2000], fsGroup: [3000]}", change: runAs(1000, 2000, 2000, 3000), want: Satisfied},
		"fsGroup alone limits the supplemental groups as well": {settings: "{fsGroup: [3000]}", change: runAs(1000, 1000, 3000, 4000), want: Violated, says: "it has supplemental group 4000"},
		"no supplemental groups satisfy an empty list":         {settings: "{supplementalGroups: []}", change: runAs(1000, 1000), want: Satisfied},
	})
}
