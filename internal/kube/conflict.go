package kube

import "k8s.io/client-go/util/retry"

// RetryOnConflict retries a change a few times while other writers cause conflicts, and returns the last result. client-go's function with this name
// drops the error of a cancelled attempt and reports success.
func RetryOnConflict(change func() error) error {
	var last error
	_ = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		last = change()
		return last
	})
	return last
}
