package statuspage

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"sync"
	"time"
)

// stream is a client with live updates.
type stream struct {
	server     *Server
	controller *http.ResponseController
	address    netip.Addr
}

// errFull: the maximum number of streams is open.
var errFull = errors.New("too many open streams: retry later")

// errFullForAddress: the client's address has the maximum number of streams open.
var errFullForAddress = errors.New("too many open streams from this address: close some, or retry later")

// openStreams counts the open streams, in all and by the address of the client.
type openStreams struct {
	mu        sync.Mutex
	total     int
	byAddress map[netip.Addr]int
}

// open counts one more stream of an address, unless there are too many. A loopback address may be a proxy, behind which are many clients.
func (o *openStreams) open(address netip.Addr, most, mostOfAddress int) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.total >= most:
		return errFull
	case !address.IsLoopback() && o.byAddress[address] >= mostOfAddress:
		return errFullForAddress
	}
	o.total++
	o.byAddress[address]++
	return nil
}

func (o *openStreams) close(address netip.Addr) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.total--
	if o.byAddress[address]--; o.byAddress[address] == 0 {
		delete(o.byAddress, address)
	}
}

// openStream opens a stream. It has no time limit, but each write and the reading of the request have one: see read.
func (s *Server) openStream(w http.ResponseWriter, r *http.Request) (stream, error) {
	at, _ := netip.ParseAddrPort(r.RemoteAddr)
	address := clientAddress(at.Addr())
	if err := s.streams.open(address, s.options.Streams, s.options.StreamsPerAddress); err != nil {
		return stream{}, err
	}
	opened := stream{s, http.NewResponseController(w), address}
	opened.extendWriteDeadline()
	return opened, nil
}

// clientAddress is the address that counts for a client. In IPv6 a client has a whole network of 64 bits.
func clientAddress(of netip.Addr) netip.Addr {
	of = of.Unmap()
	if of.Is6() && !of.IsLoopback() {
		network, _ := of.Prefix(64) // the only error is of a longer prefix
		return network.Addr()
	}
	return of
}

func (s stream) close() { s.server.streams.close(s.address) }

// read removes the read deadline after the whole request has been read.
func (s stream) read() {
	// Connections without deadlines need nothing.
	_ = s.controller.SetReadDeadline(time.Time{})
}

// extendWriteDeadline sets the deadline of the next write, so that a client that does not read loses its stream. It is renewed before each write,
// because HTTP/2 ends a stream at the deadline even if nothing is written.
func (s stream) extendWriteDeadline() {
	_ = s.controller.SetWriteDeadline(time.Now().Add(2*heartbeatInterval + requestTimeout))
}

// next waits for a newer view, for atMost, and collects several changes. It returns false if the stream has ended.
func (s *Server) next(ctx context.Context, after int64, atMost time.Duration) (*View, bool) {
	over := time.NewTimer(atMost)
	defer over.Stop()
	for {
		view, changed := s.reader.View()
		if view.Number > after {
			return view, true
		}
		select {
		case <-ctx.Done():
			return nil, false
		case <-s.closing:
			return nil, false
		case <-over.C:
			return view, true
		case <-changed:
		}
	}
}
