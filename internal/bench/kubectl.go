package bench

import (
	"context"
	"fmt"
	"io"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/drain"
)

// The loop and kubectl run as administrators with distinct names in the audit log.
const (
	kubectlUser = "bench-kubectl"
	loopUser    = "bench-loop"
	adminGroup  = "system:masters"
)

// byKubectl drains and uncordons the nodes with the package of `kubectl drain`. It does less than the other methods: no Job, no marks, no maintenance
// requests.
type byKubectl struct {
	*measurement
	client kubernetes.Interface
}

func newKubectl(s *measurement) (byKubectl, error) {
	config, err := s.spoke.UserConfig(kubectlUser, adminGroup)
	if err != nil {
		return byKubectl{}, err
	}
	client, err := kubernetes.NewForConfig(config)
	return byKubectl{s, client}, err
}

func (byKubectl) String() string { return "kubectl drain" }

func (b byKubectl) maintain(ctx context.Context, _ int) (time.Duration, error) {
	return timed(func() error {
		return b.eachNode(ctx, func(ctx context.Context, node string) error { return drainByKubectl(ctx, b.client, node) })
	})
}

func (b byKubectl) record(_ context.Context, rounds []round, result *Result) error {
	result.Wall.Kubectl = wallTime(rounds)
	_, err := b.observe(kubectlUser, rounds)
	return err
}

func drainByKubectl(ctx context.Context, kubectl kubernetes.Interface, name string) error {
	helper := &drain.Helper{
		Ctx: ctx, Client: kubectl, GracePeriodSeconds: -1, IgnoreAllDaemonSets: true, Out: io.Discard, ErrOut: io.Discard,
	}
	node, err := kubectl.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if err := drain.RunCordonOrUncordon(helper, node, true); err != nil {
		return fmt.Errorf("cordon %s: %w", name, err)
	}
	if err := drain.RunNodeDrain(helper, name); err != nil {
		return fmt.Errorf("drain %s: %w", name, err)
	}
	// RunCordonOrUncordon has changed the object.
	if node, err = kubectl.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err != nil {
		return err
	}
	return drain.RunCordonOrUncordon(helper, node, false)
}

// eachNode maintains all nodes, as many at once as the budget allows.
func (s *measurement) eachNode(ctx context.Context, maintain func(ctx context.Context, node string) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.size.AtOnce)
	for _, node := range s.nodes() {
		group.Go(func() error { return maintain(ctx, node) })
	}
	return group.Wait()
}
