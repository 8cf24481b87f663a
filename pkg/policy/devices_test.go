package policy

import (
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

func device(path, kind string, major, minor int64) func(*specs.Spec) {
	return func(s *specs.Spec) {
		s.Linux.Devices = append(s.Linux.Devices, specs.LinuxDevice{Path: path, Type: kind, Major: major, Minor: minor})
	}
}

// deviceRule lets a device be used. A number of -1 is left out.
func deviceRule(kind string, major, minor int64, access string) func(*specs.Spec) {
	number := func(n int64) *int64 {
		if n < 0 {
			return nil
		}
		return &n
	}
	return func(s *specs.Spec) {
		s.Linux.Resources.Devices = append(s.Linux.Resources.Devices, specs.LinuxDeviceCgroup{Allow: true, Type: kind, Major: number(major), Minor: number(minor), Access: access})
	}
}

func TestDevices(t *testing.T) {
	t.Parallel()
	fuse := both(device("/dev/fuse", "c", 10, 229), deviceRule("c", 10, 229, "rwm"))
	var defaults []func(*specs.Spec)
	for _, n := range []int64{3, 5, 7, 8, 9} {
		defaults = append(defaults, deviceRule("c", 1, n, "rwm"))
	}
	for n := range int64(3) {
		defaults = append(defaults, deviceRule("c", 5, n, "rwm"))
	}
	defaults = append(defaults, deviceRule("c", -1, -1, "m"), deviceRule("b", -1, -1, "m"), deviceRule("c", 136, -1, "rwm"),
		device("/dev/null", "c", 1, 3), device("/dev/tty", "u", 5, 0))
	runRuleTests(t, "devices", map[string]ruleTest{
		"no preset asks":                                   {level: Restricted, change: fuse, want: Satisfied},
		"a plain container has none":                       {settings: "{}", want: Satisfied},
		"what engines give every container is none":        {settings: "{}", change: both(defaults...), want: Satisfied},
		"a device is refused":                              {settings: "{}", change: fuse, want: Violated, says: "device /dev/fuse (c 10:229) can be used\ndevice c 10:229, access rwm, can be used"},
		"a node without a rule is refused":                 {settings: "{}", change: device("/dev/sda", "b", 8, 0), want: Violated, says: "device /dev/sda (b 8:0)"},
		"a rule without a node is refused":                 {settings: "{}", change: deviceRule("b", 8, -1, "r"), want: Violated, says: "device b 8:*, access r,"},
		"a rule for all devices is refused":                {settings: "{}", change: deviceRule("", -1, -1, "rwm"), want: Violated, says: "device a *:*, access rwm,"},
		"a rule for all character devices is refused":      {settings: "{}", change: deviceRule("c", -1, -1, "rw"), want: Violated, says: "device c *:*"},
		"a rule without access is one for all":             {settings: "{}", change: deviceRule("c", 10, 229, ""), want: Violated, says: "device c 10:229"},
		"a disk with the numbers of null is refused":       {settings: "{}", change: device("/dev/null", "b", 1, 3), want: Violated, says: "device /dev/null (b 1:3)"},
		"another of the memory devices is refused":         {settings: "{}", change: device("/dev/mem", "c", 1, 1), want: Violated, says: "device /dev/mem (c 1:1)"},
		"all memory devices are refused":                   {settings: "{}", change: deviceRule("c", 1, -1, "r"), want: Violated, says: "device c 1:*"},
		"an allowed path allows its node and its rule":     {settings: "{allow: [{path: /dev/fuse}]}", change: fuse, want: Satisfied},
		"a path may be a pattern":                          {settings: `{allow: [{path: "/dev/f*"}]}`, change: fuse, want: Satisfied},
		"an allowed path is no other's":                    {settings: "{allow: [{path: /dev/kvm}]}", change: fuse, want: Violated, says: "/dev/fuse"},
		"an allowed path allows no wider rule":             {settings: "{allow: [{path: /dev/fuse}]}", change: both(fuse, deviceRule("c", 10, -1, "rwm")), want: Violated, says: "device c 10:*"},
		"an allowed path with other numbers isn't it":      {settings: "{allow: [{path: /dev/fuse, type: c, major: 10, minor: 229}]}", change: both(device("/dev/fuse", "b", 8, 0), deviceRule("b", 8, 0, "rwm")), want: Violated, says: "device /dev/fuse (b 8:0) can be used\ndevice b 8:0"},
		"numbers allow node and rule":                      {settings: "{allow: [{type: c, major: 10, minor: 229}]}", change: fuse, want: Satisfied},
		"a major number allows all its minors":             {settings: "{allow: [{type: c, major: 10}]}", change: both(fuse, deviceRule("c", 10, -1, "rwm")), want: Satisfied},
		"a minor number allows no rule for all":            {settings: "{allow: [{type: c, major: 10, minor: 229}]}", change: deviceRule("c", 10, -1, "rwm"), want: Violated, says: "device c 10:*"},
		"a character device's numbers are no disk's":       {settings: "{allow: [{type: c, major: 8}]}", change: deviceRule("b", 8, 0, "r"), want: Violated, says: "device b 8:0"},
		"access is at most what is allowed":                {settings: "{allow: [{type: c, major: 10, access: r}]}", change: fuse, want: Violated, says: "device c 10:229, access rwm,"},
		"less access is satisfied":                         {settings: "{allow: [{type: c, major: 10, access: rw}]}", change: both(device("/dev/fuse", "c", 10, 229), deviceRule("c", 10, 229, "r")), want: Satisfied},
		"a device refused among others is named":           {settings: "{allow: [{path: /dev/fuse}]}", change: both(fuse, device("/dev/kvm", "c", 10, 232)), want: Violated, says: "device /dev/kvm (c 10:232) can be used\n"},
		"a sandbox's device is judged":                     {settings: "{}", kind: spec.KindSandbox, change: fuse, want: Violated, says: "/dev/fuse"},
		"a sandbox without waits":                          {settings: "{}", kind: spec.KindSandbox, want: Undetermined, says: "when the pod's containers"},
		"the containers of podman have no more by default": {settings: "{}", engine: spec.Podman, kind: spec.KindUnmanaged, change: both(defaults...), want: Satisfied},
	})
}
