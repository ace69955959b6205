package statuspage

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// forOwnNames answers only requests that name a host of this server. A page of another site may resolve its own name to a loopback address (DNS
// rebinding). Its browser then treats both as one site, and would let it read data that only this machine may read.
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
