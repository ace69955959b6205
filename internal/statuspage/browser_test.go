package statuspage

import (
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/observe"
)

func TestPagesInABrowser(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	b.width(t, 1200)
	t.Run("changes appear without a reload or a layout shift", b.showsChanges)
	t.Run("the focused element keeps the focus when elements are added before it", b.keepsFocus)
	t.Run("everything is reachable by keyboard", b.keyboard)
	t.Run("clicks lead to a rollout and its nodes", b.clicks)
	t.Run("a stale page does not shift its layout", b.staysInPlace)
	t.Run("the state of a node is announced to screen readers", b.announcesStates)
	t.Run("times that have passed are shown as late", b.reportsLateTimes)
	t.Run("a hidden page has no connection", b.closesHiddenPage)
	t.Run("tones differ by more than their colours", b.tones)
	t.Run("every page fits a phone and can be read in light and dark", b.fits)
	t.Run("the page is complete without scripts", b.withoutScripts)
	b.mu.Lock()
	require.Empty(t, b.problems)
	b.mu.Unlock()
	t.Run("a page reloads when its subject appears or disappears", b.reloadsWhenSubjectChanges)
	t.Run("a page without its server shows that", b.losesServer)
}

const topOfComponents = `Math.round(document.getElementById("h-components").getBoundingClientRect().top + scrollY)`

func (b *browser) showsChanges(t *testing.T) {
	b.open(t, "/")
	b.picture(t, "overview-light")
	require.Equal(t, "Maintenance in progress · main", eval[string](t, b, "document.title"))
	b.do(t, chromedp.Focus(chromedp.CSS(`a[href="/upgrades/prod/november"]`)))
	eval[bool](t, b, "window.same = true")
	top := eval[int](t, b, topOfComponents)

	next := func() View { // a published view must not change, because the server reads it
		view := fleet()
		view.Upgrades[0].Status.Percentage = 77
		view.Portal.Components[0].Status = sreportalv1.StatusDegraded
		return view
	}
	b.server.show(next())
	b.waitFor(t, `document.querySelector("progress").value`, 77.0)
	require.Contains(t, eval[string](t, b, "document.querySelector('.components').innerText"), "Degraded")
	require.True(t, eval[bool](t, b, "window.same"), "the page was not reloaded")
	require.Equal(t, "/upgrades/prod/november", eval[string](t, b, "document.activeElement.getAttribute('href')"), "the link keeps the focus")
	require.Equal(t, top, eval[int](t, b, topOfComponents))
	require.Empty(t, eval[string](t, b, "document.getElementById('announcer').textContent"), "not every change is announced")

	worse := next()
	worse.Portal.Status = sreportalv1.StatusMajorOutage
	b.server.show(worse)
	b.waitFor(t, "document.getElementById('announcer').textContent", "Major outage")
	require.Equal(t, "polite", eval[string](t, b, "document.getElementById('announcer').getAttribute('aria-live')"))

	worse.Trouble = &Trouble{Message: "Temporal does not answer", Since: noon}
	b.server.show(worse)
	b.waitFor(t, "document.querySelector('h1').textContent", "Last known: Major outage")
	b.waitFor(t, "document.querySelector('#s-notice').innerText.includes('Temporal does not answer since')", true)
	b.picture(t, "overview-stale")
	b.server.show(fleet())
	b.waitFor(t, "document.querySelector('#s-notice').innerText", "")
}

