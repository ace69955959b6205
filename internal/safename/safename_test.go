package safename_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"drydock.dev/drydock/internal/safename"
)

func TestAShortNameStaysAsItIs(t *testing.T) {
	require.Equal(t, "os-update.prod.cgu", safename.Join(".", "os-update", "prod", "cgu"))
}

func TestNamesAreValidWhereTheirPartsAreAndDifferentWhereTheyAre(t *testing.T) {
	name := rapid.StringMatching(`[a-z0-9]([-a-z0-9.]{0,80}[a-z0-9])?`).Filter(func(name string) bool {
		return len(validation.IsDNS1123Subdomain(name)) == 0
	})
	rapid.Check(t, func(t *rapid.T) {
		one, other := name.Draw(t, "one"), name.Draw(t, "other")
		joined := safename.Join("-", "rollout", one)
		require.Empty(t, validation.IsDNS1123Subdomain(joined), joined)
		require.Empty(t, validation.IsValidLabelValue(joined), joined)
		require.Equal(t, one == other, joined == safename.Join("-", "rollout", other))
	})
}
