package statuspage

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/observe"
	statusv1 "drydock.dev/drydock/internal/statuspage/proto/drydock/v1"
	"drydock.dev/drydock/internal/statuspage/proto/drydock/v1/statusv1connect"
)

func TestPagesShowTheCurrentState(t *testing.T) {
	_, web := shown(t, fleet())
	tests := []struct {
		name, path string
		texts      []string
	}{
		{"the overview shows everything", "/", []string{
			"Maintenance in progress", "Database upgrade", "because of Database upgrade", "Upcoming maintenance", "Saturday night", "Past maintenance", "New switches",
			"<h2 id=\"h-incidents\">Incidents</h2>", "Names do not resolve", "Major, monitoring", "The cache is filled again.", "Past incidents", "No login", "Resolved",
			`aria-label="Last 30 days, by the worst of each: not known on 5 days, operational on 23 days, partial outage on 1 day (11 Nov), under maintenance on 1 day (21 Nov)."`,
			`href="/upgrades/prod/november"`, "Batch 2 of 3", "1 of 3 clusters complete, 1 running, 1 pending", `value="42"`, "Blocked", "Batch in progress", "prod/october",
			`href="/nodes/spoke-2/worker-3"`, "cluster spoke-2, for november.prod.cgu", "End unknown: spoke-2 is blocked: budget shop/web allows 0 of 3.",
		}},
		{"a rollout has its batches", "/upgrades/prod/november", []string{
			"Batch 1", "Batch 2", "in progress", "worker-3: Draining; Disruption budget: budget shop/web allows 0 of 3", "1 of 4 nodes done",
			`href="http://127.0.0.1:8233/namespaces/default/workflows/cgu%2Fprod%2Fnovember/run-1"`,
		}},
		{"a node has its timeline and its blockers", "/nodes/spoke-2/worker-3", []string{
			"Scheduled", "took 1m0s", `aria-current="step"`, "Disruption budget", "PodDisruptionBudget shop/web: needs 3 healthy", "for november.prod.cgu",
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			status, _, body := get(t, web.URL+test.path)
			require.Equal(t, http.StatusOK, status)
			for _, text := range test.texts {
				require.Contains(t, body, text)
			}
			require.Equal(t, 1, strings.Count(body, "<h1"), "one headline")
			require.NotContains(t, body, "Maintaining nodes", "the rollout is blocked")
		})
	}
}

func TestAHoldIsShownOnce(t *testing.T) {
	hold := &drydockv1.Hold{Scope: "cluster/spoke-3", By: "ann", Reason: "flood in hall 2", Since: metav1.NewTime(noon)}
	view := fleet()
	view.Upgrades[0].Status.Held = hold
	_, web := shown(t, view)
	_, _, body := get(t, web.URL+"/upgrades/prod/november")
	require.Contains(t, body, "flood in hall 2", "the rollout waits for something else")

	view.Upgrades[0].Status.Wait = emergency.Wait(*hold, metav1.NewTime(noon))
	_, web = shown(t, view)
	_, _, body = get(t, web.URL+"/upgrades/prod/november")
	require.Equal(t, 1, strings.Count(body, "flood in hall 2"))
}

func TestAMissingSubjectIsNotFound(t *testing.T) {
	_, web := shown(t, fleet())
	for _, path := range []string{"/upgrades/prod/december", "/nodes/spoke-2/worker-9", "/nowhere", "/assets/style.css", "/upgrades/prod", "/upgrades/%2e%2e/x"} {
		status, header, _ := get(t, web.URL+path)
		require.Equal(t, http.StatusNotFound, status, path)
		require.NotEmpty(t, header.Get("Content-Security-Policy"), path)
	}
}

func TestARolloutWithoutClustersHasNoProgress(t *testing.T) {
	view := fleet()
	view.Upgrades[0].Status.Clusters, view.Upgrades[0].Status.Counts, view.Upgrades[0].Status.Percentage = nil, ranv1.ClusterCounts{}, 100
	_, web := shown(t, view)
	for _, path := range []string{"/", "/upgrades/prod/november"} {
		_, _, body := get(t, web.URL+path)
		require.Contains(t, body, "prod/november")
		require.NotContains(t, body, "<progress")
	}
}

