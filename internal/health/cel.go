package health

import (
	"context"
	"fmt"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/lru"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Limits of expressions, in cel-go's units of cost. 1,000 of them take about a millisecond on one core.
const (
	// maxCELCost limits an evaluation for one object. An expression that looks through 20 conditions costs some hundred.
	maxCELCost = 10_000
	// maxCheckCost limits the evaluations of a check for all its objects.
	maxCheckCost = 500_000
	// interruptAfter is how many iterations of a macro run between two looks whether the context has ended.
	interruptAfter = 100
)

// compiled are the programs of the last expressions. A check is evaluated at each event of its objects.
var compiled = lru.New(256)

// CheckExpression returns the problem of a CELCheck's expression, or nil; the error wraps ErrInvalid.
func CheckExpression(expression string) error {
	_, err := compile(expression)
	return err
}

func compile(expression string) (cel.Program, error) {
	if program, known := compiled.Get(expression); known {
		return program.(cel.Program), nil
	}
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
	program, err := env.Program(parsed, cel.CostLimit(maxCELCost), cel.InterruptCheckFrequency(interruptAfter))
	if err != nil {
		return nil, fmt.Errorf("%w: cel.expression: %w", ErrInvalid, err)
	}
	compiled.Add(expression, program)
	return program, nil
}

// evaluateCEL requires the expression to be true for every selected object, and at least one object.
func evaluateCEL(ctx context.Context, check drydockv1.CELCheck, objects Objects) (Result, error) {
	program, err := compile(check.Expression)
	if err != nil {
		return Result{}, err
	}
	selected, unseen, err := celChoice(check).of(objects)
	if err != nil || unseen != nil {
		return orNone(unseen), err
	}
	var blockers []drydockv1.Blocker
	var cost uint64
	for i, object := range selected {
		b, spent, err := judgeExpression(ctx, check, program, object)
		if err != nil {
			return Result{}, err
		}
		if b != nil {
			blockers = append(blockers, *b)
		}
		if cost += spent; cost > maxCheckCost {
			message := fmt.Sprintf("%s: too expensive: evaluated for %d of %d objects: select fewer, or simplify it", check.Expression, i+1, len(selected))
			return Result{Reason: ReasonExpressionFailed, Message: message, Blockers: blockers[:min(len(blockers), maxBlockers)]}, nil
		}
	}
	return judged(fmt.Sprintf("%s holds for %d of %s", check.Expression, len(selected), celChoice(check)), blockers), nil
}

// judgeExpression returns why one object fails, or nil, and the cost of that. An expression that fails to evaluate is not true: a field that it needs
// may be reported later.
func judgeExpression(ctx context.Context, check drydockv1.CELCheck, program cel.Program, object Object) (*drydockv1.Blocker, uint64, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s %s/%s: %w", check.Kind, object.GetNamespace(), object.GetName(), err)
	}
	if observed, ok := observedGeneration(content, nil); ok && observed < object.GetGeneration() {
		return blocking(check.Kind, object, *notObserved(object.GetGeneration(), observed)), 0, nil
	}
	value, details, err := program.ContextEval(ctx, map[string]any{"object": content})
	if ctx.Err() != nil {
		return nil, 0, ctx.Err()
	}
	var cost uint64
	if spent := details.ActualCost(); spent != nil {
		cost = *spent
	}
	if err != nil {
		return blocking(check.Kind, object, unavailable{ReasonExpressionFailed, fmt.Sprintf("%s: %s", check.Expression, err)}), cost, nil
	}
	if holds, isBool := value.Value().(bool); !isBool {
		return blocking(check.Kind, object, unavailable{ReasonExpressionFailed, fmt.Sprintf("%s gives a %s, not a bool", check.Expression, value.Type().TypeName())}), cost, nil
	} else if !holds {
		return blocking(check.Kind, object, unavailable{ReasonExpressionFalse, check.Expression + " is false"}), cost, nil
	}
	return nil, cost, nil
}
