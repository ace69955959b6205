package statuspage

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// events reads server-sent events, each as "event data".
func events(t *testing.T, address string) (*http.Response, <-chan string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	require.NoError(t, err)
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	got := make(chan string, 100)
	go func() {
		defer close(got)
		event := ""
		lines := bufio.NewScanner(answer.Body)
		lines.Buffer(nil, 10<<20)
		for lines.Scan() {
			switch name, value, _ := strings.Cut(lines.Text(), ": "); name {
			case "event":
				event = value
			case "data":
				got <- event + " " + value
			}
		}
	}()
	return answer, got
}

// await returns the next event that contains a text.
func await(t *testing.T, got <-chan string, text string) string {
	t.Helper()
	for over := time.After(patience); ; {
		select {
		case event, more := <-got:
			require.True(t, more, "the stream ended before %q", text)
			if strings.Contains(event, text) {
				return event
			}
		case <-over:
			require.Fail(t, "no such event", text)
		}
	}
}

func TestAnOpenPageReceivesOnlyChanges(t *testing.T) {
	s, web := shown(t, fleet())
	_, got := events(t, web.URL+eventsOf(t, s, "/"))
	require.Equal(t, `title "Maintenance in progress · main"`, <-got)

	next := fleet()
	next.Upgrades[0].Status.Percentage = 50
	s.show(next)
	first := await(t, got, "section")
	require.Contains(t, first, `"id":"upgrades"`, "only this section has changed")
	require.Contains(t, first, `50%`)
}

// eventsOf returns the address of the event stream of an open page.
func eventsOf(t *testing.T, s *Server, path string) string {
	t.Helper()
	view, _ := s.reader.View()
	made, err := s.pages.page(path, view)
	require.NoError(t, err)
	var have []string
	for _, section := range made.Sections {
		have = append(have, section.ID+":"+section.Hash)
	}
	return "/events?page=" + path + "&have=" + strings.Join(have, ",")
}

func TestAPageReloadsWhenItsSubjectAppearsOrDisappears(t *testing.T) {
	without := func() View {
		view := fleet()
		view.Upgrades, view.Nodes = nil, nil
		return view
	}
	unread := func() View { return View{Trouble: &Trouble{Message: "Nothing has been read yet", Since: noon}} }
	tests := []struct {
		name       string
		from, to   func() View
		wasAnswers int
	}{
		{"it is removed", fleet, without, http.StatusOK},
		{"it is started", without, fleet, http.StatusNotFound},
		{"it is read", unread, fleet, http.StatusServiceUnavailable},
		{"the first read does not find it", unread, without, http.StatusServiceUnavailable},
	}
	for _, test := range tests {
		for _, path := range []string{"/upgrades/prod/november", "/nodes/spoke-2/worker-3"} {
			t.Run(test.name+" "+path, func(t *testing.T) {
				s, web := shown(t, test.from())
				status, _, _ := get(t, web.URL+path)
				require.Equal(t, test.wasAnswers, status)
				_, got := events(t, web.URL+eventsOf(t, s, path))
				s.show(test.to())
				await(t, got, "reload")
				_, more := <-got
				require.False(t, more, "the stream ends after the reload")
			})
		}
	}
}

// narrowConn counts the written bytes, and has the smallest possible send buffer.
type narrowConn struct {
	net.Conn
	written atomic.Int64
}

func (n *narrowConn) Write(p []byte) (int, error) {
	written, err := n.Conn.Write(p)
	n.written.Add(int64(written))
	return written, err
}

// narrowListener accepts narrow connections.
type narrowListener struct {
	net.Listener
	accepted chan *narrowConn
}

func (l narrowListener) Accept() (net.Conn, error) {
	connection, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	made := &narrowConn{Conn: connection}
	err = connection.(*net.TCPConn).SetWriteBuffer(1)
	l.accepted <- made
	return made, err
}

