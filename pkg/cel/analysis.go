package cel

import (
	"slices"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// What a container's bundle shows of a pod's lists are this container's own
// elements. An expression can be decided for one container after the other if it is
// true of a pod whenever it is true of each of its containers taken alone. That is
// read off its form:
//
//	constant     doesn't look at the lists
//	universal    list.all(x, constant), and what is made of those by &&, by || and
//	             ?: with constants, and by ! of existential ones
//	existential  list.exists(x, constant), x in list, and so on the other way round
//
// Everything else (sizes, places, comparing lists, one container with another) is
// of form other. Only constant and universal expressions are decided on one
// container alone. The others are evaluated with lists of which the rest is unknown:
// an existential one that holds of one container holds of its pod.
type form int

const (
	constant form = iota
	universal
	existential
	other
	// aList is a list itself, or one made of it element by element.
	aList
	// guard is has(list), notGuard its opposite.
	guard
	notGuard
)

// lists are the lists that a pod's containers make up together.
type lists uint8

const (
	containers lists = 1 << iota
	initContainers
	ephemeralContainers
	volumes
)

var listNames = map[string]lists{
	"object.spec.containers": containers, "object.spec.initContainers": initContainers,
	"object.spec.ephemeralContainers": ephemeralContainers, "object.spec.volumes": volumes,
}

// trait is what the analysis finds of an expression.
type trait struct {
	form  form
	lists lists
	// path is what the expression selects of a variable, or "".
	path string
}

// analysis looks at the expressions of one policy.
type analysis struct {
	variables map[string]trait
	// reads are what the variables' expressions read.
	reads map[string][]string
	// mentions are all lists that a policy's expressions name.
	mentions lists
	// paths are what an expression reads, in the names of the first container.
	paths []string
	scope map[string]trait
}

func newAnalysis() *analysis {
	return &analysis{variables: map[string]trait{}, reads: map[string][]string{}, scope: map[string]trait{}}
}

// expression analyses one expression, and adds what it reads to paths.
func (a *analysis) expression(e ast.Expr) trait {
	t := a.walk(e)
	a.read(t)
	return t
}

// read notes a path that is used as it is.
func (a *analysis) read(t trait) {
	if t.path != "" && !slices.Contains(a.paths, t.path) {
		a.paths = append(a.paths, t.path)
	}
}

// value analyses an operand, of which a list or a guard is used in a way that the
// analysis doesn't follow.
func (a *analysis) value(e ast.Expr) trait {
	t := a.walk(e)
	a.read(t)
	switch {
	case t.form == aList || t.form == guard || t.form == notGuard:
		t.form = other
	}
	return whole(t)
}

func combine(form form, parts ...trait) trait {
	out := trait{form: form}
	for _, p := range parts {
		out.lists |= p.lists
	}
	return out
}

func (a *analysis) walk(e ast.Expr) trait {
	switch e.Kind() {
	case ast.IdentKind:
		name := e.AsIdent()
		if t, ok := a.scope[name]; ok {
			return t
		}
		return trait{path: name}
	case ast.SelectKind:
		s := e.AsSelect()
		return a.selected(a.walk(s.Operand()), s.FieldName(), s.IsTestOnly())
	case ast.CallKind:
		return a.call(e.AsCall())
	case ast.ListKind:
		return a.all(e.AsList().Elements())
	case ast.MapKind:
		out := trait{}
		for _, entry := range e.AsMap().Entries() {
			m := entry.AsMapEntry()
			out = worst(out, a.all([]ast.Expr{m.Key(), m.Value()}))
		}
		return out
	case ast.StructKind:
		out := trait{}
		for _, f := range e.AsStruct().Fields() {
			out = worst(out, a.all([]ast.Expr{f.AsStructField().Value()}))
		}
		return out
	case ast.ComprehensionKind:
		return a.comprehension(e.AsComprehension())
	}
	return trait{}
}

func (a *analysis) selected(operand trait, field string, has bool) trait {
	if operand.path == "variables" {
		if t, ok := a.variables[field]; ok {
			for _, p := range a.reads[field] {
				a.read(trait{path: p})
			}
			return t
		}
		return trait{}
	}
	if operand.path == "" || operand.form != constant {
		// Of a result: what was read for it is noted.
		if operand.form == aList {
			operand.form = other
		}
		operand.path = ""
		return operand
	}
	path := operand.path + "." + field
	l := listNames[path]
	a.mentions |= l
	switch {
	case l != 0 && has:
		return trait{form: guard, lists: l, path: path}
	case l != 0:
		return trait{form: aList, lists: l, path: path}
	}
	if has {
		a.read(trait{path: path})
		return trait{}
	}
	return trait{path: path}
}

// worst joins the operands of what is strict in all of them.
func worst(x, y trait) trait {
	if x.form == constant && y.form == constant {
		return combine(constant, x, y)
	}
	return combine(other, x, y)
}

// all are operands that are values.
func (a *analysis) all(list []ast.Expr) trait {
	out := trait{}
	for _, e := range list {
		out = worst(out, a.value(e))
	}
	return out
}

func (a *analysis) call(c ast.CallExpr) trait {
	args := c.Args()
	switch c.FunctionName() {
	case operators.LogicalAnd:
		return a.and(a.walk(args[0]), a.walk(args[1]))
	case operators.LogicalOr:
		return a.or(a.walk(args[0]), a.walk(args[1]))
	case operators.LogicalNot:
		return opposite(a.walk(args[0]))
	case operators.Conditional:
		return a.conditional(a.walk(args[0]), a.walk(args[1]), a.walk(args[2]))
	case operators.Add:
		x, y := a.walk(args[0]), a.walk(args[1])
		a.read(x)
		a.read(y)
		if isListOr(x) && isListOr(y) && (x.form == aList || y.form == aList) {
			return combine(aList, x, y)
		}
		return worst(closed(x), closed(y))
	case operators.In:
		x, y := a.value(args[0]), a.walk(args[1])
		a.read(y)
		if x.form == constant && y.form == aList {
			return combine(existential, y)
		}
		return worst(x, closed(y))
	case operators.OptSelect:
		operand := a.walk(args[0])
		if args[1].Kind() == ast.LiteralKind {
			if s, ok := args[1].AsLiteral().(types.String); ok {
				return a.selected(operand, string(s), false)
			}
		}
		a.read(operand)
		return worst(closed(operand), a.value(args[1]))
	case operators.Index, operators.OptIndex:
		operand := a.walk(args[0])
		index := a.value(args[1])
		if args[1].Kind() == ast.LiteralKind {
			if s, ok := args[1].AsLiteral().(types.String); ok && operand.form == constant && operand.path != "" {
				return a.selected(operand, string(s), false)
			}
		}
		a.read(operand)
		return worst(closed(operand), index)
	case "orValue":
		x, y := a.walk(c.Target()), a.walk(args[0])
		a.read(x)
		a.read(y)
		if x.form == aList && isListOr(y) {
			return combine(aList, x, y)
		}
		return worst(closed(x), closed(y))
	case "flatten", "distinct":
		if c.IsMemberFunction() && len(args) == 0 {
			if x := a.walk(c.Target()); x.form == aList {
				a.read(x)
				return x
			}
		}
	case "sets.contains", "sets.intersects":
		x, y := a.walk(args[0]), a.walk(args[1])
		a.read(x)
		a.read(y)
		switch {
		case c.FunctionName() == "sets.contains" && x.form == constant && y.form == aList:
			return combine(universal, y)
		case c.FunctionName() == "sets.intersects" && x.form+y.form == aList:
			return combine(existential, x, y)
		}
		return worst(closed(x), closed(y))
	}
	out := a.all(args)
	if c.IsMemberFunction() {
		out = worst(out, a.value(c.Target()))
	}
	return out
}

func isListOr(t trait) bool { return t.form == aList || t.form == constant }

// whole makes other of what holds the lists without being one.
func whole(t trait) trait {
	if t.path == "object" || t.path == "object.spec" {
		t.form = other
	}
	return t
}

// closed is an operand of an operator that the analysis doesn't follow into.
func closed(t trait) trait {
	if t.form != constant {
		t.form = other
	}
	return whole(t)
}

func opposite(t trait) trait {
	switch t.form {
	case universal:
		t.form = existential
	case existential:
		t.form = universal
	case guard:
		t.form = notGuard
	case notGuard:
		t.form = guard
	case aList:
		t.form = other
	}
	t.path = ""
	return t
}

// and: has(list) && list.exists(...) is as list.exists(...).
func (a *analysis) and(x, y trait) trait {
	a.read(x)
	a.read(y)
	for range 2 {
		switch {
		case x.form == constant && y.form <= existential:
			return combine(y.form, x, y)
		case x.form == universal && y.form == universal:
			return combine(universal, x, y)
		case x.form == guard && y.form == existential && x.lists == y.lists:
			return y
		}
		x, y = y, x
	}
	return combine(other, x, y)
}

// or: !has(list) || list.all(...) is as list.all(...).
func (a *analysis) or(x, y trait) trait {
	return opposite(a.and(opposite(read(a, x)), opposite(read(a, y))))
}

func read(a *analysis, t trait) trait {
	a.read(t)
	return t
}

// conditional: has(list) ? list : [] is the list.
func (a *analysis) conditional(c, x, y trait) trait {
	a.read(c)
	a.read(x)
	a.read(y)
	x, y = whole(x), whole(y)
	if c.form == notGuard {
		c.form, x, y = guard, y, x
	}
	switch {
	case c.form == guard && x.lists == c.lists && y.form == constant && y.lists == 0 && (x.form == universal || x.form == existential || x.form == aList):
		return trait{form: x.form, lists: x.lists}
	case c.form == constant && x.form == constant && y.form <= aList:
		return combine(y.form, c, x, y)
	case c.form == constant && (y.form == constant || x.form == y.form) && x.form <= aList:
		return combine(x.form, c, x, y)
	}
	return combine(other, c, x, y)
}

// comprehension follows all, exists, map and filter. What it makes of the others is
// other where a list is in them.
func (a *analysis) comprehension(c ast.ComprehensionExpr) trait {
	ranged := whole(a.walk(c.IterRange()))
	a.read(ranged)
	element := trait{}
	if ranged.path != "" {
		element.path = elementPath(ranged.path)
	}
	if ranged.form != constant && ranged.form != aList {
		element.form = other
	}
	saved := map[string]*trait{}
	bind := func(name string, t trait) {
		if name == "" {
			return
		}
		if old, ok := a.scope[name]; ok {
			saved[name] = &old
		} else if _, ok := saved[name]; !ok {
			saved[name] = nil
		}
		a.scope[name] = t
	}
	if c.HasIterVar2() {
		bind(c.IterVar(), trait{})
		bind(c.IterVar2(), element)
	} else {
		bind(c.IterVar(), element)
	}
	bind(c.AccuVar(), trait{})
	defer func() {
		for name, old := range saved {
			if old == nil {
				delete(a.scope, name)
			} else {
				a.scope[name] = *old
			}
		}
	}()
	step := c.LoopStep()
	kind, body := "", trait{}
	if step.Kind() == ast.CallKind {
		call := step.AsCall()
		switch call.FunctionName() {
		case operators.LogicalAnd:
			kind, body = "all", a.walk(call.Args()[1])
		case operators.LogicalOr:
			kind, body = "exists", a.walk(call.Args()[1])
		case operators.Add:
			if isEmptyList(c.AccuInit()) {
				kind, body = "map", a.value(call.Args()[1])
			}
		case operators.Conditional:
			if isEmptyList(c.AccuInit()) {
				kind, body = "map", worst(a.value(call.Args()[0]), a.all(call.Args()[1:]))
			}
		}
	}
	a.read(body)
	if kind == "" {
		body = worst(a.value(step), a.value(c.Result()))
	}
	isList := ranged.form == aList
	if isList && (c.HasIterVar2() || kind == "") {
		return combine(other, ranged, body)
	}
	body.path = ""
	switch {
	case isList && body.form == constant:
		return combine(map[string]form{"all": universal, "exists": existential, "map": aList}[kind], ranged, body)
	case isList:
		return combine(other, ranged, body)
	case ranged.form != constant:
		return combine(other, ranged, body)
	case body.form == constant,
		kind == "all" && body.form == universal,
		kind == "exists" && body.form == existential:
		return combine(body.form, ranged, body)
	}
	return combine(other, ranged, body)
}

func isEmptyList(e ast.Expr) bool { return e.Kind() == ast.ListKind && e.AsList().Size() == 0 }

// elementPath names an element of a list: any container stands for the first.
func elementPath(path string) string {
	switch listNames[path] {
	case containers, initContainers, ephemeralContainers:
		return "object.spec.containers[0]"
	}
	return path + "[0]"
}

// podPath is a path of the pod, in the names of [pod.Rebuild].
func podPath(path string) (string, bool) { return strings.CutPrefix(path, "object.") }
