package statuspage

import (
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/portal"
)

func home(t *testing.T, view View) string {
	t.Helper()
	_, web := shown(t, view)
	answer, err := http.Get(web.URL)
	require.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return string(text)
}

func TestHoldsHaveABannerThatNamesHowToEndThem(t *testing.T) {
	since := metav1.NewTime(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	page := home(t, View{AsOf: time.Now(), Holds: []drydockv1.Hold{
		{Scope: drydockv1.HoldAll, By: "kim", Reason: "power <work>", Since: since}, {Scope: drydockv1.HoldCluster("spoke-1"), Since: since},
	}})
	require.Contains(t, page, "<strong>Every cluster is held</strong>")
	require.Contains(t, page, " by kim: power &lt;work&gt;. No new work starts; <code>drydock release --all</code> ends it.")
	require.Contains(t, page, "<strong>Cluster spoke-1 is held</strong>")
	require.Contains(t, page, "<code>drydock release --cluster spoke-1</code>")
	require.NotContains(t, home(t, View{AsOf: time.Now()}), "is held")
}

func TestTheBarsOfDaysHaveALegendAndUptime(t *testing.T) {
	day := portal.Day{Date: "2026-11-21", Worst: sreportalv1.StatusMajorOutage, KnownSeconds: 86400, StatusSeconds: map[sreportalv1.ServiceStatus]int64{
		sreportalv1.StatusMajorOutage: 864, sreportalv1.StatusMaintenance: 8640, sreportalv1.StatusOperational: 76896,
	}}
	shop := portal.ComponentView{Name: "shop", DisplayName: "Shop", Group: "Sales", Days: []portal.Day{day}}
	page := home(t, View{AsOf: time.Now(), Portal: &portal.View{Components: []portal.ComponentView{shop}}})
	require.Contains(t, page, "99% uptime")
	require.Contains(t, page, `<span class="swatch worst"></span>Major outage`)
}

func TestUptimeIsTheShareOfTheKnownTimeWithoutAnOutage(t *testing.T) {
	with := func(known, outage int64) []portal.Day {
		return []portal.Day{{KnownSeconds: known, StatusSeconds: map[sreportalv1.ServiceStatus]int64{sreportalv1.StatusPartialOutage: outage}}}
	}
	require.Empty(t, uptimeText(with(0, 0)))
	require.Equal(t, "100% uptime", uptimeText(with(86400, 0)))
	require.Equal(t, "99.99% uptime", uptimeText(with(86400, 1)), "an outage never shows as 100%")
	require.Equal(t, "99.5% uptime", uptimeText(with(1000, 5)))
	require.Equal(t, "90% uptime", uptimeText(with(1000, 100)))
}

func TestTextBetweenBackticksIsCode(t *testing.T) {
	require.Equal(t, "run <code>kubectl &lt;x&gt;</code> &amp; wait", string(codeIn("run `kubectl <x>` & wait")))
	require.Equal(t, "one ` alone &lt;", string(codeIn("one ` alone <")))
}

func TestThePageHasTheTitleOfItsOptions(t *testing.T) {
	s, err := New(Options{Portal: "main", Title: "Example status", Log: discard()})
	require.NoError(t, err)
	s.show(View{AsOf: time.Now()})
	made, err := s.pages.page("/", s.reader.view)
	require.NoError(t, err)
	require.Equal(t, "Example status", made.Portal)
}
