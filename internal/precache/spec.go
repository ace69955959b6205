// Package precache holds the decisions of precaching and backups before a rollout: the content to pull, the Jobs, and the result. Every function is
// pure.
package precache

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// DefaultSpaceRequired is the disk space that precaching needs on a cluster by default.
const DefaultSpaceRequired = "35 GiB"

// SpecOf returns the content that a configuration pulls. Errors name every invalid field. The image of the Job may be missing: workers have a
// default.
func SpecOf(config *ranv1.PreCachingConfigSpec) (ranv1.PrecachingSpec, field.ErrorList) {
	spec, overrides := field.NewPath("spec"), field.NewPath("spec", "overrides")
	o := config.Overrides
	invalid := checkImages(overrides.Child("operatorsIndexes"), o.OperatorsIndexes)
	invalid = append(invalid, checkPackages(overrides.Child("operatorsPackagesAndChannels"), o.OperatorsPackagesAndChannels)...)
	for _, image := range []struct{ field, name string }{{"platformImage", o.PlatformImage}, {"preCacheImage", o.PreCacheImage}} {
		if image.name != "" {
			invalid = append(invalid, CheckImage(overrides.Child(image.field), image.name)...)
		}
	}
	switch {
	case len(o.OperatorsIndexes) > 0 && len(o.OperatorsPackagesAndChannels) == 0:
		invalid = append(invalid, field.Required(overrides.Child("operatorsPackagesAndChannels"), "which packages of the operatorsIndexes?"))
	case len(o.OperatorsIndexes) == 0 && len(o.OperatorsPackagesAndChannels) > 0:
		invalid = append(invalid, field.Required(overrides.Child("operatorsIndexes"), "which catalogs are the operatorsPackagesAndChannels in?"))
	case o.PlatformImage == "" && len(o.OperatorsIndexes) == 0 && len(config.AdditionalImages) == 0:
		invalid = append(invalid, field.Required(overrides, "nothing to pull: set platformImage, operatorsIndexes with operatorsPackagesAndChannels, or spec.additionalImages"))
	}
	space, err := wholeGiB(config.SpaceRequired)
	if err != nil {
		invalid = append(invalid, field.Invalid(spec.Child("spaceRequired"), config.SpaceRequired, err.Error()))
	}
	invalid = append(invalid, checkPatterns(spec.Child("excludePrecachePatterns"), config.ExcludePrecachePatterns)...)
	invalid = append(invalid, checkImages(spec.Child("additionalImages"), config.AdditionalImages)...)
	return ranv1.PrecachingSpec{
		PlatformImage:                o.PlatformImage,
		OperatorsIndexes:             o.OperatorsIndexes,
		OperatorsPackagesAndChannels: o.OperatorsPackagesAndChannels,
		ExcludePrecachePatterns:      config.ExcludePrecachePatterns,
		SpaceRequired:                space,
		AdditionalImages:             config.AdditionalImages,
	}, invalid
}

// imageForm is a reference to an image: [registry[:port]/]path[:tag][@digest].
var imageForm = regexp.MustCompile(`^(?:(?:[A-Za-z0-9][A-Za-z0-9.-]*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?/)?[a-z0-9]+(?:(?:[._]|__|-+|/)[a-z0-9]+)*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[a-z0-9]+(?:[+._-][a-z0-9]+)*:[0-9a-fA-F]{32,})?$`)

func checkImages(path *field.Path, images []string) field.ErrorList {
	var invalid field.ErrorList
	for i, image := range images {
		invalid = append(invalid, CheckImage(path.Index(i), image)...)
	}
	return invalid
}

// CheckImage checks the name of an image. It does not check that the image exists.
func CheckImage(path *field.Path, image string) field.ErrorList {
	if imageForm.MatchString(image) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, image, "must be the name of an image, such as registry.example.com/release:4.18.3 or one with a digest")}
}

func checkPackages(path *field.Path, packages []string) field.ErrorList {
	var invalid field.ErrorList
	for i, entry := range packages {
		name, channel, found := strings.Cut(entry, ":")
		if !found || name == "" || channel == "" || strings.ContainsAny(entry, " \t\r\n") || strings.Contains(channel, ":") {
			invalid = append(invalid, field.Invalid(path.Index(i), entry, "must be package:channel"))
		}
	}
	return invalid
}

// checkPatterns checks the patterns. The Job passes them to grep, one a line; an empty one would exclude every image.
func checkPatterns(path *field.Path, patterns []string) field.ErrorList {
	var invalid field.ErrorList
	for i, pattern := range patterns {
		if strings.TrimSpace(pattern) == "" || strings.ContainsAny(pattern, "\r\n") {
			invalid = append(invalid, field.Invalid(path.Index(i), pattern, "must be one line, and not empty: that would exclude every image"))
		}
	}
	return invalid
}

// sizeForm is a number with a unit, as in TALM: "35 GiB", "40GB", "1.5 TiB", "36g"; without a unit, bytes.
var sizeForm = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?(?:([kKmMgGtTpP])(i)?)?[bB]?$`)

// wholeGiB converts a size to GiB, rounded up.
func wholeGiB(size string) (string, error) {
	if size == "" {
		size = DefaultSpaceRequired
	}
	parts := sizeForm.FindStringSubmatch(strings.TrimSpace(size))
	if parts == nil {
		return "", fmt.Errorf("must be a size such as 40 GiB or 45 GB")
	}
	bytes, _ := new(big.Rat).SetString(parts[1])
	base := int64(1000)
	if parts[3] != "" {
		base = 1024
	}
	power := int64(0)
	if parts[2] != "" {
		power = int64(strings.Index("kmgtp", strings.ToLower(parts[2]))) + 1
	}
	bytes.Mul(bytes, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(base), big.NewInt(power), nil)))
	if bytes.Sign() == 0 {
		return "", fmt.Errorf("must be more than 0")
	}
	gib := bytes.Quo(bytes, new(big.Rat).SetInt64(1<<30))
	whole := new(big.Int).Quo(gib.Num(), gib.Denom())
	if !gib.IsInt() {
		whole.Add(whole, big.NewInt(1))
	}
	return whole.String(), nil
}
