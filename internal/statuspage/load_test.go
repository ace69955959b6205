package statuspage

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
)

func TestAPageIsRenderedOnceForEachView(t *testing.T) {
	s, web := shown(t, fleet())
	for _, path := range []string{"/upgrades/prod/november", "/upgrades/prod/%6eovember", "/%75pgrades/prod/november"} {
		status, _, _ := get(t, web.URL+path)
		require.Equal(t, http.StatusOK, status, path)
	}
	require.Len(t, s.pages.rendered, 1, "the escaped path is the same page")

	old, _ := s.reader.View()
	next := fleet()
	next.Upgrades[0].Status.Percentage = 50
	s.show(next)
	made, err := s.pages.page("/upgrades/prod/november", old)
	require.NoError(t, err)
	require.Contains(t, made.Sections[1].HTML, "50%", "a request that waited gets the newer view")
}

func BenchmarkOverview(b *testing.B) {
	s, err := New(Options{Portal: "main", Log: discard()})
	require.NoError(b, err)
	view := large(200)
	handler := s.Handler()
	for _, bench := range []struct {
		name    string
		changes bool
	}{{"unchanged", false}, {"changed", true}} {
		b.Run(bench.name, func(b *testing.B) {
			s.show(view)
			for b.Loop() {
				if bench.changes {
					view.Portal.Components[0].Status = sreportalv1.StatusDegraded
					s.show(view)
				}
				answer := httptest.NewRecorder()
				handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/", nil))
				require.Equal(b, http.StatusOK, answer.Code)
			}
		})
	}
}

func TestTwoHundredComponentsAreAnsweredWithinASecond(t *testing.T) {
	s, err := New(Options{Portal: "main", Log: discard()})
	require.NoError(t, err)
	handler, status := s.Handler(), 0
	for _, path := range []string{"/", "/drydock.v1.StatusService/ListComponents?encoding=json&message=%7B%7D", "/drydock.v1.StatusService/ListMaintenances?encoding=json&message=%7B%7D"} {
		// A busy machine gets several tries, each with a view that is not rendered yet.
		require.Eventually(t, func() bool {
			s.show(large(200))
			begun, answer := time.Now(), httptest.NewRecorder()
			handler.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil))
			status = answer.Code
			return time.Since(begun) < time.Second
		}, patience, tick, path)
		require.Equal(t, http.StatusOK, status)
	}
}
