package cel

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	upstream "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/environment"

	"github.com/nodeadmit/nodeadmit/pkg/spec"
)

// accessor is an expression for upstream's compiler.
type accessor string

func (a accessor) GetExpression() string    { return string(a) }
func (a accessor) ReturnTypes() []*cel.Type { return []*cel.Type{cel.BoolType} }

// upstreamVerdict is what an API server makes of an expression on a pod.
func upstreamVerdict(t testing.TB, c upstream.ConditionCompiler, expression string, p *corev1.Pod) string {
	t.Helper()
	gvk, gvr := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	attributes := admission.NewAttributesRecord(p, nil, gvk, p.Namespace, p.Name, gvr, "", admission.Create, nil, false, nil)
	condition := c.CompileCondition([]upstream.ExpressionAccessor{accessor(expression)}, upstream.OptionalVariableDeclarations{}, environment.StoredExpressions)
	versioned := &admission.VersionedAttributes{Attributes: attributes, VersionedKind: gvk, VersionedObject: admission.NewLazyObject(p)}
	request := upstream.CreateAdmissionRequest(attributes, metav1.GroupVersionResource(gvr), metav1.GroupVersionKind(gvk))
	results, _, err := condition.ForInput(context.Background(), versioned, request, upstream.OptionalVariableBindings{},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.Namespace}}, celconfig.RuntimeCELCostBudget)
	switch {
	case err != nil:
		t.Fatalf("%s: %v", expression, err)
	case results[0].Error != nil && strings.Contains(results[0].Error.Error(), "compil"):
		t.Fatalf("%s: %v", expression, results[0].Error)
	case results[0].Error != nil:
		return fails
	case results[0].EvalResult == types.True:
		return holds
	}
	return refuses
}

func yes() *bool { return new(true) }

// somePods are pods of one to three containers of a few properties.
func somePods(r *rand.Rand, n int) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range n {
		p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
		p.Namespace, p.Name = "team-a", fmt.Sprintf("pod-%d", i)
		p.Spec.HostNetwork = r.IntN(4) == 0
		if r.IntN(3) == 0 {
			p.Labels = map[string]string{"app": "web"}
		}
		container := func() corev1.Container {
			c := corev1.Container{Name: []string{"app", "proxy", "log"}[r.IntN(3)], Image: []string{"reg.corp/app:1", "reg.corp/app:latest", "docker.io/x@sha256:0"}[r.IntN(3)]}
			switch r.IntN(4) {
			case 0:
				c.SecurityContext = &corev1.SecurityContext{Privileged: yes()}
			case 1:
				c.SecurityContext = &corev1.SecurityContext{RunAsUser: new(int64(r.IntN(2))), Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_ADMIN"}}}
			}
			return c
		}
		for range 1 + r.IntN(2) {
			p.Spec.Containers = append(p.Spec.Containers, container())
		}
		if r.IntN(3) == 0 {
			p.Spec.InitContainers = append(p.Spec.InitContainers, container())
		}
		if r.IntN(3) == 0 {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/etc"}}}}
		}
		out = append(out, p)
	}
	return out
}

