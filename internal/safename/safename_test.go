package safename_test

import (
	"slices"
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

func TestUniqueNamesFitAndAreDifferentWheneverAPartIs(t *testing.T) {
	part := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,80}[a-z0-9])?`)
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(10, 63).Draw(t, "most")
		one, other := []string{part.Draw(t, "a"), part.Draw(t, "b")}, []string{part.Draw(t, "c"), part.Draw(t, "d")}
		name := safename.Unique(most, []string{"ns"}, one...)
		require.LessOrEqual(t, len(name), most)
		require.Empty(t, validation.IsDNS1123Label(name), name)
		require.Equal(t, slices.Equal(one, other), name == safename.Unique(most, []string{"ns"}, other...))
		require.NotEqual(t, name, safename.Unique(most, []string{"another"}, one...))
	})
	require.NotEqual(t, safename.Unique(63, nil, "a-b", "c"), safename.Unique(63, nil, "a", "b-c"))
}
