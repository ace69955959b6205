package statuspage

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"drydock.dev/drydock/internal/observe"
)

const (
	// batchDelay is how long a change waits for others before clients are updated.
	batchDelay = 200 * time.Millisecond
	// heartbeatInterval is the interval of keep-alive messages.
	heartbeatInterval = 15 * time.Second
)

// assets are the files of the page, by the paths under which they never change.
type assets struct {
	// Style, Script and Icon are those paths.
	Style, Script, Icon string
	contents            map[string][]byte
}

func readAssets() (*assets, error) {
	found := &assets{contents: map[string][]byte{}}
	for name, at := range map[string]*string{"style.css": &found.Style, "page.js": &found.Script, "icon.svg": &found.Icon} {
		content, err := fs.ReadFile(files, "assets/"+name)
		if err != nil {
			return nil, fmt.Errorf("asset of the status page: %w", err)
		}
		sum := sha256.Sum256(content)
		*at = "/assets/" + hex.EncodeToString(sum[:6]) + "/" + name
		found.contents[*at] = content
	}
	return found, nil
}

// handlePages serves the pages for people.
func (s *Server) handlePages(mux *http.ServeMux) {
	mux.HandleFunc("GET /{$}", s.servePage)
	mux.HandleFunc("GET /upgrades/{namespace}/{name}", s.servePage)
	mux.HandleFunc("GET /nodes/{cluster}/{node}", s.servePage)
	mux.HandleFunc("GET /assets/", s.serveAsset)
	mux.HandleFunc("GET /events", s.serveEvents)
	mux.HandleFunc("HEAD /events", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", http.MethodGet) // a stream never ends
		w.WriteHeader(http.StatusMethodNotAllowed)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, noPath) })
}

// contentTypes of assets. The machine's own table may differ, and a browser runs no script with a wrong type.
var contentTypes = map[string]string{".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}

func (s *Server) serveAsset(w http.ResponseWriter, r *http.Request) {
	content, known := s.assets.contents[r.URL.Path]
	if !known {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", contentTypes[path.Ext(r.URL.Path)])
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

func (s *Server) servePage(w http.ResponseWriter, r *http.Request) {
	s.serve(w, r, r.URL.EscapedPath())
}

// serve answers with the page of a path.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, path string) {
	view, _ := s.reader.View()
	made, err := s.pages.page(path, view)
	if err != nil {
		s.options.Log.Error("cannot render a page", "path", r.URL.Path, "error", err)
		http.Error(w, "cannot render the page", http.StatusInternalServerError)
		return
	}
	if made.Status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "5")
	}
	s.write(w, r, made)
}

// write writes a whole page.
func (s *Server) write(w http.ResponseWriter, r *http.Request, made page) {
	var html bytes.Buffer
	err := s.pages.templates.ExecuteTemplate(&html, "layout", struct {
		Page   page
		Path   string
		Assets *assets
	}{made, r.URL.EscapedPath(), s.assets})
	if err != nil {
		s.options.Log.Error("cannot render a page", "path", r.URL.Path, "error", err)
		http.Error(w, "cannot render the page", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(made.Status)
	_, _ = w.Write(html.Bytes()) // the client may have disconnected
}

// serveEvents keeps a page up to date: it sends the sections that differ from those of the page.
func (s *Server) serveEvents(w http.ResponseWriter, r *http.Request) {
	at, has := r.URL.Query().Get("page"), sectionsHad(r.URL.Query().Get("have"))
	opened, err := s.openStream(w, r)
	if err != nil {
		w.Header().Set("Retry-After", "10")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer opened.close()
	opened.read()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // a proxy must not buffer events
	events := eventWriter{w, opened}
	number, title := int64(0), ""
	for {
		view, ok := s.next(r.Context(), number, heartbeatInterval)
		if !ok {
			return
		}
		if view.Number == number {
			if events.send("beat", struct{}{}) != nil {
				return
			}
			continue
		}
		number = view.Number
		made, err := s.pages.page(at, view)
		if err != nil {
			s.options.Log.Error("cannot render a page", "path", at, "error", err)
			return
		}
		// The subject of the page has appeared or disappeared, or the server is new: the client must reload.
		if len(has) > 0 && !made.consistsOf(has) {
			_ = events.send("reload", struct{}{}) // the client may have disconnected
			return
		}
		if events.sendChanged(made, has, &title) != nil || observe.Pause(r.Context(), batchDelay) != nil {
			return
		}
	}
}

// sectionsHad parses the hashes of the sections that a client has: id:hash,id:hash.
func sectionsHad(list string) map[string]string {
	had := map[string]string{}
	for item := range strings.SplitSeq(list, ",") {
		if id, hash, ok := strings.Cut(item, ":"); ok {
			had[id] = hash
		}
	}
	return had
}

// eventWriter writes server-sent events.
type eventWriter struct {
	w      http.ResponseWriter
	stream stream
}

// sendChanged sends sections that a client does not have, and records them.
func (e eventWriter) sendChanged(made page, has map[string]string, title *string) error {
	if made.Title != *title {
		*title = made.Title
		if err := e.send("title", made.Title+" · "+made.Portal); err != nil {
			return err
		}
	}
	for _, section := range made.Sections {
		if has[section.ID] == section.Hash {
			continue
		}
		if err := e.send("section", section); err != nil {
			return err
		}
		has[section.ID] = section.Hash
	}
	return nil
}

func (e eventWriter) send(event string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	e.stream.extendWriteDeadline()
	if _, err := fmt.Fprintf(e.w, "event: %s\ndata: %s\n\n", event, text); err != nil {
		return err
	}
	return e.stream.controller.Flush()
}
