package bench

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ClustersSize is how many clusters a worker serves, and the nodes of each that a rollout maintains.
type ClustersSize struct {
	Clusters int `json:"clusters"`
	// Nodes of each cluster, and AtOnce, the clusters that are worked on at the same time; 0: there is no rollout.
	Nodes  int `json:"nodes,omitempty"`
	AtOnce int `json:"atOnce,omitempty"`
	// OnPostgreSQL: Temporal runs as in production, with PostgreSQL.
	OnPostgreSQL bool `json:"onPostgreSQL,omitempty"`
}

// clustersSuffix follows the size of many clusters.
const clustersSuffix = "/clusters"

// ParseClustersSize reads CLUSTERS/clusters or CLUSTERSxNODES@ATONCE/clusters, such as "3500/clusters" and "1000x3@100/clusters", or with /postgresql before
// /clusters.
func ParseClustersSize(text string) (ClustersSize, error) {
	rest, found := strings.CutSuffix(text, clustersSuffix)
	rest, onPostgreSQL := strings.CutSuffix(rest, "/"+optionPostgreSQL)
	rest, atOnce, limited := strings.Cut(rest, "@")
	clusters, nodes, rollout := strings.Cut(rest, "x")
	size := ClustersSize{OnPostgreSQL: onPostgreSQL}
	var err, also, third error
	size.Clusters, err = strconv.Atoi(clusters)
	if rollout {
		size.Nodes, also = strconv.Atoi(nodes)
		size.AtOnce, third = strconv.Atoi(atOnce)
	}
	if errors.Join(err, also, third) != nil || !found || limited != rollout || size.Clusters < 1 || rollout && (size.Nodes < 1 || size.AtOnce < 1) {
		return ClustersSize{}, fmt.Errorf("size %q is not CLUSTERS/clusters or CLUSTERSxNODES@ATONCE/clusters, e.g. 3500/clusters or 1000x3@100/clusters", text)
	}
	return size, nil
}

// String is what ParseClustersSize reads.
func (s ClustersSize) String() string {
	text := strconv.Itoa(s.Clusters)
	if s.Nodes > 0 {
		text += fmt.Sprintf("x%d@%d", s.Nodes, s.AtOnce)
	}
	if s.OnPostgreSQL {
		text += "/" + optionPostgreSQL
	}
	return text + clustersSuffix
}
