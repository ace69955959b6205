package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"text/template"
)

// The manifests with which krew and Homebrew install the CLI.
var (
	//go:embed krew.yaml
	krewManifest string
	//go:embed homebrew.rb
	homebrewFormula string
)

// packages is what the templates need.
type packages struct {
	Version, Number string
	Archives        []archive
}

// archive has the CLI for one platform.
type archive struct {
	OS, Arch    string
	URL, SHA256 string
}

// Of returns the archive for a platform; nil if there is none.
func (p packages) Of(system, architecture string) *archive {
	i := slices.IndexFunc(p.Archives, func(a archive) bool { return a.OS == system && a.Arch == architecture })
	if i < 0 {
		return nil
	}
	return &p.Archives[i]
}

// archiveName matches the archives of the CLI. The programs of other archives are no plugins.
var archiveName = regexp.MustCompile(`^drydock_[^_]+_(linux|darwin)_(amd64|arm64)\.tar\.gz$`)

// manifests writes the manifests of a release with these checksums.
func (r release) manifests(sums map[string]string) error {
	of := packages{Version: r.Version, Number: r.number}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		if parts := archiveName.FindStringSubmatch(name); parts != nil {
			of.Archives = append(of.Archives, archive{OS: parts[1], Arch: parts[2], URL: r.url + "/" + name, SHA256: sums[name]})
		}
	}
	for name, text := range map[string]string{"krew.yaml": krewManifest, "homebrew.rb": homebrewFormula} {
		filled, err := template.New(name).Parse(text)
		if err != nil {
			return err
		}
		var written bytes.Buffer
		if err := filled.Execute(&written, of); err != nil {
			return fmt.Errorf("fill in %s: %w", name, err)
		}
		_, manifest, _ := bytes.Cut(written.Bytes(), []byte("\n")) // the comment is about the template
		if err := r.write("drydock."+name, manifest); err != nil {
			return err
		}
	}
	return nil
}