func TestARolloutLinksItsOwnNodes(t *testing.T) {
	view := fleet()
	other := worker3()
	other.Ref, other.Row.Node, other.Requestor = observe.RefOf("node/spoke-2/default/worker-1", "run-3"), "worker-1", "ann.example.com"
	view.Nodes = append(view.Nodes, other)
	_, web := shown(t, view)
	_, _, body := get(t, web.URL+"/upgrades/prod/november")
	require.Contains(t, body, `href="/nodes/spoke-2/worker-3"`)
	require.NotContains(t, body, `href="/nodes/spoke-2/worker-1"`, "it belongs to another requestor")
}

func TestANodeThatWaitsForASlotIsNotUnderMaintenance(t *testing.T) {
	view := fleet()
	waiting := func(node string) Node {
		n := worker3()
		n.Ref, n.Row.Node, n.Requestor = observe.RefOf("node/spoke-2/default/"+node, "run-3"), node, "ann.example.com"
		n.Status.State = maintenancev1.NodePending
		return n
	}
	view.Nodes = append(view.Nodes, waiting("worker-1"), waiting("worker-3"))
	s, web := shown(t, view)
	_, _, body := get(t, web.URL)
	require.Contains(t, body, "1 node under maintenance · 1 node waiting for maintenance</p>")
	status, err := mcpTools{s}.platformStatus(noInput{})
	require.NoError(t, err)
	require.Equal(t, []string{"spoke-2/worker-3"}, status.Nodes, "additional requestors do not count")
	require.Equal(t, []string{"spoke-2/worker-1"}, status.NodesWaiting)
}

func TestANodeWithoutANameIsNotALink(t *testing.T) {
	view := fleet()
	view.Nodes[0].Row.Node = ""
	_, web := shown(t, view)
	_, _, body := get(t, web.URL)
	require.Contains(t, body, ">prod/november-worker-3</span>")
	require.NotContains(t, body, `href="/nodes/`)
}

func TestTextsOfUsersAreEscaped(t *testing.T) {
	view := fleet()
	view.Portal.InProgress[0].Title = `<script>alert(1)</script>`
	view.Portal.Components[0].Link = "javascript:alert(1)"
	_, web := shown(t, view)
	_, _, body := get(t, web.URL)
	require.NotContains(t, body, "<script>alert")
	require.Contains(t, body, "&lt;script&gt;alert(1)")
	require.NotContains(t, body, "javascript:")
}

func TestPagesForbidExternalResources(t *testing.T) {
	_, web := shown(t, fleet())
	_, header, body := get(t, web.URL)
	policy := header.Get("Content-Security-Policy")
	require.Contains(t, policy, "default-src 'none'")
	require.Contains(t, policy, "frame-ancestors 'none'")
	require.NotContains(t, policy, "unsafe")
	require.Equal(t, "nosniff", header.Get("X-Content-Type-Options"))
	require.Equal(t, "no-store", header.Get("Cache-Control"))
	require.NotContains(t, body, "style=", "the policy would refuse it")
	require.NotRegexp(t, `<script[^>]*>[^<]`, body, "the policy would refuse it")

	_, header, _ = get(t, web.URL+styleOf(body))
	require.Contains(t, header.Get("Cache-Control"), "immutable")
	require.Contains(t, header.Get("Content-Type"), "text/css")
}

func TestContentTypesOfAssetsDoNotDependOnTheMachine(t *testing.T) {
	s, web := shown(t, fleet())
	was := mime.TypeByExtension(".js")
	require.NoError(t, mime.AddExtensionType(".js", "text/plain"))
	t.Cleanup(func() { require.NoError(t, mime.AddExtensionType(".js", was)) })
	for path, kind := range map[string]string{s.assets.Script: "text/javascript", s.assets.Style: "text/css", s.assets.Icon: "image/svg+xml"} {
		_, header, _ := get(t, web.URL+path)
		require.Contains(t, header.Get("Content-Type"), kind)
	}
}

