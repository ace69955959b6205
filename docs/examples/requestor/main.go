// Command requestor takes nodes of a cluster out of service with Drydock, works on each of them, and returns them to service. It is an example: it
// only needs a Temporal server with Drydock's worker.
//
//	requestor --cluster spoke-1 --campaign bios-2-1 --nodes worker-1,worker-2 -- ./update-bios.sh
//
// It requests all nodes at once; the budgets of the cluster decide how many it gets at a time. If it is stopped or killed, start it again with the
// same arguments and it continues: it skips nodes that are done, and repeats the work on nodes that it had, or where the work failed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var r requestor
	var nodes string
	flag.StringVar(&r.cluster, "cluster", "", "the name of the cluster")
	flag.StringVar(&r.campaign, "campaign", "", "the name of the campaign: maintenances are named CAMPAIGN-NODE, and done once")
	flag.StringVar(&r.id, "requestor", "firmware.example.com", "the name of the requestor")
	flag.StringVar(&nodes, "nodes", "", "the nodes, separated by commas")
	flag.Parse()
	r.work = flag.Args()
	if r.cluster == "" || r.campaign == "" || nodes == "" || len(r.work) == 0 {
		fmt.Fprintln(os.Stderr, "usage: requestor --cluster CLUSTER --campaign NAME --nodes NODE,... -- COMMAND [ARGUMENT...]")
		os.Exit(2)
	}
	if err := r.run(ctx, strings.Split(nodes, ",")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// requestor requests nodes and works on them.
type requestor struct {
	server                client.Client
	id, cluster, campaign string
	// work is a command with the node's name in its environment as NODE. It may run more than once on a node.
	work []string
}

// run services all nodes, and returns the errors of all.
func (r requestor) run(ctx context.Context, nodes []string) error {
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return err
	}
	if r.server, err = client.DialContext(ctx, options); err != nil {
		return err
	}
	defer r.server.Close()
	failures := make([]error, len(nodes))
	var group sync.WaitGroup
	for i, node := range nodes {
		group.Go(func() {
			if err := r.service(ctx, node); err != nil {
				failures[i] = fmt.Errorf("%s: %w", node, err)
			}
		})
	}
	group.Wait()
	return errors.Join(failures...)
}

// service requests a node, works on it when it is ready, and reports the result. It continues a maintenance from an earlier run.
func (r requestor) service(ctx context.Context, node string) error {
	m, err := r.request(ctx, node)
	if err != nil {
		return err
	}
	for {
		now, err := m.await(ctx, func(state string) bool { return state == ready || state == requestorFailed })
		done := false
		switch {
		case err != nil:
			return err
		case now == ready:
			done, err = r.workOn(ctx, m)
		case now == requestorFailed:
			if err = m.send(ctx, "recover", "another attempt"); err == nil {
				_, err = m.await(ctx, func(state string) bool { return state != requestorFailed })
			}
		default:
			return m.outcome(ctx)
		}
		switch {
		case err != nil:
			return err
		case done:
			return m.outcome(ctx)
		}
	}
}

// workOn works on a node that is ready, and reports the result. If the maintenance is cancelled or the node deleted meanwhile, it stops the work and
// reports nothing.
func (r requestor) workOn(ctx context.Context, m *maintenance) (done bool, err error) {
	working, stop := context.WithCancel(ctx)
	defer stop()
	lost, watched := false, make(chan struct{})
	go func() {
		defer close(watched)
		if _, err := m.await(working, func(state string) bool { return state != ready }); err == nil {
			lost = true
			stop()
		}
	}()
	m.print("working")
	err = r.command(working, m.node).Run()
	stop()
	<-watched
	switch {
	case ctx.Err() != nil:
		return false, fmt.Errorf("stopped during the work, and the node stays out of service: run the same command again, or `drydock node cancel %s --cluster %s`", m.name, m.cluster)
	case lost:
		return false, nil
	case err == nil:
		return true, m.send(ctx, "done", "")
	}
	if unsent := m.send(ctx, "fail", err.Error()); unsent != nil {
		return false, unsent
	}
	return false, fmt.Errorf("the work failed (%w), and the node stays out of service: run the same command again, or `drydock node cancel %s --cluster %s`", err, m.name, m.cluster)
}

// command is the work on a node. It receives SIGTERM when ctx is cancelled.
func (r requestor) command(ctx context.Context, node string) *exec.Cmd {
	work := exec.CommandContext(ctx, r.work[0], r.work[1:]...)
	work.Env = append(os.Environ(), "NODE="+node)
	work.Stdout, work.Stderr = os.Stdout, os.Stderr
	work.Cancel = func() error { return work.Process.Signal(syscall.SIGTERM) }
	work.WaitDelay = 10 * time.Second
	return work
}
