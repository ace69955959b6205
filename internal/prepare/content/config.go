// Package content reads what precaching is to pull: its configuration, and the formats of release images and catalogs.
package content

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"drydock.dev/drydock/internal/precache/contract"
)

// Config is the content of the ConfigMap of precaching.
type Config struct {
	PlatformImage    string
	Indexes          []string
	Packages         []Package
	Exclude          []*regexp.Regexp
	AdditionalImages []string
	// SpaceRequired is in bytes; 0 means that only the kubelet's limit counts.
	SpaceRequired uint64
}

// Package is an operator package that is wanted in one of its channels.
type Package struct {
	Name    string `json:"name"`
	Channel string `json:"channel"`
}

func (p Package) String() string { return p.Name + ":" + p.Channel }

// ReadConfig reads the files of the ConfigMap. Its error names every invalid value.
func ReadConfig(directory string) (Config, error) {
	r := reader{directory: directory}
	config := Config{
		PlatformImage:    r.image(contract.PlatformImage),
		Indexes:          r.images(contract.OperatorsIndexes),
		Packages:         r.packages(contract.OperatorsPackagesAndChannels),
		Exclude:          r.patterns(contract.ExcludePrecachePatterns),
		AdditionalImages: r.images(contract.AdditionalImages),
		SpaceRequired:    r.gibibytes(contract.SpaceRequired),
	}
	switch {
	case len(config.Indexes) > 0 && len(config.Packages) == 0:
		r.invalid(contract.OperatorsPackagesAndChannels, "is empty: which packages of the %s are wanted?", contract.OperatorsIndexes)
	case len(config.Indexes) == 0 && len(config.Packages) > 0:
		r.invalid(contract.OperatorsIndexes, "is empty: which catalogs are the %s in?", contract.OperatorsPackagesAndChannels)
	case config.PlatformImage == "" && len(config.Indexes) == 0 && len(config.AdditionalImages) == 0 && len(r.problems) == 0:
		r.invalid(contract.PlatformImage, "is empty, and so are %s and %s: nothing to pull", contract.OperatorsIndexes, contract.AdditionalImages)
	}
	return config, errors.Join(r.problems...)
}

type reader struct {
	directory string
	problems  []error
}

func (r *reader) invalid(key, problem string, values ...any) {
	r.problems = append(r.problems, fmt.Errorf("%s of the ConfigMap %s", key, fmt.Sprintf(problem, values...)))
}

// lines are the entries of a key, without empty ones. A missing key is empty.
func (r *reader) lines(key string) []string {
	data, err := os.ReadFile(filepath.Join(r.directory, key))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		r.problems = append(r.problems, fmt.Errorf("read %s of the ConfigMap: %w", key, err))
	}
	var entries []string
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" {
			entries = append(entries, line)
		}
	}
	return entries
}

func (r *reader) single(key string) string {
	lines := r.lines(key)
	if len(lines) > 1 {
		r.invalid(key, "has %d lines, but one is expected", len(lines))
	}
	return strings.Join(lines, "\n")
}

func (r *reader) image(key string) string {
	image := r.single(key)
	r.checkImage(key, image)
	return image
}

func (r *reader) images(key string) []string {
	images := r.lines(key)
	for _, image := range images {
		r.checkImage(key, image)
	}
	return images
}

func (r *reader) checkImage(key, image string) {
	if image != "" && !contract.IsImage(image) && !strings.Contains(image, "\n") {
		r.invalid(key, "has %q, which is not the name of an image", image)
	}
}

func (r *reader) packages(key string) []Package {
	var packages []Package
	for _, entry := range r.lines(key) {
		// TALM removes spaces.
		name, channel, valid := contract.PackageAndChannel(strings.ReplaceAll(entry, " ", ""))
		if !valid {
			r.invalid(key, "has %q, but package:channel is expected", entry)
		}
		packages = append(packages, Package{Name: name, Channel: channel})
	}
	return packages
}

func (r *reader) patterns(key string) []*regexp.Regexp {
	var patterns []*regexp.Regexp
	for _, entry := range r.lines(key) {
		pattern, err := CompileBasic(entry)
		if err != nil {
			r.invalid(key, "has %q: %v", entry, err)
			continue
		}
		patterns = append(patterns, pattern)
	}
	return patterns
}

func (r *reader) gibibytes(key string) uint64 {
	value := r.single(key)
	if value == "" {
		return 0
	}
	// More than 2^33 GiB would not fit into bytes.
	gib, err := strconv.ParseUint(value, 10, 33)
	if err != nil {
		r.invalid(key, "is %q, but a whole number of GiB is expected", value)
	}
	return gib << 30
}
