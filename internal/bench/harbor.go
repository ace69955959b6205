package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/devstack/operators"
)

// HarborResult is how fast Harbor clusters react to changes of their services.
type HarborResult struct {
	Clusters int `json:"clusters"`
	// ReadyToApplied is the time from the readiness of the last service until Harbor is applied, for all Harbors at the same time.
	ReadyToApplied Latency `json:"readyToApplied"`
	// DownToUnhealthy is the time from the failure of a service until the HarborCluster is unhealthy, one Harbor after the other; DownTogether for
	// all at the same time.
	DownToUnhealthy Latency `json:"downToUnhealthy"`
	DownTogether    Latency `json:"downTogether"`
}

// harborsSuffix follows the number of Harbor clusters.
const harborsSuffix = "/harbors"

// parseHarbors reads a number of Harbor clusters, such as "50/harbors".
func parseHarbors(text string) (int, error) {
	clusters, err := strconv.Atoi(strings.TrimSuffix(text, harborsSuffix))
	if err != nil || clusters < 1 {
		return 0, fmt.Errorf("size %q is not CLUSTERS/harbors, e.g. 50/harbors", text)
	}
	return clusters, nil
}

// runHarbors measures each number of Harbor clusters on its own fleet.
func (r *Report) runHarbors(ctx context.Context, sizes []int, progress io.Writer) error {
	for _, clusters := range sizes {
		fmt.Fprintf(progress, "measuring %d%s\n", clusters, harborsSuffix)
		result, err := harborsOnFleet(ctx, clusters, progress)
		if err != nil {
			return fmt.Errorf("measure %d%s: %w", clusters, harborsSuffix, err)
		}
		r.Harbors = append(r.Harbors, result)
	}
	return nil
}

func harborsOnFleet(ctx context.Context, clusters int, progress io.Writer) (HarborResult, error) {
	f, err := fleet.Start(ctx, fleet.Options{Spokes: 1, Workers: 4, Temporal: temporalServer(false), Output: progress})
	if err != nil {
		return HarborResult{}, err
	}
	result, err := func() (HarborResult, error) {
		simulated, err := f.SimulateHarborOperators(ctx, f.Spokes[0])
		if err != nil {
			return HarborResult{}, err
		}
		defer simulated.Stop()
		h := harborMeasurement{fleet: f, spoke: f.Spokes[0], operators: simulated, clusters: clusters}
		return h.measure(ctx)
	}()
	return result, errors.Join(err, f.Stop())
}

// harborMeasurement is a spoke with Harbor clusters, each called main in its own namespace.
type harborMeasurement struct {
	fleet     *fleet.Fleet
	spoke     *devstack.Cluster
	operators *operators.Operators
	clusters  int
}

func harborNamespace(i int) string { return fmt.Sprintf("harbor-%d", i) }

func postgresOf(namespace string) string { return "postgresql-" + namespace + "-main" }

const harborTenant = "minio-main"

func (h harborMeasurement) measure(ctx context.Context) (HarborResult, error) {
	if err := h.bringUp(ctx); err != nil {
		return HarborResult{}, err
	}
	ready := time.Now()
	h.simulateAll(operators.Postgresql, postgresOf, operators.Behaviour{})
	if err := h.awaitAll(ctx, goharborv1.StatusHealthy); err != nil {
		return HarborResult{}, err
	}
	var oneByOne []time.Time
	for i := range h.clusters {
		oneByOne = append(oneByOne, time.Now())
		h.operators.Simulate(operators.Tenant, harborNamespace(i), harborTenant, operators.Behaviour{Down: true})
		if err := h.await(ctx, i, goharborv1.StatusUnhealthy); err != nil {
			return HarborResult{}, err
		}
	}
	tenant := func(string) string { return harborTenant }
	h.simulateAll(operators.Tenant, tenant, operators.Behaviour{})
	if err := h.awaitAll(ctx, goharborv1.StatusHealthy); err != nil {
		return HarborResult{}, err
	}
	together := time.Now()
	h.simulateAll(operators.Tenant, tenant, operators.Behaviour{Down: true})
	if err := h.awaitAll(ctx, goharborv1.StatusUnhealthy); err != nil {
		return HarborResult{}, err
	}
	return h.read(ready, oneByOne, together)
}

