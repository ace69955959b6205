package temporal

import (
	"fmt"
	"os"
	"strings"
)

// What a worker has, at the end of its identity: access to a hub or not, and controllers for the objects in its clusters.
const (
	withHub             = "+hub"
	withoutHub          = "+nohub"
	withControllers     = "+controllers"
	withNodeAnnotations = "+node-annotations"
)

// WorkerIdentity is the identity of this process as a worker, as Temporal shows it. It says whether the worker has a hub, and which controllers run.
func WorkerIdentity(hub, controllers, nodeAnnotations bool) string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	identity := fmt.Sprintf("%d@%s", os.Getpid(), host)
	if hub {
		identity += withHub
	} else {
		identity += withoutHub
	}
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

// HasHub reports whether the worker of an identity has a hub. It is unknown of workers of other versions.
func HasHub(identity string) (has, known bool) {
	part := func(name string) bool {
		return strings.HasSuffix(identity, name) || strings.Contains(identity, name+withControllers)
	}
	has = part(withHub)
	return has, has || part(withoutHub)
}
