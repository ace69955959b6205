// Package webaccess decides who may use Drydock's HTTP servers.
package webaccess

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// OwnNames answers only requests whose host is an IP address, localhost, or one of hosts. A page of another site may resolve its own name to the
// address of this server (DNS rebinding). Its browser then treats both as one site, and would let the page read what only the person at the browser
// may read.
func OwnNames(hosts []string, next http.Handler) http.Handler {
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

// IsLoopback reports whether only this machine reaches that host.
func IsLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}

// HasToken reports whether a request has the token as Authorization: Bearer TOKEN. No request has an empty token.
func HasToken(header http.Header, token string) bool {
	scheme, sent, _ := strings.Cut(header.Get("Authorization"), " ")
	got, wanted := sha256.Sum256([]byte(sent)), sha256.Sum256([]byte(token))
	return token != "" && strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], wanted[:]) == 1
}
