// Package codecserver decrypts and encrypts payloads for programs that have no keys: Temporal's Web UI and the temporal CLI.
package codecserver

import (
	"net/http"
	"slices"

	"go.temporal.io/sdk/converter"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/webaccess"
)

// bodyBytes limits the payloads in a request. A page of a history has at most 4 MiB, which Base64 makes longer.
const bodyBytes = 16 << 20

// Options configure a codec server.
type Options struct {
	Keys temporal.Keys
	// Token must be sent by every client; empty: everyone who reaches the server may decrypt.
	Token string
	// Origins are those of the web pages that may use the server, such as http://localhost:8233. Requests from other pages are refused.
	Origins []string
	// Hosts are the names of this server in requests, beside localhost and IP addresses.
	Hosts []string
}

// Handler answers POST requests to /encode and /decode, below any path, as the remote codec of Temporal. What it answers is never cached.
func Handler(options Options) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	codec := http.MaxBytesHandler(converter.NewPayloadCodecHTTPHandler(temporal.Codecs(options.Keys)...), bodyBytes)
	mux.Handle("/", forOrigins(options.Origins, forToken(options.Token, codec)))
	return webaccess.OwnNames(options.Hosts, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		mux.ServeHTTP(w, r)
	}))
}

// forOrigins answers web pages of the origins, and programs, which send none. It tells browsers what those pages may do
// (https://developer.mozilla.org/docs/Web/HTTP/Guides/CORS).
func forOrigins(origins []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Origin")
		origin := r.Header.Get("Origin")
		if origin != "" && !slices.Contains(origins, origin) {
			http.Error(w, "unknown origin: add it with --origin", http.StatusForbidden)
			return
		}
		if origin != "" {
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Set("Access-Control-Allow-Methods", "POST")
			w.Header().Set("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Namespace")
		}
		if r.Method == http.MethodOptions { // a browser asks before it sends the request, without the token
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func forToken(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && !webaccess.HasToken(r.Header, token) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, "the token is missing or wrong: send it as Authorization: Bearer TOKEN", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}
