package statuspage

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// forOwnNames answers only requests whose host is an IP address, localhost, or one of hosts. A page of another site may resolve its own name to the
// address of this server (DNS rebinding). Its browser then treats both as one site, and would let the page read what only the person at the browser
// may read.
func forOwnNames(hosts []string, next http.Handler) http.Handler {
	names := append([]string{"localhost"}, hosts...)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := hostName(r.Host)
		_, notAnAddress := netip.ParseAddr(name)
		if notAnAddress != nil && !slices.ContainsFunc(names, func(own string) bool { return strings.EqualFold(own, name) }) {
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
