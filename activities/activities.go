// Package activities holds the effects of Drydock's workflows: each method is one idempotent Kubernetes effect, or one wait.
package activities

// NodeRef names a node of a cluster and on whose behalf it is touched.
type NodeRef struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	// Owner is the ownership mark: <workflow id>/<first run id>.
	Owner string `json:"owner"`
}
