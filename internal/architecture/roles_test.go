package architecture

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/deploy/rbac"
)

// TestTheReferenceListsTheRoles compares the table of roles with the manifests; -update writes it.
func TestTheReferenceListsTheRoles(t *testing.T) {
	const head = "| role | file | lets the worker | bound for | rights |\n|---|---|---|---|---|\n"
	path := filepath.Join(root, "docs/reference/roles.md")
	page, err := os.ReadFile(path)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(page), head)
	require.True(t, found)
	table, after, _ := strings.Cut(rest, "\n\n")
	shipped := rolesTable(t)
	if *updateTour {
		require.NoError(t, os.WriteFile(path, []byte(before+head+shipped+"\n\n"+after), 0o644))
		return
	}
	require.Equal(t, shipped, table, "go test ./internal/architecture -run Roles -update writes the table")
}

func rolesTable(t *testing.T) string {
	t.Helper()
	roles, err := rbac.Roles()
	require.NoError(t, err)
	require.NotEmpty(t, roles)
	var rows []string
	for _, role := range roles {
		require.NotEmpty(t, role.Description, "%s: say in the annotation kubernetes.io/description of %s what it is for", role.File, role.Name)
		rows = append(rows, fmt.Sprintf("| `%s` | `%s` | %s | %s | %s |", role.Name, role.File, role.Description, boundFor(role), rightsOf(role)))
	}
	return strings.Join(rows, "\n")
}

func boundFor(role rbac.Role) string {
	var bound []string
	for _, account := range role.Cluster {
		bound = append(bound, "`"+account+"`")
	}
	for _, namespace := range slices.Sorted(maps.Keys(role.Namespaced)) {
		for _, account := range role.Namespaced[namespace] {
			bound = append(bound, fmt.Sprintf("`%s` in `%s`", account, namespace))
		}
	}
	if len(bound) == 0 {
		return "no account"
	}
	return strings.Join(bound, ", ")
}

func rightsOf(role rbac.Role) string {
	var rights []string
	for _, rule := range role.Rules {
		of := strings.Join(rbac.Resources(rule), "`, `")
		if len(rule.ResourceNames) > 0 {
			of += "` named `" + strings.Join(rule.ResourceNames, "`, `")
		}
		rights = append(rights, fmt.Sprintf("%s `%s`", strings.Join(rule.Verbs, ", "), of))
	}
	if len(rights) == 0 {
		return "those of labelled roles"
	}
	return strings.Join(rights, "; ")
}
