// Package pull precaches images on a node: it lets the node's container runtime pull them, so that the node's mirrors and logins apply.
package pull

import (
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"drydock.dev/drydock/internal/prepare/content"
	"drydock.dev/drydock/internal/prepare/cri"
	"drydock.dev/drydock/internal/prepare/host"
)

// Settings of a run, from the environment.
type Settings struct {
	// Host is where the directories of the node are.
	Host host.Root
	// ConfigDirectory has the files of the ConfigMap.
	ConfigDirectory string
	// Endpoint of the container runtime; empty for the first known socket on the node.
	Endpoint string
	// PullSecret is a file of the node.
	PullSecret string
	// Pod is the pod of this program.
	Pod cri.Pod
	// Parallel is how many images are pulled at once, and Attempts how often each.
	Parallel, Attempts int
}

// precaching is a run.
type precaching struct {
	settings Settings
	root     host.Root
	config   content.Config
	logins   logins
	runtime  *cri.Runtime

	// presentSize is the size of the wanted images that were on the node before.
	presentSize  uint64
	spaceChecked bool

	outMutex sync.Mutex
	out      io.Writer
}

// Run precaches what the ConfigMap names. It reports its progress to out.
func Run(ctx context.Context, settings Settings, out io.Writer) (err error) {
	p := &precaching{settings: settings, root: settings.Host, out: out}
	if p.config, err = content.ReadConfig(settings.ConfigDirectory); err != nil {
		return err
	}
	if p.logins, err = readLogins(p.root.Path(settings.PullSecret)); err != nil {
		return err
	}
	if p.runtime, err = cri.Connect(ctx, p.root, settings.Endpoint); err != nil {
		return err
	}
	defer p.runtime.Close()
	p.printf("container runtime: %s", p.runtime.Name)
	images, err := p.wanted(ctx)
	if err != nil {
		return err
	}
	missing, err := p.missing(ctx, images)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		if err := p.checkSpace(ctx); err != nil {
			return err
		}
		if err := p.pullAll(ctx, missing); err != nil {
			return err
		}
		if err := p.checkSpaceLeft(ctx); err != nil {
			return err
		}
	}
	p.printf("all %d images are on the node", len(images))
	return nil
}

func (p *precaching) printf(format string, values ...any) {
	p.outMutex.Lock()
	defer p.outMutex.Unlock()
	fmt.Fprintf(p.out, format+"\n", values...)
}

// wanted are the images to pull, each once. It pulls the release image and the catalogs, because the others are listed in them.
func (p *precaching) wanted(ctx context.Context) ([]string, error) {
	images := slices.Clone(p.config.AdditionalImages)
	if release := p.config.PlatformImage; release != "" {
		components, err := p.release(ctx, release)
		if err != nil {
			return nil, err
		}
		images = append(images, components...)
	}
	operators, err := p.operators(ctx)
	if err != nil {
		return nil, err
	}
	images = append(images, operators...)
	slices.Sort(images)
	return slices.Compact(images), nil
}

// release returns a release image and the images of its components.
func (p *precaching) release(ctx context.Context, image string) ([]string, error) {
	if _, err := p.ensure(ctx, image); err != nil {
		return nil, fmt.Errorf("release image: %w", err)
	}
	var components []content.Component
	if err := p.read(ctx, image, &components, ReadReleaseCommand); err != nil {
		return nil, fmt.Errorf("release image %s: %w", image, err)
	}
	images := content.Without(components, p.config.Exclude)
	p.printf("release %s: %d images, %d excluded", image, len(components), len(components)-len(images))
	return append(images, image), nil
}

// operators returns the catalogs, and the images of the wanted packages. Each package must be in a catalog.
func (p *precaching) operators(ctx context.Context) ([]string, error) {
	var images []string
	missing := slices.Clone(p.config.Packages)
	for _, index := range p.config.Indexes {
		bundles, err := p.catalog(ctx, index)
		if err != nil {
			return nil, fmt.Errorf("catalog %w", err)
		}
		images = append(images, index)
		for _, bundle := range bundles {
			p.printf("catalog %s: %s has bundle %s with %d images", index, bundle.Package, bundle.Bundle, len(bundle.Images))
			images = append(images, bundle.Images...)
			missing = slices.DeleteFunc(missing, func(wanted content.Package) bool { return wanted == bundle.Package })
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("no catalog has %v", missing)
	}
	return images, nil
}

// ensure returns an image, and pulls it if it is not on the node.
func (p *precaching) ensure(ctx context.Context, name string) (*cri.Image, error) {
	missing, err := p.missing(ctx, []string{name})
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		if err := p.checkSpace(ctx); err != nil {
			return nil, err
		}
		p.printf("pulling %s", name)
		if err := p.pull(ctx, name); err != nil {
			return nil, err
		}
	}
	image, err := p.runtime.Image(ctx, name)
	if err == nil && image == nil {
		err = fmt.Errorf("it is not on the node after it was pulled")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return image, nil
}

// missing returns the images that are not on the node.
func (p *precaching) missing(ctx context.Context, names []string) ([]string, error) {
	var missing []string
	for _, name := range names {
		image, err := p.runtime.Image(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", name, err)
		}
		if image == nil {
			missing = append(missing, name)
			continue
		}
		p.presentSize += image.Size
	}
	return missing, nil
}
