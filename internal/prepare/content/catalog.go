package content

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/yaml"
)

// Labels of an index image.
const (
	CatalogLabel  = "operators.operatorframework.io.index.configs.v1"
	DatabaseLabel = "operators.operatorframework.io.index.database.v1"
)

// Bundle is the newest version of an operator in a channel, with the images that it needs.
type Bundle struct {
	Package
	Bundle string   `json:"bundle"`
	Images []string `json:"images"`
}

// catalogEntry is what is read of the entries of a file-based catalog: those with the schemas olm.channel and olm.bundle.
type catalogEntry struct {
	Schema  string `json:"schema"`
	Package string `json:"package"`
	Name    string `json:"name"`
	// Entries of a channel.
	Entries []channelEntry `json:"entries"`
	// Image and RelatedImages of a bundle.
	Image         string `json:"image"`
	RelatedImages []struct {
		Image string `json:"image"`
	} `json:"relatedImages"`
}

type channelEntry struct {
	Name     string   `json:"name"`
	Replaces string   `json:"replaces"`
	Skips    []string `json:"skips"`
}

// catalog has what a catalog says of the wanted packages.
type catalog struct {
	wanted   []Package
	channels map[Package][]channelEntry
	// bundles have the images of all bundles of the wanted packages, by package and name.
	bundles map[[2]string][]string
}

// ReadCatalog finds the newest bundle of each wanted channel in a file-based catalog: a directory of files that are streams of JSON or YAML. Channels
// that it does not have are left out.
func ReadCatalog(directory fs.FS, wanted []Package) ([]Bundle, error) {
	c := catalog{wanted: wanted, channels: map[Package][]channelEntry{}, bundles: map[[2]string][]string{}}
	err := fs.WalkDir(directory, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
			return err
		}
		file, err := directory.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		if err := c.read(file); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return c.heads()
}

func (c *catalog) read(file io.Reader) error {
	decoder := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		var document json.RawMessage
		if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		// Entries of other schemas may have fields of the same names with other types.
		var schema struct {
			Schema string `json:"schema"`
		}
		if err := json.Unmarshal(document, &schema); err != nil {
			return err
		}
		if schema.Schema != "olm.channel" && schema.Schema != "olm.bundle" {
			continue
		}
		var entry catalogEntry
		if err := json.Unmarshal(document, &entry); err != nil {
			return err
		}
		c.add(entry)
	}
}

func (c *catalog) add(entry catalogEntry) {
	switch entry.Schema {
	case "olm.channel":
		if channel := (Package{Name: entry.Package, Channel: entry.Name}); slices.Contains(c.wanted, channel) {
			c.channels[channel] = append(c.channels[channel], entry.Entries...)
		}
	case "olm.bundle":
		if !slices.ContainsFunc(c.wanted, func(p Package) bool { return p.Name == entry.Package }) {
			return
		}
		images := []string{entry.Image}
		for _, related := range entry.RelatedImages {
			images = append(images, related.Image)
		}
		slices.Sort(images)
		// Catalogs have related images without a name.
		images = slices.DeleteFunc(slices.Compact(images), func(image string) bool { return image == "" })
		c.bundles[[2]string{entry.Package, entry.Name}] = images
	}
}

// heads are the bundles at the heads of the wanted channels: those that no other entry replaces or skips.
func (c *catalog) heads() ([]Bundle, error) {
	var heads []Bundle
	for _, channel := range c.wanted {
		entries, found := c.channels[channel]
		if !found {
			continue
		}
		old := map[string]bool{}
		for _, entry := range entries {
			old[entry.Replaces] = true
			for _, skipped := range entry.Skips {
				old[skipped] = true
			}
		}
		current := slices.DeleteFunc(slices.Clone(entries), func(entry channelEntry) bool { return old[entry.Name] })
		if len(current) != 1 {
			return nil, fmt.Errorf("channel %s has %d entries that no other replaces, but one is expected", channel, len(current))
		}
		images, found := c.bundles[[2]string{channel.Name, current[0].Name}]
		if !found {
			return nil, fmt.Errorf("channel %s: its newest bundle %s is not in the catalog", channel, current[0].Name)
		}
		heads = append(heads, Bundle{Package: channel, Bundle: current[0].Name, Images: images})
	}
	return heads, nil
}
