package activities

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestACheckThatWasBegunAheadIsMadeAnewWhenItIsAskedAgain(t *testing.T) {
	asked := make(chan struct{}, 2)
	answers := make(chan error, 2)
	check := ahead(t.Context(), func(context.Context) error {
		asked <- struct{}{}
		return <-answers
	})
	<-asked // before anybody wants the answer
	held := errors.New("held")
	answers <- held
	require.ErrorIs(t, check(t.Context()), held)
	answers <- nil
	require.NoError(t, check(t.Context()))
	require.Len(t, asked, 1)
}
