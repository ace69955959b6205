package rollouts

import (
	"context"

	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/temporal"
)

// ReleaseFinder finds the image of a release in its update graph. Errors are for the person who wrote the policy with the release.
type ReleaseFinder interface {
	ImageOf(ctx context.Context, release precache.Release) (string, error)
}

// LookUpRelease looks up a release in its update graph. It returns what differs from the last result, and fails while the problem is the same, so that Temporal
// retries it. Errors: ReleaseUnknown.
func (r *Activities) LookUpRelease(ctx context.Context, last precache.LookedUp) (precache.LookedUp, error) {
	found := precache.LookedUp{Release: last.Release}
	image, err := r.Releases.ImageOf(ctx, last.Release)
	switch {
	case ctx.Err() != nil:
		return precache.LookedUp{}, ctx.Err()
	case err != nil:
		found.Problem = temporal.Cut(err.Error(), problemLimit)
	default:
		found.Image = image
	}
	if found.Problem != "" && found.Problem == last.Problem {
		return precache.LookedUp{}, temporal.Error(temporal.ErrReleaseUnknown, found.Problem, err)
	}
	return found, nil
}

// problemLimit is the maximum length of the problem of a release, in bytes.
const problemLimit = 2000