// expressions are what policies are made of, of each form.
func expressions() []string {
	predicates := []string{
		"c.image.startsWith('reg.corp/')", "c.name == 'proxy'", "!c.image.endsWith(':latest')", "c.image.contains('@sha256:')",
		"has(c.securityContext) && has(c.securityContext.privileged) && c.securityContext.privileged",
		"!has(c.securityContext) || !has(c.securityContext.capabilities) || !has(c.securityContext.capabilities.add)",
		"c.?securityContext.?runAsUser.orValue(1) != 0", "c.name.matches('^[a-z]+$')",
	}
	var out []string
	for i, p := range predicates {
		q := predicates[(i+3)%len(predicates)]
		all, exists := "object.spec.containers.all(c, "+p+")", "object.spec.containers.exists(c, "+p+")"
		initAll := "(!has(object.spec.initContainers) || object.spec.initContainers.all(c, " + p + "))"
		out = append(out,
			all, exists, "!"+all, "!"+exists, initAll, "!"+initAll, all+" && "+initAll, all+" || "+initAll, exists+" || "+all, exists+" && "+initAll,
			all+" || object.spec.containers.all(c, "+q+")", exists+" && object.spec.containers.exists(c, "+q+")",
			"object.spec.hostNetwork ? "+all+" : "+exists, "has(object.spec.hostNetwork) ? true : "+all,
			"has(object.spec.initContainers) ? object.spec.initContainers.all(c, "+p+") : true",
			"has(object.spec.initContainers) && object.spec.initContainers.exists(c, "+p+")",
			"(object.spec.containers + object.spec.?initContainers.orValue([])).all(c, "+p+")",
			"(object.spec.containers + (has(object.spec.initContainers) ? object.spec.initContainers : [])).exists(c, "+p+")",
			"object.spec.containers.filter(c, "+p+").all(c, "+q+")", "object.spec.containers.filter(c, "+p+").size() == 0",
			"object.spec.containers.exists_one(c, "+p+")", "object.spec.containers.map(c, c.image).all(i, i != '')",
			"object.spec.containers.all(c, object.spec.containers.exists(d, d.image == c.image && ("+p+")))",
			"[1, 2].all(x, "+all+")", "[1, 2].exists(x, "+all+")", "[1, 2].all(x, "+exists+")",
			"!has(object.spec.initContainers) || "+all, "!(has(object.spec.initContainers) && "+exists+")",
			"object.spec.containers.map(c, "+p+") == [true]", "true in object.spec.containers.map(c, "+p+")",
			"(("+all+") == true)", "("+all+") != ("+exists+")",
		)
	}
	return append(out,
		"object.spec.containers.size() == 1", "object.spec.containers[0].name == 'app'", "!has(object.spec.initContainers)", "has(object.spec.initContainers)",
		"object.spec.containers.map(c, c.name) == ['app']", "object.spec.containers.map(c, c.image).isSorted()",
		"'proxy' in object.spec.containers.map(c, c.name)", "!('proxy' in object.spec.containers.map(c, c.name))",
		"sets.contains(['app', 'log'], object.spec.containers.map(c, c.name))", "sets.contains(object.spec.containers.map(c, c.name), ['app', 'log'])",
		"sets.intersects(object.spec.containers.map(c, c.name), ['app', 'log'])", "!sets.intersects(['app'], object.spec.containers.map(c, c.name))",
		"sets.equivalent(object.spec.containers.map(c, c.name), ['app'])", "object.spec.containers.map(c, [c.name]).flatten().all(n, n == 'app')",
		"object.spec.containers.map(c, c.name).distinct().all(n, n == 'app')", "object.spec.containers.map(c, c.name).join(',') == 'app'",
		"!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.hostPath))", "object.spec.containers.all(i, c, i == 0)",
		"object.spec.?volumes.orValue([]).all(v, object.spec.containers.all(c, c.name == 'app'))",
		"object.spec.exists(k, k == 'initContainers')", "'initContainers' in object.spec", "object.exists(k, k == 'spec')",
		"(object.spec.hostNetwork == true ? object.spec : object.spec).containers.exists(c, c.name == 'app')",
		"(has(object.spec.hostNetwork) ? object : object).spec.containers.size() == 1", "[object.spec].all(s, s.containers.exists(c, c.name == 'app'))",
		"dyn(object.spec).containers.exists(c, c.name == 'app')", "object.?spec.orValue({}).containers.size() < 2",
		"object['spec']['containers'].exists(c, c.name == 'app')", "object.spec['con' + 'tainers'].exists(c, c.name == 'app')",
		"optional.of(object).spec.containers.hasValue()", "{'a': object.spec}.a.containers.size() == 1", "object.spec.?containers.hasValue()", "object.spec == object.spec", "string(object.spec.containers.size()) != '2'",
		"!has(object.metadata.labels) || object.metadata.labels.all(k, k != 'app')", "object.metadata.name.startsWith('pod')",
		"object.spec.containers.all(c, c.name != 'app' || object.spec.?initContainers.orValue([]).all(i, i.name != 'app'))",
		"object.spec.nonsense == 'x'", "quantity('1Gi').isGreaterThan(quantity('1Mi'))", "ip('10.0.0.1').family() == 4", "semver('1.2.3').major() == 1",
	)
}

// ruleFor compiles a policy of one expression.
func ruleFor(t testing.TB, expression string) *Policies {
	t.Helper()
	ps, err := load(t, rule(expression, "", ""))
	if err != nil {
		t.Fatalf("%s: %v", expression, err)
	}
	return ps
}

