package policy

import (
	"fmt"
	"testing"

	specs "github.com/opencontainers/runtime-spec/specs-go"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

func sysctl(name, value string) func(*specs.Spec) {
	return func(s *specs.Spec) {
		if s.Linux.Sysctl == nil {
			s.Linux.Sysctl = map[string]string{}
		}
		s.Linux.Sysctl[name] = value
	}
}

// The versions are those of upstream's check_sysctls.go.
func TestTheSafeSysctlsGrowWithTheVersion(t *testing.T) {
	t.Parallel()
	tests := map[string]ruleTest{}
	for name, since := range map[string]int{
		"kernel.shm_rmid_forced":              0,
		"net.ipv4.ip_local_port_range":        0,
		"net.ipv4.tcp_syncookies":             0,
		"net.ipv4.ping_group_range":           0,
		"net.ipv4.ip_unprivileged_port_start": 0,
		"net.ipv4.ip_local_reserved_ports":    27,
		"net.ipv4.tcp_keepalive_time":         29,
		"net.ipv4.tcp_fin_timeout":            29,
		"net.ipv4.tcp_keepalive_intvl":        29,
		"net.ipv4.tcp_keepalive_probes":       29,
		"net.ipv4.tcp_rmem":                   32,
		"net.ipv4.tcp_wmem":                   32,
		"net.ipv4.tcp_slow_start_after_idle":  37,
		"net.ipv4.tcp_notsent_lowat":          37,
		"net.core.somaxconn":                  99,
		"kernel.msgmax":                       99,
	} {
		for minor := 0; minor <= newestVersion; minor++ {
			for _, level := range []Level{Baseline, Restricted} {
				c := ruleTest{level: level, version: fmt.Sprintf("v1.%d", minor), kind: spec.KindSandbox, change: sysctl(name, "1")}
				if minor < since {
					c.want, c.says = Violated, "sysctl "+name+" is set"
				}
				tests[fmt.Sprintf("%s in %s %s", name, level, c.version)] = c
			}
		}
	}
	runRuleTests(t, "sysctls", tests)
}

func TestSysctls(t *testing.T) {
	t.Parallel()
	sandbox := func(settings string, want Result, says string, changes ...func(*specs.Spec)) ruleTest {
		return ruleTest{level: Baseline, settings: settings, kind: spec.KindSandbox, change: both(changes...), want: want, says: says}
	}
	const safe, unsafe = "net.ipv4.tcp_syncookies", "net.core.somaxconn"
	netHost, ipcHost, utsHost := hostNamespaceOf(specs.NetworkNamespace), hostNamespaceOf(specs.IPCNamespace), hostNamespaceOf(specs.UTSNamespace)
	runRuleTests(t, "sysctls", map[string]ruleTest{
		"privileged allows all":                                     {kind: spec.KindSandbox, change: sysctl("kernel.core_pattern", "|/x"), want: Satisfied},
		"a sandbox without any is satisfied":                        sandbox("", Satisfied, ""),
		"a container of containerd was judged at its sandbox":       {level: Baseline, want: Satisfied},
		"a container of CRI-O is taken as judged":                   {level: Baseline, engine: spec.CRIO, want: Satisfied, says: "taken as judged at its sandbox"},
		"a container that has one is judged":                        {level: Baseline, change: sysctl(unsafe, "1"), want: Violated, says: "sysctl net.core.somaxconn is set"},
		"every bad one is named":                                    sandbox("", Violated, "sysctl kernel.msgmax is set\nsysctl net.core.somaxconn is set", sysctl(unsafe, "1"), sysctl("kernel.msgmax", "1")),
		"a name with slashes is the same name":                      sandbox("", Satisfied, "", sysctl("net/ipv4/tcp_syncookies", "1")),
		"an unsafe name with slashes is refused":                    sandbox("", Violated, "net.core.somaxconn", sysctl("net/core/somaxconn", "1")),
		"an allowed name is satisfied":                              sandbox("{allow: [net.core.somaxconn]}", Satisfied, "", sysctl(unsafe, "1")),
		"the preset's stay allowed beside it":                       sandbox("{allow: [net.core.somaxconn]}", Satisfied, "", sysctl(safe, "1")),
		"a name may be allowed with slashes":                        sandbox("{allow: [net/core/somaxconn]}", Satisfied, "", sysctl(unsafe, "1")),
		"a pattern ends in a star":                                  sandbox(`{allow: ["net.core.*"]}`, Satisfied, "", sysctl(unsafe, "1")),
		"a pattern matches within a part":                           sandbox(`{allow: ["kernel.shm*"]}`, Satisfied, "", sysctl("kernel.shmmax", "1")),
		"a pattern doesn't match another":                           sandbox(`{allow: ["net.ipv4.*"]}`, Violated, "net.core.somaxconn", sysctl(unsafe, "1")),
		"an interface's dot is a slash":                             sandbox(`{allow: ["net.ipv4.conf.*"]}`, Satisfied, "", sysctl("net/ipv4/conf/eth0.1/forwarding", "1")),
		"without a preset only the listed are allowed":              {settings: "{}", kind: spec.KindSandbox, change: sysctl(safe, "1"), want: Violated, says: safe},
		"a safe one is the node's with the host's network":          sandbox("", Violated, "net.ipv4.tcp_syncookies is set, for the whole node", netHost, sysctl(safe, "1")),
		"a safe one is the node's with the host's IPC":              sandbox("", Violated, "kernel.shm_rmid_forced is set, for the whole node", ipcHost, sysctl("kernel.shm_rmid_forced", "1")),
		"an IPC one is the pod's with the host's network":           sandbox("", Satisfied, "", netHost, sysctl("kernel.shm_rmid_forced", "1")),
		"allowed to a pod isn't allowed for the node":               sandbox("{allow: [net.core.somaxconn]}", Violated, "for the whole node", netHost, sysctl(unsafe, "1")),
		"the node's may be allowed by name":                         sandbox("{allowHostWide: [net.core.somaxconn]}", Satisfied, "", netHost, sysctl(unsafe, "1")),
		"kernel.sem is IPC":                                         sandbox("{allow: [kernel.sem]}", Violated, "for the whole node", ipcHost, sysctl("kernel.sem", "1 2 3 4")),
		"kernel.msgmax is IPC":                                      sandbox("{allow: [kernel.msgmax]}", Violated, "for the whole node", ipcHost, sysctl("kernel.msgmax", "1")),
		"fs.mqueue is IPC":                                          sandbox(`{allow: ["fs.mqueue.*"]}`, Violated, "for the whole node", ipcHost, sysctl("fs.mqueue.msg_max", "1")),
		"fs.mqueue is the pod's in its own":                         sandbox(`{allow: ["fs.mqueue.*"]}`, Satisfied, "", sysctl("fs.mqueue.msg_max", "1")),
		"kernel.domainname is UTS":                                  sandbox("{allow: [kernel.domainname]}", Violated, "for the whole node", utsHost, sysctl("kernel.domainname", "x")),
		"one without a namespace is always the node's":              sandbox("{allow: [vm.swappiness]}", Violated, "vm.swappiness is set, for the whole node", sysctl("vm.swappiness", "1")),
		"that too may be allowed":                                   sandbox("{allowHostWide: [vm.swappiness]}", Satisfied, "", sysctl("vm.swappiness", "1")),
		"a value with a plus can carry another (CVE-2022-0811)":     sandbox("", Violated, "which can carry another", sysctl("kernel.shm_rmid_forced", "1+kernel.core_pattern=|/x #")),
		"a value with an equals sign can":                           sandbox("", Violated, "can carry another", sysctl(safe, "a=b")),
		"a value with a line break can":                             sandbox("", Violated, "can carry another", sysctl(safe, "1\n2")),
		"tabs and blanks can't":                                     sandbox("", Satisfied, "", sysctl("net.ipv4.ip_local_port_range", "1024\t65535")),
		"a name with a plus can, even if its start is allowed":      sandbox(`{allow: ["net.ipv4.*"]}`, Violated, "can carry another", sysctl("net.ipv4.x+kernel.core_pattern", "1")),
		"a name that climbs out can, even if its start is allowed":  sandbox(`{allow: ["net.*"]}`, Violated, "can carry another", sysctl("net/../kernel/core_pattern", "1")),
		"a bad value is refused even where its name is allowed":     sandbox("{allowHostWide: [vm.swappiness]}", Violated, "can carry another", sysctl("vm.swappiness", "1+x=2")),
		"a namespace that can't be told leaves it undetermined":     {level: Baseline, kind: spec.KindSandbox, host: goneMachine{}, change: sysctl(safe, "1"), want: Undetermined, says: "can't be told from the host's"},
		"containerd 2's own defaults are allowed in every version":  {level: Baseline, version: "v1.0", kind: spec.KindSandbox, change: both(sysctl("net.ipv4.ip_unprivileged_port_start", "0"), sysctl("net.ipv4.ping_group_range", "0 2147483647")), want: Satisfied},
		"outside Kubernetes a container is judged as a sandbox is":  {level: Baseline, engine: spec.Podman, kind: spec.KindUnmanaged, change: sysctl("net.ipv4.ip_forward", "1"), want: Violated, says: "net.ipv4.ip_forward"},
		"restricted has baseline's and a container's are judged so": {level: Restricted, change: sysctl(safe, "1"), want: Satisfied},
	})
}

// goneMachine is one on which no namespace can be read.
type goneMachine struct{ machine }

func (goneMachine) Namespace(string) (spec.NamespaceID, error) {
	return spec.NamespaceID{}, fmt.Errorf("gone")
}
