package statuspage

import (
	"context"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/devstack/devstacktest"
)

// browser is Debian's chromium with a page of a server.
type browser struct {
	ctx    context.Context
	server *Server
	web    *httptest.Server

	mu sync.Mutex
	// problems are errors of scripts, and violations of the content security policy.
	problems []string
}

func newBrowser(t *testing.T) *browser {
	devstacktest.NeedServers(t) // and a browser
	chromium, err := exec.LookPath("chromium")
	require.NoError(t, err, "tests of the status page need Debian's chromium: apt-get install chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WSURLReadTimeout(2*time.Minute),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true),
	)
	allocator, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, leave := chromedp.NewContext(allocator)
	t.Cleanup(leave)
	b := &browser{ctx: ctx}
	b.server, b.web = shown(t, fleet())
	// The browser lives as long as the context of its first action, so that has no deadline.
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(1200, 800)))
	console := chromedp.Console(ctx)
	go func() {
		for message, err := range console {
			if err != nil {
				return
			}
			b.mu.Lock()
			b.problems = append(b.problems, string(message.Type)+": "+message.Text)
			b.mu.Unlock()
		}
	}()
	return b
}

// do runs actions in the browser, one after the other.
func (b *browser) do(t *testing.T, actions ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 2*patience)
	defer cancel()
	require.NoError(t, chromedp.Do(ctx, actions...))
}

// answer runs one action in the browser and returns its result.
func answer[T any](t *testing.T, b *browser, action chromedp.Action[T]) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 2*patience)
	defer cancel()
	value, err := chromedp.Run(ctx, action)
	require.NoError(t, err)
	return value
}

// send sends the browser a command of its protocol.
func send[P, R any](t *testing.T, b *browser, command cdp.Command[P, R], parameters P) {
	t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, 2*patience)
	defer cancel()
	_, err := chromedp.Call(ctx, command, parameters)
	require.NoError(t, err)
}

// open loads a page and waits until its script runs.
func (b *browser) open(t *testing.T, path string) {
	t.Helper()
	b.do(t, chromedp.Navigate(b.web.URL+path), chromedp.WaitVisible(chromedp.CSS("h1")))
	b.waitFor(t, `/^\d/.test(document.querySelector(".section time[data-as=moment]").textContent)`, false) // the script writes the month first
}

// eval evaluates an expression in the page.
func eval[T any](t *testing.T, b *browser, expression string) T {
	t.Helper()
	return answer(t, b, chromedp.Evaluate[T](expression))
}

// waitFor waits until an expression has a value.
func (b *browser) waitFor(t *testing.T, expression string, value any) {
	t.Helper()
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		defer cancel()
		is, err := chromedp.Run(ctx, chromedp.Evaluate[any](expression))
		return err == nil && is == value
	}, 2*patience, 5*tick, "%s is not %v", expression, value)
}

// picture saves a screenshot in the directory STATUSPAGE_PICTURES, if that is set.
func (b *browser) picture(t *testing.T, name string) {
	t.Helper()
	directory := os.Getenv("STATUSPAGE_PICTURES")
	if directory == "" {
		return
	}
	png := answer(t, b, chromedp.FullScreenshot(100))
	require.NoError(t, os.WriteFile(filepath.Join(directory, name+".png"), png, 0o600))
}

func (b *browser) width(t *testing.T, pixels int64) {
	t.Helper()
	b.do(t, chromedp.EmulateViewport(pixels, 800))
}

func (b *browser) scheme(t *testing.T, scheme string) {
	t.Helper()
	send(t, b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
}

// tab opens another tab of the browser.
func (b *browser) tab(t *testing.T) *browser {
	t.Helper()
	ctx, leave := chromedp.NewContext(b.ctx)
	t.Cleanup(leave)
	require.NoError(t, chromedp.Do(ctx, chromedp.EmulateViewport(1200, 800)))
	return &browser{ctx: ctx, server: b.server, web: b.web}
}
