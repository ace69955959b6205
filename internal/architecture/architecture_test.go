// Package architecture tests the layout of the tree: the top level, the imports between packages, and the purity of packages.
package architecture

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	module = "drydock.dev/drydock"
	root   = "../.."
)

// goPackage is a package in `go list -json`. Deps are its direct and indirect dependencies, without those of tests.
type goPackage struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
	Deps       []string
}

// name is the package's path within the module; empty for one of another module.
func name(importPath string) string {
	within, ours := strings.CutPrefix(importPath, module+"/")
	if !ours {
		return ""
	}
	return within
}

// within reports whether a package is one of these trees, or below one of them.
func within(name string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return name == tree || strings.HasPrefix(name, tree+"/") })
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Dir,GoFiles,Imports,Deps", "./...")
	list.Dir = root
	var errors bytes.Buffer
	list.Stderr = &errors
	output, err := list.Output()
	require.NoError(t, err, errors.String())
	var found []goPackage
	for decoder := json.NewDecoder(bytes.NewReader(output)); decoder.More(); {
		var p goPackage
		require.NoError(t, decoder.Decode(&p))
		found = append(found, p)
	}
	require.NotEmpty(t, found)
	return found
}

func TestTheTopLevelMatchesTheLayout(t *testing.T) {
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	var found []string
	for _, entry := range entries {
		// bin is the output of make, and not under version control.
		if !strings.HasPrefix(entry.Name(), ".") && entry.Name() != "bin" {
			found = append(found, entry.Name())
		}
	}
	require.ElementsMatch(t, []string{
		"workflows", "activities", "worker", "starter", "internal", "deploy", "docs", "go.mod", "go.sum", "Makefile", "README.md", "SECURITY.md", "LICENSE",
	}, found)
}

var purePackages = []string{"internal/rollout", "internal/scheduling", "internal/windows", "internal/portal", "internal/locks", "internal/health", "internal/harbor", "internal/emergency", "internal/precache", "internal/policies", "internal/installplans", "internal/views", "internal/manifestworks", "internal/conditions", "internal/allow", "internal/edits", "internal/notify"}

func TestImports(t *testing.T) {
	all := packages(t)
	t.Run("run one way", func(t *testing.T) { importsRunOneWay(t, all) })
	t.Run("of the programs do not reach the local stack", func(t *testing.T) { programsDoNotReachTheLocalStack(t, all) })
	t.Run("of the program in Jobs are few", func(t *testing.T) { jobsProgramImportsNoClients(t, all) })
	t.Run("of the programs embed the time zones", func(t *testing.T) { programsEmbedTimeZones(t, all) })
	t.Run("between workflows are those of their parents", func(t *testing.T) { workflowsImportTheirChildren(t, all) })
	t.Run("of activities stay in their family", func(t *testing.T) { activitiesImportFewFamilies(t, all) })
	t.Run("of workflows are no Kubernetes clients", func(t *testing.T) { workflowsImportNoClients(t, all) })
	t.Run("of pure packages are types and small pure libraries", func(t *testing.T) { purePackagesImportOnlyPurePackages(t, all) })
	t.Run("pure packages read no clock and start nothing", func(t *testing.T) { purePackagesReadNoClock(t, all) })
}

// importsRunOneWay: starter, worker -> controllers -> workflows -> activities -> drain, kube -> pure decisions -> API types. Packages in no layer are
// shared, and may not depend on the first four.
func importsRunOneWay(t *testing.T, all []goPackage) {
	layers := [][]string{
		{"starter", "worker"},
		{"internal/controller"},
		{"workflows"},
		{"activities"},
		{"internal/drain", "internal/kube"},
		purePackages,
		{"internal/apis"},
	}
	for _, p := range all {
		above := slices.IndexFunc(layers, func(trees []string) bool { return within(name(p.ImportPath), trees...) })
		if above < 0 {
			above = 4
		}
		requireNoDependency(t, p, slices.Concat(layers[:above]...))
		others := slices.DeleteFunc(slices.Clone(layers[0]), func(program string) bool { return within(name(p.ImportPath), program) })
		requireNoDependency(t, p, others)
	}
}

