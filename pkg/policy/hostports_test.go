package policy

import (
	"testing"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

func TestHostPorts(t *testing.T) {
	t.Parallel()
	const key = "io.kubernetes.container.ports"
	takes := annotate(key, `[{"hostPort":8080,"containerPort":80}]`)
	runRuleTests(t, "hostPorts", map[string]ruleTest{
		"containerd doesn't show them":                       {level: Baseline, want: Undetermined, says: "doesn't show the ports"},
		"nor in restricted":                                  {level: Restricted, want: Undetermined, says: "doesn't show the ports"},
		"a sandbox waits":                                    {level: Baseline, kind: spec.KindSandbox, want: Undetermined, says: "when the pod's containers are made"},
		"privileged doesn't ask":                             {level: Privileged, want: Satisfied},
		"on CRI-O a port of the node is refused":             {level: Baseline, version: "v1.0", engine: spec.CRIO, change: takes, want: Violated, says: "port 8080 of the node is taken"},
		"on CRI-O a container without is satisfied":          {level: Baseline, engine: spec.CRIO, want: Satisfied},
		"on CRI-O hostPort 0 is none":                        {level: Baseline, engine: spec.CRIO, change: annotate(key, `[{"hostPort":0}]`), want: Satisfied},
		"what can't be read is undetermined":                 {level: Baseline, engine: spec.CRIO, change: annotate(key, `[`), want: Undetermined, says: "doesn't show"},
		"containerd's is refused if it is passed on":         {level: Baseline, change: takes, want: Violated, says: "port 8080"},
		"an allowed port is satisfied":                       {level: Baseline, settings: "{allow: [8080]}", engine: spec.CRIO, change: takes, want: Satisfied},
		"an allowed range has both its ends":                 {level: Baseline, settings: "{allow: [{min: 8000, max: 8080}]}", engine: spec.CRIO, change: takes, want: Satisfied},
		"another port than the allowed is refused":           {level: Baseline, settings: "{allow: [80, {min: 8081, max: 9000}]}", engine: spec.CRIO, change: takes, want: Violated, says: "port 8080"},
		"what nobody allowed is refused without a preset":    {settings: "{}", engine: spec.CRIO, change: takes, want: Violated, says: "port 8080"},
		"a container outside Kubernetes shows none of these": {level: Baseline, engine: spec.Podman, kind: spec.KindUnmanaged, want: Undetermined, says: "doesn't show"},
	})
}
