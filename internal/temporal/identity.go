package temporal

import (
	"fmt"
	"os"
	"strings"
)

// The ends of the identity of a worker that runs controllers for the objects in its clusters.
const (
	withControllers     = "+controllers"
	withNodeAnnotations = "+node-annotations"
)

// WorkerIdentity is the identity of this process as a worker, as Temporal shows it. It says which controllers run.
func WorkerIdentity(controllers, nodeAnnotations bool) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	identity := fmt.Sprintf("%d@%s", os.Getpid(), host)
	if !controllers {
		return identity
	}
	if identity += withControllers; nodeAnnotations {
		identity += withNodeAnnotations
	}
	return identity
}

// HasControllers reports whether the worker of an identity runs controllers for objects, and for the annotations of nodes.
func HasControllers(identity string) (objects, nodeAnnotations bool) {
	nodeAnnotations = strings.HasSuffix(identity, withControllers+withNodeAnnotations)
	return nodeAnnotations || strings.HasSuffix(identity, withControllers), nodeAnnotations
}