// bringUp applies the HarborClusters and waits until all their services except the database are ready.
func (h harborMeasurement) bringUp(ctx context.Context) error {
	dir, err := os.MkdirTemp(h.fleet.Dir, "harbors")
	if err != nil {
		return err
	}
	h.simulateAll(operators.Postgresql, postgresOf, operators.Behaviour{After: -1})
	var group errgroup.Group
	group.SetLimit(4)
	for i := range h.clusters {
		group.Go(func() error {
			namespace := harborNamespace(i)
			if err := h.fleet.AddHarborNamespace(ctx, h.spoke, namespace); err != nil {
				return err
			}
			file := filepath.Join(dir, namespace+".yaml")
			if err := os.WriteFile(file, fleet.HarborCluster{Namespace: namespace}.Manifest(), 0o600); err != nil {
				return err
			}
			return h.fleet.Run(ctx, io.Discard, "harbor", "apply", "-f", file, "--cluster", h.spoke.Name)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i := range h.clusters {
		if err := h.fleet.AwaitHarbor(ctx, h.spoke, harborNamespace(i), "main", "ready except for its database", func(s goharborv1.HarborClusterStatus) bool {
			ready := 0
			for _, condition := range s.Conditions {
				if condition.Status == metav1.ConditionTrue && condition.Type != goharborv1.DatabaseReady {
					ready++
				}
			}
			return ready == 2
		}); err != nil {
			return err
		}
	}
	return nil
}

func (h harborMeasurement) simulateAll(kind operators.Kind, name func(namespace string) string, behaviour operators.Behaviour) {
	for i := range h.clusters {
		h.operators.Simulate(kind, harborNamespace(i), name(harborNamespace(i)), behaviour)
	}
}

func (h harborMeasurement) awaitAll(ctx context.Context, status goharborv1.ClusterStatus) error {
	for i := range h.clusters {
		if err := h.await(ctx, i, status); err != nil {
			return err
		}
	}
	return nil
}

func (h harborMeasurement) await(ctx context.Context, i int, status goharborv1.ClusterStatus) error {
	return h.fleet.AwaitHarbor(ctx, h.spoke, harborNamespace(i), "main", string(status), func(s goharborv1.HarborClusterStatus) bool { return s.Status == status })
}

// read reads the times from the audit log.
func (h harborMeasurement) read(ready time.Time, oneByOne []time.Time, together time.Time) (HarborResult, error) {
	events, err := h.spoke.AuditEvents()
	if err != nil {
		return HarborResult{}, err
	}
	result := HarborResult{Clusters: h.clusters}
	running := wrote("postgresqls", "status", func(e auditv1.Event) bool { return has(e, `"PostgresClusterStatus":"Running"`) })
	applied := wrote("harbors", "", func(e auditv1.Event) bool { return e.ResponseStatus.Code == http.StatusCreated })
	down := wrote("tenants", "status", func(e auditv1.Event) bool { return has(e, `"availableReplicas":3`) })
	unhealthy := wrote("harborclusters", "status", func(e auditv1.Event) bool { return statusIn(e) == goharborv1.StatusUnhealthy })
	var applies, each, all []time.Duration
	for _, measured := range []struct {
		from     func(i int) time.Time
		of, then func(auditv1.Event) bool
		took     *[]time.Duration
	}{
		{func(int) time.Time { return ready }, running, applied, &applies},
		{func(i int) time.Time { return oneByOne[i] }, down, unhealthy, &each},
		{func(int) time.Time { return together }, down, unhealthy, &all},
	} {
		for i := range h.clusters {
			took, err := between(events, harborNamespace(i), measured.from(i), measured.of, measured.then)
			if err != nil {
				return HarborResult{}, err
			}
			*measured.took = append(*measured.took, took)
		}
	}
	result.ReadyToApplied, result.DownToUnhealthy, result.DownTogether = latency(applies), latency(each), latency(all)
	return result, nil
}

// wrote matches completed writes of a resource.
func wrote(resource, subresource string, matches func(auditv1.Event) bool) func(auditv1.Event) bool {
	return func(e auditv1.Event) bool {
		return e.Stage == auditv1.StageResponseComplete && e.ObjectRef.Resource == resource && e.ObjectRef.Subresource == subresource &&
			e.ResponseStatus != nil && e.ResponseStatus.Code < http.StatusBadRequest && matches(e)
	}
}

func has(e auditv1.Event, text string) bool {
	return e.RequestObject != nil && bytes.Contains(e.RequestObject.Raw, []byte(text))
}

func statusIn(e auditv1.Event) goharborv1.ClusterStatus {
	var hc goharborv1.HarborCluster
	if e.RequestObject == nil || json.Unmarshal(e.RequestObject.Raw, &hc) != nil {
		return ""
	}
	return hc.Status.Status
}

// between returns the time from the first event of a namespace since then to the next event of the other kind.
func between(events []auditv1.Event, namespace string, since time.Time, first, then func(auditv1.Event) bool) (time.Duration, error) {
	at := func(after time.Time, matches func(auditv1.Event) bool) (found time.Time) {
		for _, e := range events {
			if e.ObjectRef == nil || e.ObjectRef.Namespace != namespace || !e.StageTimestamp.After(after) || !matches(e) {
				continue
			}
			if found.IsZero() || e.StageTimestamp.Time.Before(found) {
				found = e.StageTimestamp.Time
			}
		}
		return found
	}
	began := at(since, first)
	if began.IsZero() {
		return 0, fmt.Errorf("the audit log has no start of the measurement of %s", namespace)
	}
	ended := at(began, then)
	if ended.IsZero() {
		return 0, fmt.Errorf("the audit log has no end of the measurement of %s", namespace)
	}
	return ended.Sub(began), nil
}