func (b *browser) keepsFocus(t *testing.T) {
	b.open(t, "/")
	b.do(t, chromedp.Focus(chromedp.CSS(`a[href="/nodes/spoke-2/worker-3"]`)))
	eval[bool](t, b, "!!(window.focused = document.activeElement)")
	for _, names := range [][]string{
		{"worker-4", "worker-3"},
		{"worker-3", "worker-4"},
		{"worker-5", "worker-4", "worker-6", "worker-3", "worker-7"},
		{"worker-6", "worker-3"},
		{"worker-3"},
	} {
		view := fleet()
		view.Nodes = nil
		for _, name := range names {
			n := worker3()
			n.Ref, n.Row.Node = observe.RefOf("node/spoke-2/prod/november-"+name, "run-2"), name
			view.Nodes = append(view.Nodes, n)
		}
		b.server.show(view)
		b.waitFor(t, "[...document.querySelectorAll('.nodes > li > a')].map((a) => a.textContent).join()", strings.Join(names, ","))
		require.True(t, eval[bool](t, b, "document.activeElement === window.focused"), "%v: the focus stays", names)
		require.Equal(t, "worker-3", eval[string](t, b, "document.activeElement.textContent"))
	}
}

func (b *browser) keyboard(t *testing.T) {
	b.open(t, "/")
	const focused = "document.activeElement.textContent.trim()"
	b.do(t, chromedp.KeyEvent(kb.Tab))
	require.Equal(t, "Skip to content", eval[string](t, b, focused))
	require.GreaterOrEqual(t, eval[float64](t, b, "document.activeElement.getBoundingClientRect().top"), 0.0, "the link is visible")
	var reached []string
	for range 7 {
		b.do(t, chromedp.KeyEvent(kb.Tab))
		reached = append(reached, eval[string](t, b, focused))
		require.NotEqual(t, "none", eval[string](t, b, "getComputedStyle(document.activeElement).outlineStyle"), "the focus is visible")
	}
	require.Equal(t, []string{"main", "API", "Registry", "Build farm", "prod/november", "prod/october", "worker-3"}, reached)
}

func (b *browser) clicks(t *testing.T) {
	b.open(t, "/")
	b.do(t, chromedp.Click(chromedp.CSS(`a[href="/upgrades/prod/november"]`)), chromedp.WaitVisible(chromedp.CSS("#h-batches")))
	require.Contains(t, eval[string](t, b, "document.querySelector('main').innerText"), "Batch 2")
	b.do(t, chromedp.Click(chromedp.CSS(`.clusters a[href="/nodes/spoke-2/worker-3"]`)), chromedp.WaitVisible(chromedp.CSS(".timeline")))
	require.Equal(t, "Draining", eval[string](t, b, "document.querySelector('[aria-current=step] .state').textContent"))
	b.do(t, chromedp.Click(chromedp.CSS("nav a")), chromedp.WaitVisible(chromedp.CSS("#h-components")))
}

// places returns the position of every element in the window.
const places = `JSON.stringify([...document.querySelectorAll("header, main *, footer p")].map((e) => e.getBoundingClientRect()).map(({ left, top }) => [Math.round(left), Math.round(top)]))`

func (b *browser) staysInPlace(t *testing.T) {
	defer b.width(t, 1200)
	for _, width := range []int64{1200, 360} {
		b.width(t, width)
		b.open(t, "/")
		before := eval[string](t, b, places)
		stale := fleet()
		stale.Trouble = &Trouble{Message: "Temporal does not answer", Since: noon}
		b.server.show(stale)
		b.waitFor(t, "document.querySelector('h1').textContent", "Last known: Maintenance in progress")
		b.waitFor(t, "!!document.querySelector('#s-notice .notice')", true)
		require.Equal(t, before, eval[string](t, b, places))
		require.True(t, eval[bool](t, b, "document.querySelector('#s-notice .notice').getBoundingClientRect().bottom <= innerHeight"), "the notice is visible")
		b.server.show(fleet())
		b.waitFor(t, "!!document.querySelector('#s-notice .notice')", false)
	}
}

func (b *browser) announcesStates(t *testing.T) {
	b.open(t, "/nodes/spoke-2/worker-3")
	next := fleet()
	next.Nodes[0].Status.State, next.Nodes[0].Status.Wait = maintenancev1.NodeScheduled, nil
	b.server.show(next)
	b.waitFor(t, "document.getElementById('announcer').textContent", "Scheduled.")
	b.server.show(fleet())
}