func TestASlowReaderDelaysNoOther(t *testing.T) {
	s, _ := shown(t, large(200))
	web := httptest.NewUnstartedServer(s.Handler())
	listener := narrowListener{web.Listener, make(chan *narrowConn, 2)}
	web.Listener = listener
	web.Start()
	t.Cleanup(web.Close)
	t.Cleanup(s.endStreams)

	host := listener.Addr().String()
	asleep, err := (&net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 1) })
	}}).DialContext(t.Context(), "tcp", host)
	require.NoError(t, err)
	defer asleep.Close()
	fmt.Fprintf(asleep, "GET /events?page=/ HTTP/1.1\r\nHost: %s\r\n\r\n", host)
	full := <-listener.accepted
	require.Eventually(t, func() bool { return full.written.Load() > 0 }, patience, tick, "the server writes to it")

	_, got := events(t, "http://"+host+"/events?page=/")
	first := await(t, got, `"id":"components"`)
	await(t, got, `"id":"asof"`)
	for i := range 20 {
		next := large(200)
		next.AsOf = noon.Add(time.Duration(i+1) * time.Hour)
		s.show(next)
		await(t, got, next.AsOf.Format("2 Jan 2006, 15:04"))
	}
	require.Less(t, full.written.Load(), int64(len(first)), "the client does not read the whole first message")
}

func TestTheNumberOfOpenStreamsIsLimited(t *testing.T) {
	s, web := shown(t, fleet())
	s.options.Streams = 1
	answer, got := events(t, web.URL+"/events?page=/")
	await(t, got, "section")
	status, header, body := get(t, web.URL+"/events?page=/")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.NotEmpty(t, header.Get("Retry-After"))
	require.Contains(t, body, "retry later")
	_ = answer.Body.Close()
	require.Eventually(t, func() bool { return s.streams.count() == 0 }, patience, tick, "a closed stream frees its slot")
}

// One client must not take the streams of all others. Behind a proxy on this machine are many.
func TestTheStreamsOfAnAddressAreLimited(t *testing.T) {
	s, _ := shown(t, fleet())
	s.options.Streams, s.options.StreamsPerAddress = 10, 2
	from := func(address string) (stream, error) {
		request := httptest.NewRequest(http.MethodGet, "/events?page=/", nil)
		request.RemoteAddr = address
		return s.openStream(httptest.NewRecorder(), request)
	}
	var first stream
	for range 2 {
		opened, err := from("10.0.0.1:4000")
		require.NoError(t, err)
		first = opened
	}
	for _, same := range []string{"10.0.0.1:4001", "[::ffff:10.0.0.1]:4002"} {
		_, err := from(same)
		require.ErrorIs(t, err, errFullForAddress)
	}
	for _, other := range []string{"10.0.0.2:4000", "127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"} {
		_, err := from(other)
		require.NoError(t, err)
	}
	first.close()
	for _, next := range []string{"10.0.0.1:4003", "[2001:db8::1]:1", "[2001:db8::2]:1"} {
		_, err := from(next)
		require.NoError(t, err)
	}
	_, err := from("[2001:db8::3]:1")
	require.ErrorIs(t, err, errFullForAddress, "a client has a whole network of IPv6")
	require.Equal(t, 8, s.streams.count())
}

func TestAServerThatStopsEndsItsStreams(t *testing.T) {
	s, _ := shown(t, fleet())
	ctx, stop := context.WithCancel(t.Context())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	s.reader = NewReader(unreachable(t), "main", false, s.options.Log)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, listener) }()
	_, got := events(t, "http://"+listener.Addr().String()+"/events?page=/")
	await(t, got, "Nothing has been read yet")
	stop()
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(patience):
		require.Fail(t, "the server does not end")
	}
	for range got { // the stream ends too
	}
}

func TestTheHeadOfAStreamIsRefused(t *testing.T) {
	_, web := shown(t, fleet())
	answer, err := http.Head(web.URL + "/events?page=/")
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusMethodNotAllowed, answer.StatusCode)
}

// count is the number of open streams.
func (o *openStreams) count() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}

func TestAClientIsItsAddressOrItsIPv6Network(t *testing.T) {
	for address, client := range map[string]string{
		"192.0.2.7": "192.0.2.7", "::ffff:192.0.2.7": "192.0.2.7", "::1": "::1",
		"2001:db8:1:2:3::4": "2001:db8:1:2::", "2001:db8:1:2:9::9": "2001:db8:1:2::", "2001:db8:1:3::4": "2001:db8:1:3::", "fe80::7%eth0": "fe80::",
	} {
		require.Equal(t, client, clientAddress(netip.MustParseAddr(address)).String(), address)
	}
}
