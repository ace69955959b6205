package pull

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"drydock.dev/drydock/internal/prepare/cri"
)

// Delays between attempts to pull an image: each is twice the one before.
const (
	firstDelay = time.Second
	lastDelay  = time.Minute
)

// reasonLimit limits the reason of a failure in bytes: Drydock shows the last 2000 of a log.
const reasonLimit = 300

// progress counts images.
type progress struct {
	mutex                sync.Mutex
	total, ended, pulled int
	failures             []error
}

// pullAll pulls images, several at once. It reports each image that failed.
func (p *precaching) pullAll(ctx context.Context, images []string) error {
	var group errgroup.Group
	group.SetLimit(p.settings.Parallel)
	done := &progress{total: len(images)}
	for _, image := range images {
		group.Go(func() error {
			started := time.Now()
			err := p.pull(ctx, image)
			done.mutex.Lock()
			defer done.mutex.Unlock()
			done.ended++
			if err != nil {
				done.failures = append(done.failures, err)
				p.printf("[%d/%d] %v", done.ended, done.total, err)
				return nil
			}
			done.pulled++
			p.printf("[%d/%d] %s: pulled in %s", done.ended, done.total, image, time.Since(started).Round(100*time.Millisecond))
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if len(done.failures) == 0 {
		return nil
	}
	// The number comes last: the end of the log is what people see first.
	p.printf("images that were not pulled:\n%v", errors.Join(done.failures...))
	return fmt.Errorf("%d of %d images were not pulled, for the reasons above", len(done.failures), done.total)
}

// pull pulls an image, and tries again if the reason of a failure may go away.
func (p *precaching) pull(ctx context.Context, image string) error {
	delay := firstDelay
	for attempt := 1; ; attempt++ {
		err := p.attempt(ctx, image)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%s: stopped before it was pulled", image)
		case final(err) || attempt == p.settings.Attempts:
			return fmt.Errorf("%s: %s", image, reason(err))
		}
		p.printf("%s: attempt %d of %d failed, next one in %s: %s", image, attempt, p.settings.Attempts, delay, reason(err))
		select {
		case <-ctx.Done():
		case <-time.After(delay):
		}
		delay = min(2*delay, lastDelay)
	}
}

// attempt lets the runtime pull an image by its own configuration: CRI-O has the node's pull secret there, for mirrors too, and would send a given
// login to every mirror. If that fails, it gets the login of the pull secret, as the kubelet passes it: containerd has none of its own.
func (p *precaching) attempt(ctx context.Context, image string) error {
	err := p.runtime.Pull(ctx, image, cri.Login{})
	if err == nil || ctx.Err() != nil {
		return err
	}
	login, found, invalid := p.logins.of(image)
	if invalid != nil {
		return errors.Join(invalid, err)
	}
	if !found {
		return err
	}
	return p.runtime.Pull(ctx, image, login)
}

// final reports whether a further attempt would fail too, because the image is not in its registry. CRI-O reports this only in its text, in the words
// of the registry, and after what mirrors said.
func final(err error) bool {
	switch code := status.Code(err); code {
	case codes.NotFound, codes.InvalidArgument:
		return true
	case codes.Unknown:
		text := status.Convert(err).Message()
		text = text[max(strings.LastIndex(text, "reading manifest"), 0):]
		return strings.Contains(text, "manifest unknown") || strings.Contains(text, "name unknown")
	}
	return false
}

// reason is what the runtime says, in one line. The cause is at its end.
func reason(err error) string {
	text := strings.Join(strings.Fields(status.Convert(err).Message()), " ")
	if len(text) > reasonLimit {
		text = strings.ToValidUTF8(text[:reasonLimit/3]+"..."+text[len(text)-reasonLimit*2/3:], "")
	}
	return text
}
