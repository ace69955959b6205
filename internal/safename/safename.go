// Package safename makes names that fit where Kubernetes limits their length.
package safename

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// limit of a label value and of a DNS label; suffix is "-" and 8 hexadecimal digits.
const limit, suffix = 63, 9

// Join joins parts with separator into a name of at most 63 characters, the limit of a label value and of a DNS label. A name
// that is too long is cut and ends in "-" and 8 hexadecimal digits of its SHA-256, so that different names stay different.
func Join(separator string, parts ...string) string {
	full := strings.Join(parts, separator)
	if len(full) <= limit {
		return full
	}
	return cut(full, limit, full)
}

// Unique joins parts with "-" into a name of at most that many characters, at least 10 and at most 63, that always ends in "-" and 8 hexadecimal
// digits: of the parts, and of those it is made for. So the parts a-b and c make another name than a and b-c.
func Unique(most int, madeFor []string, parts ...string) string {
	return cut(strings.ToLower(strings.Join(parts, "-")), most, strings.Join(slices.Concat(madeFor, parts), "/"))
}

func cut(full string, most int, identity string) string {
	sum := sha256.Sum256([]byte(identity))
	kept := strings.TrimRight(full[:min(len(full), most-suffix)], "-.")
	return kept + "-" + hex.EncodeToString(sum[:4])
}