// TestWholePods holds our evaluation of a whole pod to upstream's.
func TestWholePods(t *testing.T) {
	c := upstream.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	pods := somePods(rand.New(rand.NewPCG(1, 2)), 25)
	for _, x := range expressions() {
		ps := ruleFor(t, x)
		for _, p := range pods {
			r, err := ps.Evaluate(context.Background(), &Input{Pod: p})
			if err != nil {
				t.Fatal(err)
			}
			got := holds
			for _, v := range r.Violations {
				got = refuses
				if strings.Contains(v.Message, "resulted in error") {
					got = fails
				}
			}
			if len(r.Undetermined) > 0 {
				got = unknwn
			}
			if want := upstreamVerdict(t, c, x, p); got != want {
				t.Errorf("%s\ngot %s, upstream %s: %+v", x, got, want, r)
			}
		}
	}
}

// TestContainersOneByOne judges the containers of a pod one after the other, each
// with what its own bundle shows, and holds the results to upstream's verdict on the
// pod: what all of them satisfy the pod must satisfy, and what one of them violates it
// must violate. What is Undetermined decides nothing.
func TestContainersOneByOne(t *testing.T) {
	c := upstream.NewConditionCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	pods := somePods(rand.New(rand.NewPCG(3, 4)), 60)
	decided := map[string]int{}
	for _, x := range expressions() {
		ps, bad := ruleFor(t, x), 0
		for _, p := range pods {
			if len(p.Spec.Volumes) > 0 && strings.Contains(x, "volumes") && len(p.Spec.Containers)+len(p.Spec.InitContainers) > 1 {
				continue // whose volume it is isn't said here
			}
			every, some := true, ""
			for _, o := range oneByOne(t, ps, p) {
				every = every && o == isTrue
				if o == isFalse {
					some = refuses
				}
			}
			want := upstreamVerdict(t, c, x, p)
			if every && want != holds {
				bad++
				t.Errorf("%s\nholds of each container, and upstream says %s of the pod:\n%s", x, want, described(p))
			}
			if some == refuses && want == holds {
				bad++
				t.Errorf("%s\nis violated by a container, and upstream says %s of the pod:\n%s", x, want, described(p))
			}
			if every || some != "" {
				decided[x]++
			}
			if bad > 0 {
				break // one pod tells enough
			}
		}
	}
	if n := len(decided); n < len(expressions())/2 {
		t.Errorf("of %d expressions %d decided anything", len(expressions()), n)
	}
}

func described(p *corev1.Pod) string {
	var out []string
	for kind, list := range map[string][]corev1.Container{"container": p.Spec.Containers, "init": p.Spec.InitContainers} {
		for _, c := range list {
			out = append(out, fmt.Sprintf("%s %s %s %+v", kind, c.Name, c.Image, c.SecurityContext))
		}
	}
	return strings.Join(out, "\n")
}

// oneByOne evaluates a policy's only validation on each container's view.
func oneByOne(t testing.TB, ps *Policies, p *corev1.Pod) []result {
	t.Helper()
	var out []result
	list := p.Spec.Containers
	// A policy that has no word for init containers is held against them as well: here
	// a node is stricter than an API server, since it can't tell them apart.
	if ps.policies[0].mentions&initContainers != 0 {
		list = append(append([]corev1.Container{}, list...), p.Spec.InitContainers...)
	}
	for _, container := range list {
		alone := p.DeepCopy()
		alone.Spec.InitContainers, alone.Spec.Containers = nil, []corev1.Container{container}
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(alone)
		if err != nil {
			t.Fatal(err)
		}
		in := &Input{Intent: &spec.Intent{Kind: spec.KindContainer}}
		e := &evaluation{ctx: context.Background(), ps: ps, b: ps.bindings[0], budget: celconfig.RuntimeCELCostBudget, out: &Result{}, views: &views{
			in: in, object: object, unknown: []string{"metadata.labels", "spec.initContainers", "spec.ephemeralContainers"}, made: map[[2]int]*view{},
			request: map[string]any{},
		}}
		out = append(out, e.decide(ps.policies[0].validations[0].expression, true).result)
	}
	return out
}
