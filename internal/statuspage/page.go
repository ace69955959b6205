package statuspage

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

//go:embed templates assets
var files embed.FS

var (
	// errNoPage: the path has no page.
	errNoPage = errors.New("no such page")
	// errUnread: the view has not been read yet, so the page is unknown.
	errUnread = errors.New("nothing has been read yet")
)

// noPath is a path without a page.
const noPath = ""

// section is a part of a page that is updated separately.
type section struct {
	ID   string        `json:"id"`
	HTML template.HTML `json:"html"`
	// Hash identifies the content, to skip sections that a client already has.
	Hash string `json:"hash"`
}

// page is the content of a path.
type page struct {
	// Status is that of HTTP.
	Status int
	Title  string
	// Portal is the title of the portal.
	Portal   string
	Home     bool
	Sections []section
}

// consistsOf reports whether a page has the same sections as a client, changed or not.
func (p page) consistsOf(had map[string]string) bool {
	for _, section := range p.Sections {
		if _, has := had[section.ID]; !has {
			return false
		}
	}
	return len(had) == len(p.Sections)
}

// pages renders each page once for each view, for all clients.
type pages struct {
	templates *template.Template
	portal    string
	// title is shown instead of the name of the portal.
	title string
	ui    webUI
	// newest returns the newest view.
	newest func() *View

	mu       sync.Mutex
	of       *View
	rendered map[string]page
}

func newPages(portal, title string, ui webUI) (*pages, error) {
	templates, err := template.New("").Funcs(template.FuncMap{
		"machine": func(at time.Time) string { return at.UTC().Format(time.RFC3339) },
		"people":  func(at time.Time) string { return at.UTC().Format("2 Jan 2006, 15:04 UTC") },
		"words":   rollout.Words,
		"code":    codeIn,
		"list":    func(items []string) string { return strings.Join(items, ", ") },
		"external": func(link string) bool {
			return strings.HasPrefix(link, "https://") || strings.HasPrefix(link, "http://")
		},
	}).ParseFS(files, "templates/*.html")
	if err != nil {
		return nil, fmt.Errorf("templates of the status page: %w", err)
	}
	return &pages{templates: templates, portal: portal, title: cmp.Or(title, portal), ui: ui, rendered: map[string]page{}}, nil
}

// page returns the page of a path in a view, or a page for a missing path.
func (p *pages) page(path string, v *View) (page, error) {
	key := canonical(path)
	p.mu.Lock()
	defer p.mu.Unlock()
	// Another request may have rendered a newer view meanwhile.
	if newest := p.newest(); newest.Number > v.Number {
		v = newest
	}
	if p.of == nil || v.Number > p.of.Number {
		p.of, p.rendered = v, map[string]page{}
	}
	if v.Number < p.of.Number {
		v = p.of
	}
	if done, ok := p.rendered[key]; ok {
		return done, nil
	}
	made, err := p.render(path, v)
	if err == nil && made.Status == http.StatusOK { // the number of other paths is unlimited
		p.rendered[key] = made
	}
	return made, err
}

// part is a section before it is rendered: its template and model.
type part struct {
	id, template string
	model        any
}

func (p *pages) render(path string, v *View) (page, error) {
	status := http.StatusOK
	title, parts, err := p.parts(path, v)
	switch {
	case errors.Is(err, errUnread):
		status, title, parts = http.StatusServiceUnavailable, "Not read yet", []part{{"notice", "notice", v}, {"unread", "unread", nil}}
	case errors.Is(err, errNoPage):
		status, title, parts = http.StatusNotFound, "No such page", []part{{"missing", "missing", nil}}
	case err != nil:
		return page{}, err
	}
	made := page{Status: status, Title: title, Portal: p.title, Home: path == "/"}
	for _, part := range parts {
		var html bytes.Buffer
		if err := p.templates.ExecuteTemplate(&html, part.template, part.model); err != nil {
			return page{}, err
		}
		sum := sha256.Sum256(html.Bytes())
		made.Sections = append(made.Sections, section{
			ID: part.id, Hash: hex.EncodeToString(sum[:6]),
			HTML: template.HTML(html.String()), //nolint:gosec // it was escaped by the template that made it
		})
	}
	return made, nil
}

