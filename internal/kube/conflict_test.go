package kube

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestAChangeIsRetriedOnConflictsAndReturnsItsLastError(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, "n1", errors.New("modified"))
	refused := errors.New("refused")
	cancelled := fmt.Errorf("patch n1: %w", context.Canceled)
	for _, test := range []struct {
		name    string
		answers []error
		want    error
	}{
		{"made", []error{nil}, nil},
		{"made after a conflict", []error{conflict, nil}, nil},
		{"refused after a conflict", []error{conflict, refused}, refused},
		{"cancelled", []error{cancelled}, context.Canceled},
		{"cancelled after a conflict", []error{conflict, cancelled}, context.Canceled},
		{"out of time", []error{context.DeadlineExceeded}, context.DeadlineExceeded},
	} {
		t.Run(test.name, func(t *testing.T) {
			attempts := 0
			err := RetryOnConflict(func() error {
				attempts++
				return test.answers[attempts-1]
			})
			require.ErrorIs(t, err, test.want)
			require.Len(t, test.answers, attempts)
		})
	}
	require.ErrorIs(t, RetryOnConflict(func() error { return conflict }), conflict)
}
