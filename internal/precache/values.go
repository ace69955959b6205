package precache

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"drydock.dev/drydock/internal/precache/contract"
)

// parse checks a value of a field, and returns it in the form that the Job reads.
func parse(name Field, path, value string) (string, *field.Error) {
	at := field.NewPath(path)
	switch name {
	case OperatorsPackagesAndChannels:
		return parsePackage(at, value)
	case ExcludePrecachePatterns:
		return value, checkPattern(at, value)
	case SpaceRequired:
		space, err := wholeGiB(value)
		if err != nil {
			return "", field.Invalid(at, value, err.Error())
		}
		return space, nil
	}
	return value, CheckImage(at, value)
}

// CheckImage checks the name of an image. It does not check that the image exists.
func CheckImage(at *field.Path, image string) *field.Error {
	if contract.IsImage(image) {
		return nil
	}
	return field.Invalid(at, image, "must be the name of an image, such as registry.example.com/release:4.18.3 or one with a digest")
}

// parsePackage reads package:channel. Spaces around the colon are allowed, as in the documentation of TALM.
func parsePackage(at *field.Path, entry string) (string, *field.Error) {
	name, channel, _ := strings.Cut(entry, ":")
	trimmed := strings.TrimSpace(name) + ":" + strings.TrimSpace(channel)
	if _, _, valid := contract.PackageAndChannel(trimmed); !valid {
		return "", field.Invalid(at, entry, "must be package:channel")
	}
	return trimmed, nil
}

// checkPattern checks a pattern. The Job passes them to grep, one a line; an empty one would exclude every image.
func checkPattern(at *field.Path, pattern string) *field.Error {
	if strings.TrimSpace(pattern) == "" || strings.ContainsAny(pattern, "\r\n") {
		return field.Invalid(at, pattern, "must be one line, and not empty: that would exclude every image")
	}
	return nil
}

// sizeForm is a number with a unit, as in TALM: "35 GiB", "40GB", "1.5 TiB", "36g"; without a unit, bytes.
var sizeForm = regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) ?(?:([kKmMgGtTpP])(i)?)?[bB]?$`)

// wholeGiB converts a size to GiB, rounded up.
func wholeGiB(size string) (string, error) {
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