// styleOf returns the path of a page's style sheet.
func styleOf(body string) string {
	_, rest, _ := strings.Cut(body, `rel="stylesheet" href="`)
	path, _, _ := strings.Cut(rest, `"`)
	return path
}

func TestAStalePageShowsTheOutage(t *testing.T) {
	view := fleet()
	view.Trouble = &Trouble{Message: "Temporal does not answer", Since: noon.Add(time.Minute)}
	_, web := shown(t, view)
	_, _, body := get(t, web.URL)
	require.Contains(t, body, "Temporal does not answer since")
	require.Contains(t, body, "Last known: Maintenance in progress")
	require.Contains(t, body, `datetime="2026-11-21T12:01:00Z"`)
	_, _, answer := get(t, web.URL+`/drydock.v1.StatusService/ListComponents?encoding=json&message=%7B%7D`)
	require.Contains(t, answer, `"stale":true`)
}

// unreadFleet is a view with listed workflows whose status has not been read, or cannot be read now.
func unreadFleet() View {
	view := fleet()
	upgrade, node := &view.Upgrades[0], &view.Nodes[0]
	upgrade.Known, upgrade.Status = false, ranv1.ClusterGroupUpgradeStatus{}
	node.Trouble = &Trouble{Message: "Cannot read its status", Since: noon}
	view.MoreUpgrades, view.MoreNodes = 7, 8
	return view
}

func TestUnreadWorkflowsAreNotShownAsKnown(t *testing.T) {
	_, web := shown(t, unreadFleet())
	_, _, body := get(t, web.URL)
	for _, text := range []string{"Not read yet", "Cannot read its status", "and 7 more", "and 8 more"} {
		require.Contains(t, body, text)
	}
	for _, text := range []string{"0%", "0 of 0", "Planning"} {
		require.NotContains(t, body, ">"+text)
	}
	_, _, body = get(t, web.URL+"/upgrades/prod/november")
	require.Contains(t, body, "Not read yet")
	require.NotContains(t, body, "0 of 0")

	_, _, answer := get(t, web.URL+`/drydock.v1.StatusService/ListUpgrades?encoding=json&message=%7B%7D`)
	require.Contains(t, answer, `"more":7`)
	require.Equal(t, 1, strings.Count(answer, `"known":true`), "only the ended one")
	_, _, answer = get(t, web.URL+`/drydock.v1.StatusService/ListNodes?encoding=json&message=%7B%7D`)
	require.Contains(t, answer, `"more":8`)
}

func TestProblemsOfAPortalAreShown(t *testing.T) {
	const problem = "window prod/sunday is not shown: portal main would have 201 windows"
	view := fleet()
	view.Portal.Problems = []string{problem}
	view.Portal.Components[1].BecauseMore = 4
	s, web := shown(t, view)
	_, _, body := get(t, web.URL)
	require.Contains(t, body, problem)
	require.Contains(t, body, "because of Database upgrade, 4 more")
	_, _, answer := get(t, web.URL+`/drydock.v1.StatusService/ListMaintenances?encoding=json&message=%7B%7D`)
	require.Contains(t, answer, `"problems":["`+problem+`"]`)
	_, _, answer = get(t, web.URL+`/drydock.v1.StatusService/ListComponents?encoding=json&message=%7B%7D`)
	require.Contains(t, answer, `"becauseMore":4`)
	status, err := mcpTools{s}.platformStatus(noInput{})
	require.NoError(t, err)
	require.Equal(t, []string{problem}, status.Problems)
	require.Equal(t, []string{problem}, changedSince(nil, &view, webUI{}).GetMaintenances().GetProblems(), "watchers receive it too")

	_, web = shown(t, fleet())
	_, _, body = get(t, web.URL)
	require.NotContains(t, body, "Not shown")
}