func requireNoDependency(t *testing.T, p goPackage, forbidden []string) {
	t.Helper()
	for _, dependency := range p.Deps {
		if within(name(dependency), forbidden...) {
			t.Errorf("%s depends on %s", name(p.ImportPath), name(dependency))
		}
	}
}

// programsDoNotReachTheLocalStack: the local stack is for tests and trials only.
func programsDoNotReachTheLocalStack(t *testing.T, all []goPackage) {
	for _, p := range all {
		if within(name(p.ImportPath), "starter", "worker", "deploy/prepare") {
			requireNoDependency(t, p, []string{"internal/devstack", "deploy/dev"})
		}
	}
}

// jobsProgramImportsNoClients: every node pulls the image of these Jobs, so it is small.
func jobsProgramImportsNoClients(t *testing.T, all []goPackage) {
	for _, p := range all {
		if !within(name(p.ImportPath), "deploy/prepare") {
			continue
		}
		for _, dependency := range p.Deps {
			if within(dependency, "k8s.io/client-go", "k8s.io/api", "sigs.k8s.io/controller-runtime", "go.temporal.io") || within(name(dependency), "internal/apis") {
				t.Errorf("%s depends on %s", name(p.ImportPath), dependency)
			}
		}
	}
}

// programsEmbedTimeZones: an image may have no time zones, and windows must open there too.
func programsEmbedTimeZones(t *testing.T, all []goPackage) {
	for _, p := range all {
		if slices.Contains([]string{"starter", "worker"}, name(p.ImportPath)) && !slices.Contains(p.Imports, "time/tzdata") {
			t.Errorf("%s does not import time/tzdata", name(p.ImportPath))
		}
	}
}

// workflowImports lists, for each package of a workflow, the packages of other workflows that it may import: those of its children, and shared ones.
// All may import workflows/kit, which imports none of them.
var workflowImports = map[string][]string{
	"kit":             {},
	"kit/kittest":     {},
	"sweeper":         {},
	"gates":           {},
	"emergencystop":   {},
	"window":          {},
	"portal":          {},
	"notification":    {},
	"locks":           {},
	"preflight":       {"gates"},
	"harbor":          {"gates"},
	"slots":           {"gates", "sweeper"},
	"nodemaintenance": {"gates", "slots", "sweeper"},
	"clusterupgrade":  {"gates", "slots", "sweeper", "nodemaintenance"},
	"rollout/policy":  {"sweeper"},
	"rollout":         {"gates", "sweeper", "clusterupgrade", "rollout/policy"},
	"onboarding":      {"rollout"},
}

func workflowsImportTheirChildren(t *testing.T, all []goPackage) {
	for _, p := range all {
		importer, ok := strings.CutPrefix(name(p.ImportPath), "workflows/")
		if !ok || importer == "workflowtest" {
			continue
		}
		allowed, listed := workflowImports[importer]
		if !listed {
			t.Errorf("workflows/%s is not listed in workflowImports", importer)
		}
		for _, imported := range p.Imports {
			if other, ok := strings.CutPrefix(name(imported), "workflows/"); ok && other != "kit" && !slices.Contains(allowed, other) {
				t.Errorf("workflows/%s imports workflows/%s", importer, other)
			}
		}
	}
}

// familyImports are the families of activities that others build on. All may import activitykit.
var familyImports = map[string][]string{
	"drain":          {"events"},
	"harbor":         {"events", "health"},
	"health":         {"events", "node"},
	"installplans":   {"views"},
	"jobs":           {"events", "marks", "views"},
	"lockcontroller": {"health"},
	"manifestworks":  {"remediation"},
	"node":           {"drain", "events", "jobs", "locks", "marks", "objects"},
	"objects":        {"events"},
	"policies":       {"remediation"},
	"requests":       {"holds", "node", "objects", "rollouts", "scheduler", "sweeper"},
	"rollouts":       {"views"},
	"sweeper":        {"jobs", "scheduler"},
	"views":          {"remediation"},
	"windows":        {"notifications"},
}

