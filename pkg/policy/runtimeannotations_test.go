package policy

import (
	"testing"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

func TestRuntimeAnnotations(t *testing.T) {
	t.Parallel()
	const property = "org.systemd.property."
	crio := both(annotate(property+"TimeoutStopUSec", "uint64 30000000"), annotate(property+"CollectMode", "'inactive-or-failed'"),
		annotate(property+"DefaultDependencies", "true"), annotate(property+"After", "['crio.service']"))
	handler := annotate("run.oci.handler", "wasm")
	tests := map[string]ruleTest{
		"privileged doesn't ask":                      {change: handler, want: Satisfied},
		"a plain container has none":                  {level: Baseline, want: Satisfied},
		"CRI-O's own systemd properties are no pod's": {level: Restricted, engine: spec.CRIO, change: crio, want: Satisfied},
		"podman's own signal isn't either":            {level: Baseline, change: annotate(property+"KillSignal", "15"), want: Satisfied},
		"an annotation may be allowed by name":        {level: Baseline, settings: "{allow: [run.oci.handler]}", change: handler, want: Satisfied},
		"an annotation may be allowed by pattern":     {level: Baseline, settings: `{allow: ["run.oci.*"]}`, change: handler, want: Satisfied},
		"an annotation may be allowed with its value": {level: Baseline, settings: "{allow: [{name: run.oci.handler, value: wasm}]}", change: handler, want: Satisfied},
		"with another value it isn't":                 {level: Baseline, settings: "{allow: [{name: run.oci.handler, value: krun}]}", change: handler, want: Violated, says: "annotation run.oci.handler is set to wasm and steers the runtime"},
		"a sandbox's is judged":                       {level: Restricted, kind: spec.KindSandbox, change: handler, want: Violated, says: "run.oci.handler"},
		"a sandbox without waits":                     {level: Restricted, kind: spec.KindSandbox, want: Undetermined, says: "when the pod's containers"},
		"a policy can ask alone":                      {settings: "{}", change: handler, want: Violated, says: "run.oci.handler"},
		"an author's text is quoted":                  {level: Baseline, change: annotate("run.oci.hooks.stderr", "/x\n/y"), want: Violated, says: `"/x\n/y"`},
		"an ordinary annotation steers nothing":       {level: Baseline, change: annotate("example.com/bundle", "/x"), want: Satisfied},
	}
	for key, value := range map[string]string{
		"bundle": "/tmp/forged", "org.criu.config": "/x", "run.oci.hooks.stderr": "/etc/cron.d/x", "module.wasm.image/variant": "compat", "krun.cpus": "4",
		property + "ExecStopPost": "['/bin/x']", property + "TimeoutStopUSec": "'x'", property + "DefaultDependencies": "false",
		property + "After": "['ssh.service']", property + "CollectMode": "'x'", property + "KillSignal": "",
	} {
		tests[key+"="+value+" is refused"] = ruleTest{level: Baseline, version: "v1.0", change: annotate(key, value), want: Violated, says: "annotation " + key + " is set to"}
	}
	runRuleTests(t, "runtimeAnnotations", tests)
}