// parts returns the title and the sections of the page of a path.
func (p *pages) parts(path string, v *View) (title string, parts []part, err error) {
	segments, err := segmentsOf(path)
	if err != nil {
		return "", nil, err
	}
	frame := func(title string, body ...part) (string, []part, error) {
		parts := append([]part{{"notice", "notice", v}}, body...)
		return title, append(parts, part{"asof", "asof", v}), nil
	}
	switch {
	case len(segments) == 0:
		return frame(headline(v), p.overview(v)...)
	case len(segments) == 3 && segments[0] == "upgrades":
		u, known := v.upgrade(segments[1], segments[2])
		if !known {
			return "", nil, notKnown(v)
		}
		model := newUpgrade(u, p.ui, v.AsOf)
		return frame("Rollout "+u.Namespace+"/"+u.Name, part{"upgrade", "upgrade", model}, part{"batches", "batches", batchesModel{batchesOf(u, v), restOf(u)}})
	case len(segments) == 3 && segments[0] == "nodes":
		var models []nodeModel
		for _, n := range v.nodesOf(segments[1], segments[2]) {
			models = append(models, newNode(n, p.ui, v.AsOf))
		}
		if len(models) == 0 {
			return "", nil, notKnown(v)
		}
		return frame("Node "+segments[2], part{"node", "node", nodePageModel{segments[1], segments[2], models}})
	}
	return "", nil, errNoPage
}

// notKnown is the error for a subject that is not in a view.
func notKnown(v *View) error {
	if v.AsOf.IsZero() && !v.PortalOnly {
		return errUnread
	}
	return errNoPage
}

func (p *pages) overview(v *View) []part {
	var upgrades, over []upgradeModel
	for _, u := range v.Upgrades {
		if model := newUpgrade(u, p.ui, v.AsOf); u.Running() {
			upgrades = append(upgrades, model)
		} else if len(over) < shownCompleted {
			over = append(over, model)
		}
	}
	var nodes []nodeModel
	for _, n := range v.Nodes {
		if n.Running() {
			nodes = append(nodes, newNode(n, p.ui, v.AsOf))
		}
	}
	return []part{
		{"summary", "summary", newSummary(v)},
		{"holds", "holds", v.Holds},
		{"incidents", "incidents", incidentsOf(v, false)},
		{"current", "current", maintenancesOf(v, sreportalv1.PhaseInProgress)},
		{"components", "components", componentsModel{p.portal, groupsOf(v), v.unread(), legend()}},
		{"upcoming", "upcoming", maintenancesOf(v, sreportalv1.PhaseUpcoming)},
		{"problems", "problems", v.problems()},
		{"upgrades", "upgrades", upgradesModel{upgrades, over, v.MoreUpgrades}},
		{"nodes", "nodes", nodesModel{nodes, v.MoreNodes}},
		{"completed", "completed", maintenancesOf(v, sreportalv1.PhaseCompleted)},
		{"resolved", "resolved", incidentsOf(v, true)},
	}
}

type componentsModel struct {
	Portal string
	Groups []groupModel
	Unread bool
	Legend []pill
}

// upgradesModel lists rollouts; More counts running ones left out.
type upgradesModel struct {
	Running, Over []upgradeModel
	More          int
}

// nodesModel lists nodes under maintenance; More counts those left out.
type nodesModel struct {
	Nodes []nodeModel
	More  int
}

type batchesModel struct {
	Batches []batchModel
	// Rest is the number of clusters left out.
	Rest int
}

func restOf(u Upgrade) int { return max(0, int(u.Status.Counts.Total)-len(u.Status.Clusters)) }

type nodePageModel struct {
	Cluster, Node string
	Maintenances  []nodeModel
}

// canonical escapes a path in one fixed way.
func canonical(path string) string {
	segments, err := segmentsOf(path)
	if err != nil {
		return path
	}
	for i, segment := range segments {
		segments[i] = url.PathEscape(segment)
	}
	return "/" + strings.Join(segments, "/")
}

// segmentsOf splits a path and unescapes its names.
func segmentsOf(path string) ([]string, error) {
	if path == "/" {
		return nil, nil
	}
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, segment := range segments {
		plain, err := url.PathUnescape(segment)
		if err != nil || plain == "" {
			return nil, errNoPage
		}
		segments[i] = plain
	}
	return segments, nil
}

// webUI makes links to workflows in Temporal's Web UI; without an address there are none.
type webUI struct{ address, namespace string }

// link leads to a run of a workflow, in the view that the Web UI shows first: the names of views differ between versions.
func (ui webUI) link(workflowID, runID string) string {
	if ui.address == "" || workflowID == "" {
		return ""
	}
	return strings.TrimSuffix(ui.address, "/") + "/namespaces/" + url.PathEscape(ui.namespace) + "/workflows/" + url.PathEscape(workflowID) + "/" + url.PathEscape(runID)
}
