package statuspage

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// forOwnNames answers only requests that name a host of this server. A page of another site may have let its own name lead to a loopback address
// (DNS rebinding): its browser takes the two for one site then, and would let it read what only this machine can.
func forOwnNames(hosts []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		name := hostName(r.Host)
		isOwn := slices.ContainsFunc(hosts, func(own string) bool { return strings.EqualFold(own, name) })
		if at != nil && isLoopback(hostName(at.String())) && !isLoopback(name) && !isOwn {
			http.Error(w, "unknown host name: add it with --host", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// hostName is the host of an address, without its port.
func hostName(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.Trim(address, "[]")
}

func isLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
