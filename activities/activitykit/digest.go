package activitykit

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// annotationDigest of what Drydock saves is the SHA-256 of its content.
const annotationDigest = "drydock.dev/digest"

// SetDigest records the digest of the content that an object saves.
func SetDigest(object metav1.Object, content []byte) {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[annotationDigest] = digest(content)
	object.SetAnnotations(annotations)
}

// CheckDigest refuses saved content that was not written together with its digest, such as a manual change.
func CheckDigest(object metav1.Object, content []byte) error {
	if object.GetAnnotations()[annotationDigest] != digest(content) {
		return errors.New("its content was changed: annotation " + annotationDigest + " is not its SHA-256")
	}
	return nil
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
