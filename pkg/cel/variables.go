package cel

import (
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	apicel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/lazy"
)

// newVariables are a policy's variables, each evaluated when it is first read.
// They are made for each evaluation of an expression, since what one looked at that
// isn't known spoils only that one's result.
func newVariables(a *activation) ref.Val {
	m := lazy.NewMapValue(variablesType)
	for _, v := range a.e.b.policy.variables {
		m.Append(v.name, func(*lazy.MapValue) ref.Val {
			value := a.e.program(v.expression, a)
			if types.IsError(value) {
				return types.NewErr("composited variable %q fails to evaluate: %v", v.name, value)
			}
			return value
		})
	}
	return m
}

var variablesType = apicel.NewObjectType("kubernetes.variables", nil)
