package pull

import (
	"context"
	"fmt"
	"os"

	"github.com/dustin/go-humanize"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/prepare/host"
)

// kubeletConfigs are configuration files of kubelets: those of kubeadm and of OpenShift.
var kubeletConfigs = []string{"/var/lib/kubelet/config.yaml", "/etc/kubernetes/kubelet.conf"}

// defaultGCThreshold is the kubelet's default of imageGCHighThresholdPercent.
const defaultGCThreshold = 85

// gcThreshold is the usage of the disk, in percent, from which the kubelet removes images that no container uses, such as precached ones.
func gcThreshold(root host.Root) uint64 {
	for _, file := range kubeletConfigs {
		data, err := os.ReadFile(root.Path(file))
		if err != nil {
			continue
		}
		var config struct {
			ImageGCHighThresholdPercent uint64 `json:"imageGCHighThresholdPercent"`
		}
		// A file with the same name may be something else, such as a kubeconfig.
		if err := yaml.Unmarshal(data, &config); err == nil && config.ImageGCHighThresholdPercent > 0 && config.ImageGCHighThresholdPercent <= 100 {
			return config.ImageGCHighThresholdPercent
		}
	}
	return defaultGCThreshold
}

// checkSpace fails if the images' file system has less than the required space below the threshold of the kubelet. It runs once, before the first
// pull: what was there before counts towards the requirement, so that a second run needs no more space than the first.
func (p *precaching) checkSpace(ctx context.Context) error {
	if p.spaceChecked {
		return nil
	}
	p.spaceChecked = true
	required := p.config.SpaceRequired - min(p.config.SpaceRequired, p.presentSize)
	free, where, err := p.freeSpace(ctx)
	if err != nil {
		return err
	}
	if free == 0 || free < required {
		return fmt.Errorf("not enough space: %s has %s free, but %s are required; free some, or lower spaceRequired", where, humanize.IBytes(free), humanize.IBytes(required))
	}
	p.printf("%s has %s free, %s are required for images that are not there", where, humanize.IBytes(free), humanize.IBytes(required))
	return nil
}

// checkSpaceLeft fails if the kubelet would remove the precached images.
func (p *precaching) checkSpaceLeft(ctx context.Context) error {
	free, where, err := p.freeSpace(ctx)
	if err == nil && free == 0 {
		err = fmt.Errorf("the kubelet would remove the pulled images: %s is used above its limit for images", where)
	}
	return err
}

// freeSpace is the space that images may use before the kubelet removes some.
func (p *precaching) freeSpace(ctx context.Context) (free uint64, where string, err error) {
	directory, err := p.runtime.ImageDirectory(ctx)
	if err != nil {
		return 0, "", fmt.Errorf("directory of images: %w", err)
	}
	space, err := host.SpaceAt(p.root.Path(directory))
	if err != nil {
		return 0, "", fmt.Errorf("directory of images: %s of the node is neither mounted nor reached through its procfs: %w", directory, err)
	}
	threshold := gcThreshold(p.root)
	limit := space.Size / 100 * threshold
	free = min(limit-min(limit, space.Used), space.Available)
	return free, fmt.Sprintf("%s (kubelet's limit: %d%% of %s)", directory, threshold, humanize.IBytes(space.Size)), nil
}
