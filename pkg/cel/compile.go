package cel

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/traits"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	apicel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"

	upstream "k8s.io/apiserver/pkg/admission/plugin/cel"
)

// Variables beyond upstream's.
const (
	// ociVariable is config.json as the runtime gets it.
	ociVariable = "oci"
	// nodeVariable is {name, engine, runtimeHandler, kernel}.
	nodeVariable = "node"
)

// baseEnv is upstream's environment for expressions that are stored, with the
// variables of a policy, as k8s.io/apiserver/pkg/admission/plugin/cel has them.
// It is made once, and not before a policy needs it.
var baseEnv = sync.OnceValues(func() (*cel.Env, error) {
	env, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Env(environment.StoredExpressions)
	if err != nil {
		return nil, err
	}
	request, namespace, node := upstream.BuildRequestType(), upstream.BuildNamespaceType(), nodeType()
	provider := apicel.NewDeclTypeProvider(request, namespace, node)
	options, err := provider.EnvOptions(env.CELTypeProvider())
	if err != nil {
		return nil, err
	}
	return env.Extend(append(options,
		cel.Variable(upstream.ObjectVarName, cel.DynType),
		cel.Variable(upstream.OldObjectVarName, cel.DynType),
		cel.Variable(upstream.NamespaceVarName, namespace.CelType()),
		cel.Variable(upstream.RequestVarName, request.CelType()),
		cel.Variable(upstream.AuthorizerVarName, library.AuthorizerType),
		cel.Variable(upstream.RequestResourceAuthorizerVarName, library.ResourceCheckType),
		cel.Variable(ociVariable, cel.DynType),
		cel.Variable(nodeVariable, node.CelType()),
	)...)
})

func nodeType() *apicel.DeclType {
	fields := map[string]*apicel.DeclField{}
	for _, name := range []string{"name", "engine", "runtimeHandler", "kernel"} {
		fields[name] = apicel.NewDeclField(name, apicel.StringType, true, nil, nil)
	}
	return apicel.NewObjectType("nodeadmit.Node", fields)
}

// compiler compiles the expressions of one policy.
type compiler struct {
	env *cel.Env
	// variables is the type of the variable of that name.
	variables *apicel.DeclType
	analysis  *analysis
}

// newCompiler extends the environment with params and variables, if the policy has
// any.
func newCompiler(hasParams, hasVariables bool) (*compiler, error) {
	env, err := baseEnv()
	if err != nil {
		return nil, err
	}
	c := &compiler{env: env, analysis: newAnalysis()}
	var options []cel.EnvOption
	if hasVariables {
		c.variables = apicel.NewObjectType("kubernetes.variables", map[string]*apicel.DeclField{})
		provider := apicel.NewDeclTypeProvider(c.variables)
		if options, err = provider.EnvOptions(env.CELTypeProvider()); err != nil {
			return nil, err
		}
		options = append(options, cel.Variable(upstream.VariableVarName, c.variables.CelType()))
	}
	if hasParams {
		options = append(options, cel.Variable(upstream.ParamsVarName, cel.DynType))
	}
	if options != nil {
		if c.env, err = env.Extend(options...); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// expression is one that is compiled.
type expression struct {
	text    string
	program cel.Program
	trait   trait
	// reads are the paths that it selects, those of its variables included.
	reads []string
}

var errReturns = errors.New("wrong type")

// compile compiles an expression that must give one of some types.
func (c *compiler) compile(text string, returns ...*cel.Type) (*expression, *cel.Type, error) {
	checked, issues := c.env.Compile(text)
	if issues != nil {
		return nil, nil, fmt.Errorf("doesn't compile: %s", oneLine(issues.String()))
	}
	ok := false
	var names []string
	for _, t := range returns {
		ok = ok || checked.OutputType().IsExactType(t) || cel.AnyType.IsExactType(t)
		names = append(names, t.String())
	}
	if !ok {
		return nil, nil, fmt.Errorf("gives %s: want %s: %w", checked.OutputType(), strings.Join(names, " or "), errReturns)
	}
	program, err := c.env.Program(checked, cel.InterruptCheckFrequency(celconfig.CheckFrequency))
	if err != nil {
		return nil, nil, err
	}
	c.analysis.paths = nil
	t := c.analysis.expression(checked.NativeRep().Expr())
	return &expression{text: text, program: program, trait: t, reads: c.analysis.paths}, checked.OutputType(), nil
}

// variable compiles a variable and makes it known to what comes after it.
func (c *compiler) variable(name, text string) (*expression, error) {
	e, t, err := c.compile(text, cel.AnyType, cel.DynType)
	if err != nil {
		return nil, err
	}
	c.variables.Fields[name] = apicel.NewDeclField(name, declType(t), true, nil, nil)
	c.analysis.variables[name], c.analysis.reads[name] = e.trait, e.reads
	return e, nil
}

// declType is upstream's convertCelTypeToDeclType (admission/plugin/cel/composition.go).
func declType(t *cel.Type) *apicel.DeclType {
	switch t {
	case nil:
		return apicel.DynType
	case cel.AnyType:
		return apicel.AnyType
	case cel.BoolType:
		return apicel.BoolType
	case cel.BytesType:
		return apicel.BytesType
	case cel.DoubleType:
		return apicel.DoubleType
	case cel.DurationType:
		return apicel.DurationType
	case cel.IntType:
		return apicel.IntType
	case cel.NullType:
		return apicel.NullType
	case cel.StringType:
		return apicel.StringType
	case cel.TimestampType:
		return apicel.TimestampType
	case cel.UintType:
		return apicel.UintType
	}
	if t.HasTrait(traits.ContainerType) && t.HasTrait(traits.IndexerType) {
		switch p := t.Parameters(); len(p) {
		case 1:
			return apicel.NewListType(declType(p[0]), -1)
		case 2:
			return apicel.NewMapType(declType(p[0]), declType(p[1]), -1)
		}
	}
	return apicel.DynType
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
