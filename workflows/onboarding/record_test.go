package onboarding

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/workflows/kit/kittest"
)

func TestThousandsOfFailedClustersFitIntoTheNextRun(t *testing.T) {
	status := kittest.Run(t, func(ctx workflow.Context) (Status, error) {
		r := newRecord(ctx, nil)
		for i := range 10_000 {
			c := Cluster{Name: fmt.Sprintf("edge-site-%05d.example", i), Since: metav1.NewTime(workflow.Now(ctx))}
			r.fail(&c, ranv1.ReasonTimedOut, strings.Repeat("a long message ", 100))
			r.status.Clusters = append(r.status.Clusters, c)
		}
		return r.status, nil
	})
	require.Equal(t, 10_000, status.Count(Failed))
	text, err := json.Marshal(Input{Carried: &status})
	require.NoError(t, err)
	require.Less(t, len(text), 2<<20)
	require.NotEmpty(t, status.Clusters[failuresExplained-1].Message)
	require.Empty(t, status.Clusters[failuresExplained].Message)
}
