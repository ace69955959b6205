package health

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/runtime"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// maxCELCost limits one evaluation, in cel-go's units: some milliseconds. It is the API server's limit for a rule of a CRD.
const maxCELCost = 1_000_000

// CheckExpression returns the problem of a CELCheck's expression, or nil; the error wraps ErrInvalid.
func CheckExpression(expression string) error {
	_, err := compile(expression)
	return err
}

func compile(expression string) (cel.Program, error) {
	env, err := cel.NewEnv(cel.Variable("object", cel.DynType), cel.OptionalTypes())
	if err != nil {
		return nil, fmt.Errorf("cel: %w", err)
	}
	parsed, issues := env.Compile(expression)
	if issues.Err() != nil {
		return nil, fmt.Errorf("%w: cel.expression: %w", ErrInvalid, issues.Err())
	}
	if kind := parsed.OutputType(); !kind.IsExactType(cel.BoolType) && !kind.IsExactType(cel.DynType) {
		return nil, fmt.Errorf("%w: cel.expression: is of type %s, not bool", ErrInvalid, kind)
	}
	program, err := env.Program(parsed, cel.CostLimit(maxCELCost))
	if err != nil {
		return nil, fmt.Errorf("%w: cel.expression: %w", ErrInvalid, err)
	}
	return program, nil
}

// evaluateCEL requires the expression to be true for every selected object, and at least one object.
func evaluateCEL(check drydockv1.CELCheck, objects Objects) (Result, error) {
	program, err := compile(check.Expression)
	if err != nil {
		return Result{}, err
	}
	selected, unseen, err := celChoice(check).of(objects)
	if err != nil || unseen != nil {
		return orNone(unseen), err
	}
	var blockers []drydockv1.Blocker
	for _, object := range selected {
		b, err := judgeExpression(check, program, object)
		if err != nil {
			return Result{}, err
		}
		if b != nil {
			blockers = append(blockers, *b)
		}
	}
	return judged(fmt.Sprintf("%s holds for %d of %s", check.Expression, len(selected), celChoice(check)), blockers), nil
}

// judgeExpression returns why one object fails, or nil. An expression that fails to evaluate is not true: a field that it needs may be reported
// later.
func judgeExpression(check drydockv1.CELCheck, program cel.Program, object Object) (*drydockv1.Blocker, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, fmt.Errorf("read %s %s/%s: %w", check.Kind, object.GetNamespace(), object.GetName(), err)
	}
	if observed, ok := observedGeneration(content, nil); ok && observed < object.GetGeneration() {
		return blocking(check.Kind, object, *notObserved(object.GetGeneration(), observed)), nil
	}
	value, _, err := program.Eval(map[string]any{"object": content})
	if err != nil {
		return blocking(check.Kind, object, unavailable{ReasonExpressionFailed, fmt.Sprintf("%s: %s", check.Expression, err)}), nil
	}
	if holds, isBool := value.Value().(bool); !isBool {
		return blocking(check.Kind, object, unavailable{ReasonExpressionFailed, fmt.Sprintf("%s gives a %s, not a bool", check.Expression, value.Type().TypeName())}), nil
	} else if !holds {
		return blocking(check.Kind, object, unavailable{ReasonExpressionFalse, check.Expression + " is false"}), nil
	}
	return nil, nil
}