func (b *browser) closesHiddenPage(t *testing.T) {
	b.open(t, "/")
	requireStreams := func(n int) {
		t.Helper()
		require.Eventually(t, func() bool { return b.server.streams.count() == n }, patience, tick)
	}
	see := func(state string) {
		eval[bool](t, b, `Object.defineProperty(document, "visibilityState", { value: "`+state+`", configurable: true }) && document.dispatchEvent(new Event("visibilitychange"))`)
	}
	requireStreams(1)
	see("hidden")
	requireStreams(0)
	next := fleet()
	next.Upgrades[0].Status.Percentage = 55
	b.server.show(next)
	see("visible")
	b.waitFor(t, "document.querySelector('progress').value", 55.0)
	requireStreams(1)
	b.server.show(fleet())
}

func (b *browser) tones(t *testing.T) {
	b.open(t, "/")
	styles := eval[[]string](t, b, `["good", "work", "warn", "bad", "worst", "none", "blank"].map((tone) => {
	  const run = document.createElement("span");
	  run.className = "run " + tone;
	  document.querySelector(".days").append(run);
	  const { backgroundImage, backgroundColor } = getComputedStyle(run);
	  run.remove();
	  return (backgroundImage.match(/[\d.]+%/) || [backgroundColor])[0];
	})`)
	for i, style := range styles {
		require.NotContains(t, styles[:i], style)
	}
	require.Equal(t, []string{"85%", "70%", "55%", "40%", "10%"}, styles[1:6], "a worse status has a lower bar")
}

func (b *browser) reloadsWhenSubjectChanges(t *testing.T) {
	b.open(t, "/nodes/spoke-2/worker-3")
	forgotten := fleet()
	forgotten.Nodes = nil
	b.server.show(forgotten)
	b.waitFor(t, "document.querySelector('h1').textContent", "Page not found")
	b.server.show(fleet())
	b.waitFor(t, "document.querySelector('[aria-current=step] .state')?.textContent", "Draining")
}

// contrasts returns the texts of a page that do not have the contrast of WCAG AA.
const contrasts = `(() => {
  const parse = (c) => (c.match(/[\d.]+/g) || []).map(Number);
  const linear = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
  const bad = [];
  for (const e of document.querySelectorAll("body *")) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || !e.checkVisibility() || e.closest(".unseen")) continue;
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) bad.push(e.textContent.trim().slice(0, 40) + " " + ratio.toFixed(2));
  }
  return bad;
})()`

// structure returns the problems of a page for screen readers.
const structure = `(() => {
  const bad = [];
  for (const landmark of ["header", "main", "footer"]) if (document.querySelectorAll(landmark).length !== 1) bad.push("not one " + landmark);
  let level = 0;
  for (const h of document.querySelectorAll("h1, h2, h3, h4")) {
    const own = Number(h.nodeName[1]);
    if (own > level + 1) bad.push("h" + own + " after h" + level + ": " + h.textContent);
    level = own;
  }
  for (const image of document.querySelectorAll("[role=img], progress")) if (!image.getAttribute("aria-label")) bad.push("no words for " + image.outerHTML);
  for (const link of document.querySelectorAll("a")) if (!link.textContent.trim()) bad.push("a link without words");
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  if (new Set(ids).size !== ids.length) bad.push("an id twice");
  return bad;
})()`

// brokenNames returns the names that are longer than one line.
const brokenNames = `[...document.querySelectorAll(".line > h1, .clusters h4, .now a")].filter((e) => {
	const range = document.createRange();
	range.selectNodeContents(e.lastChild);
	return range.getClientRects().length > 1;
}).map((e) => e.textContent)`