// activitiesImportFewFamilies: a family of activities imports only those families that are listed for it. Package activitytest is for tests.
func activitiesImportFewFamilies(t *testing.T, all []goPackage) {
	for _, p := range all {
		family, ok := strings.CutPrefix(name(p.ImportPath), "activities/")
		if !ok || family == "activitytest" {
			continue
		}
		for _, imported := range p.Imports {
			if other, ok := strings.CutPrefix(name(imported), "activities/"); ok && other != "activitykit" && !slices.Contains(familyImports[family], other) {
				t.Errorf("activities/%s imports activities/%s", family, other)
			}
		}
	}
}

// workflowsImportNoClients: they use Kubernetes' types only.
func workflowsImportNoClients(t *testing.T, all []goPackage) {
	for _, p := range all {
		if !within(name(p.ImportPath), "workflows") || within(name(p.ImportPath), "workflows/workflowtest") {
			continue
		}
		for _, imported := range p.Imports {
			if within(imported, "k8s.io/client-go", "sigs.k8s.io/controller-runtime") || within(name(imported), "internal/kube", "internal/drain") {
				t.Errorf("%s imports %s", name(p.ImportPath), imported)
			}
		}
	}
}

func purePackagesImportOnlyPurePackages(t *testing.T, all []goPackage) {
	ours := append([]string{"internal/apis", "internal/safename"}, purePackages...)
	libraries := []string{
		"k8s.io/api", "k8s.io/apimachinery",
		"k8s.io/component-helpers/scheduling", "github.com/go-logr/logr", // where DaemonSet pods belong
		"github.com/teambition/rrule-go", // recurrence rules
		"github.com/google/cel-go",       // expressions of health checks
		"k8s.io/utils/lru",               // compiled expressions
	}
	impure := []string{"os", "io", "net", "bufio", "sync", "log", "syscall", "math/rand", "crypto/rand"}
	for _, p := range pure(t, all) {
		for _, imported := range p.Imports {
			domain, _, _ := strings.Cut(imported, "/")
			standard := !strings.Contains(domain, ".")
			parses := imported == "net/url" || imported == "net/mail"
			if within(imported, impure...) && !parses || !standard && !within(name(imported), ours...) && !within(imported, libraries...) {
				t.Errorf("%s imports %s", name(p.ImportPath), imported)
			}
		}
	}
}

func purePackagesReadNoClock(t *testing.T, all []goPackage) {
	clock := []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	for _, p := range pure(t, all) {
		for _, file := range p.GoFiles {
			files := token.NewFileSet()
			parsed, err := parser.ParseFile(files, filepath.Join(p.Dir, file), nil, 0)
			require.NoError(t, err)
			ast.Inspect(parsed, func(node ast.Node) bool {
				switch node := node.(type) {
				case *ast.GoStmt:
					t.Errorf("%s: starts a goroutine", files.Position(node.Pos()))
				case *ast.SelectorExpr:
					if from, ok := node.X.(*ast.Ident); ok && from.Name == "time" && slices.Contains(clock, node.Sel.Name) {
						t.Errorf("%s: calls time.%s", files.Position(node.Pos()), node.Sel.Name)
					}
				}
				return true
			})
		}
	}
}

// pure returns the pure packages.
func pure(t *testing.T, all []goPackage) []goPackage {
	t.Helper()
	var found []goPackage
	for _, p := range all {
		if within(name(p.ImportPath), purePackages...) {
			found = append(found, p)
		}
	}
	require.NotEmpty(t, found)
	return found
}
