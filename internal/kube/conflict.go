package kube

import "k8s.io/client-go/util/retry"

// RetryOnConflict makes a change anew for as long as somebody else's write comes in between, a few times, and returns what came of the last attempt.
// client-go's function of the name forgets an attempt that was cancelled, as by a worker that stops, and calls it a success.
func RetryOnConflict(change func() error) error {
	var last error
	_ = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		last = change()
		return last
	})
	return last
}