func (b *browser) fits(t *testing.T) {
	everything := fleet()
	everything.Portal.Components[0].Status, everything.Portal.Components[0].Declared = sreportalv1.StatusMajorOutage, sreportalv1.StatusMajorOutage
	everything.Portal.Components[2].Status = sreportalv1.StatusDegraded
	everything.Portal.Components[2].DisplayName = "A-component-with-a-very-long-name-and-no-place-to-break-it-anywhere"
	everything.Portal.Status = sreportalv1.StatusMajorOutage
	everything.Portal.Problems = []string{"window prod/sunday-night is not shown: portal main would have 201 windows, and can have 200: delete some, or use another portal"}
	everything.Trouble = &Trouble{Message: "No Drydock worker answers", Since: noon}
	b.server.show(everything)
	defer b.server.show(fleet())
	for path, name := range map[string]string{"/": "overview", "/upgrades/prod/november": "upgrade", "/nodes/spoke-2/worker-3": "node"} {
		b.open(t, path)
		require.Empty(t, eval[[]string](t, b, structure), path)
		for _, scheme := range []string{"light", "dark"} {
			b.scheme(t, scheme)
			for _, width := range []int64{1200, 360} {
				b.width(t, width)
				require.LessOrEqual(t, eval[int](t, b, "document.documentElement.scrollWidth"), int(width), "%s: no horizontal scrolling", path)
				require.Empty(t, eval[[]string](t, b, contrasts), "%s in %s", path, scheme)
				require.Empty(t, eval[[]string](t, b, brokenNames), "%s at %d", path, width)
				b.picture(t, strings.Join([]string{name, scheme, map[int64]string{1200: "wide", 360: "phone"}[width]}, "-"))
			}
		}
		dark := eval[string](t, b, "getComputedStyle(document.body).backgroundColor")
		b.scheme(t, "light")
		require.NotEqual(t, dark, eval[string](t, b, "getComputedStyle(document.body).backgroundColor"))
		b.width(t, 1200)
	}
}

// The page has had no update for hours.
func (b *browser) reportsLateTimes(t *testing.T) {
	late, soon := time.Now().Add(-150*time.Minute), time.Now().Add(150*time.Minute)
	view := fleet()
	view.Portal.InProgress[0].End, view.Portal.Upcoming[0].Start = late, late
	b.server.show(view)
	defer b.server.show(fleet())
	b.open(t, "/")
	const texts = "[...document.querySelectorAll('.when .soft')].map((e) => e.textContent).join()"
	b.waitFor(t, texts, "(should have ended 2 hours ago),(should have started 2 hours ago)")
	view = fleet()
	view.Portal.InProgress[0].End, view.Portal.Upcoming[0].Start = soon, soon
	b.server.show(view)
	b.waitFor(t, texts, "(ends in 2 hours),(starts in 2 hours)")
}

func (b *browser) withoutScripts(t *testing.T) {
	b = b.tab(t)
	send(t, b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.do(t, chromedp.Navigate(b.web.URL), chromedp.WaitReady(chromedp.CSS("h1")))
	text := answer(t, b, chromedp.TextContent(chromedp.CSS("main")))
	for _, wanted := range []string{"Maintenance in progress", "Database upgrade", "21 Nov 2026, 13:00 UTC", "Registry", "prod/november", "42%"} {
		require.Contains(t, text, wanted)
	}

	next := fleet()
	next.Upgrades[0].Status.Percentage = 66
	b.server.show(next)
	defer b.server.show(fleet())
	require.Contains(t, answer(t, b, chromedp.InnerHTML(chromedp.CSS("head"))), `http-equiv="refresh"`, "it reloads itself")
	b.do(t, chromedp.Reload(), chromedp.WaitReady(chromedp.CSS("h1")))
	require.Contains(t, answer(t, b, chromedp.TextContent(chromedp.CSS("main"))), "66%")
}

func (b *browser) losesServer(t *testing.T) {
	b.width(t, 360)
	b.open(t, "/")
	require.True(t, eval[bool](t, b, "document.getElementById('cut').hidden"))
	before := eval[string](t, b, places)
	b.server.endStreams()
	b.web.Close()
	b.waitFor(t, "document.getElementById('cut').hidden", false)
	require.Equal(t, before, eval[string](t, b, places), "the layout does not shift")
	require.Contains(t, eval[string](t, b, "document.getElementById('announcer').textContent"), "Connection to the server lost.")
	b.picture(t, "overview-cut")
}