func TestARecoveredFailureIsShownAsAFailure(t *testing.T) {
	node := worker3()
	node.Status.States = append(node.Status.States,
		maintenancev1.StateTime{State: maintenancev1.NodeRequestorFailed, At: metav1.NewTime(noon)}, maintenancev1.StateTime{State: maintenancev1.NodeReady, At: metav1.NewTime(noon)})
	var tones []string
	for _, step := range newNode(node, webUI{}, noon).Steps {
		tones = append(tones, step.Tone)
	}
	require.Equal(t, []string{"good", "good", "good", "good", "bad", "work"}, tones)
}

func TestAnUnreadSubjectIsNotReportedAsMissing(t *testing.T) {
	_, web := shown(t, View{Trouble: &Trouble{Message: "Nothing has been read yet", Since: noon}})
	status, header, body := get(t, web.URL+"/upgrades/prod/november")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.NotEmpty(t, header.Get("Retry-After"))
	require.Contains(t, body, "Nothing has been read yet")
	status, _, _ = get(t, web.URL+"/nowhere")
	require.Equal(t, http.StatusNotFound, status, "the path is invalid")
	status, _, body = get(t, web.URL)
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, `<h1 id="headline" data-announce>Not read yet</h1>`)
	require.Contains(t, body, "Nothing is known yet.")
	require.NotContains(t, body, "Nothing is declared", "the portal is unread")
	status, _, body = get(t, web.URL+`/drydock.v1.StatusService/GetUpgrade?encoding=json&message=%7B%22namespace%22%3A%22prod%22%2C%22name%22%3A%22november%22%7D`)
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Contains(t, body, `"unavailable"`)
}

func TestAConnectionWithoutARequestIsClosed(t *testing.T) {
	s, _ := shown(t, fleet())
	const limit = 5 * time.Second // a busy server reads complete requests in time
	web := httptest.NewUnstartedServer(s.Handler())
	web.Config.ReadTimeout, web.Config.WriteTimeout = limit, limit
	web.Start()
	t.Cleanup(web.Close)

	// A complete request may have a stream that lives longer than the limit.
	_, got := events(t, web.URL+"/events?page=/")
	await(t, got, `"id":"asof"`)
	watching, err := statusv1connect.NewStatusServiceClient(http.DefaultClient, web.URL).Watch(t.Context(), connect.NewRequest(&statusv1.WatchRequest{}))
	require.NoError(t, err)
	defer watching.Close()
	require.True(t, watching.Receive())

	silent, err := net.Dial("tcp", strings.TrimPrefix(web.URL, "http://"))
	require.NoError(t, err)
	defer silent.Close()
	fmt.Fprintf(silent, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/connect+json\r\nContent-Length: 7\r\n\r\n", statusv1connect.StatusServiceWatchProcedure)
	require.NoError(t, silent.SetReadDeadline(time.Now().Add(patience)))
	_, err = io.ReadAll(silent)
	require.NoError(t, err, "the server closes it")
	require.Eventually(t, func() bool { return s.streams.count() == 2 }, patience, tick, "the two complete requests")

	next := fleet()
	next.Upgrades[0].Status.Percentage = 50
	s.show(next)
	await(t, got, "50%")
	require.True(t, watching.Receive(), "%v", watching.Err())
	require.EqualValues(t, 50, watching.Msg().GetUpgrades().GetUpgrades()[0].GetPercentage())
}

func TestAPanicIsLogged(t *testing.T) {
	s, _ := shown(t, fleet())
	s.pages = nil
	s.reader = NewReader(unreachable(t), "main", false, s.options.Log)
	output := make(chan string, 10)
	s.options.Log = slog.New(slog.NewTextHandler(writer(func(line []byte) (int, error) {
		output <- string(line)
		return len(line), nil
	}), nil))
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	_, err = http.Get("http://" + listener.Addr().String())
	require.Error(t, err)
	await(t, output, "panic serving")
	stop()
	require.NoError(t, <-ended)
}

// writer is an io.Writer that calls a function.
type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestCrossSiteWritesAreRefused(t *testing.T) {
	_, web := shown(t, fleet())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, web.URL+"/drydock.v1.StatusService/CancelMaintenance", strings.NewReader(`{"name":"x"}`))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Sec-Fetch-Site", "cross-site")
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
}
