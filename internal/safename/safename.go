// Package safename makes names that fit where Kubernetes limits their length.
package safename

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Join joins parts with separator into a name of at most 63 characters, the limit of a label value and of a DNS label. A name
// that is too long is cut and ends in "-" and 8 hexadecimal digits of its SHA-256, so that different names stay different.
func Join(separator string, parts ...string) string {
	const limit, suffix = 63, 9
	full := strings.Join(parts, separator)
	if len(full) <= limit {
		return full
	}
	sum := sha256.Sum256([]byte(full))
	cut := strings.TrimRight(full[:limit-suffix], "-.")
	return cut + "-" + hex.EncodeToString(sum[:4])
}
