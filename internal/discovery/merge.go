package discovery

import (
	"fmt"
	"slices"
)

// Merge returns the clusters of all sources in the same order, each with a configuration or the reason why it is not used. A cluster of the clusters file
// stays the one with its name, so that no object on the hub can replace it. Of two objects with one name neither is used, because nothing says which is right.
func Merge(inFile func(name string) bool, found []Cluster) []Cluster {
	named := map[string][]string{}
	for _, cluster := range found {
		if !cluster.NoCredentials {
			named[cluster.Name] = append(named[cluster.Name], cluster.From)
		}
	}
	merged := slices.Clone(found)
	for i := range merged {
		cluster := &merged[i]
		switch objects := named[cluster.Name]; {
		case cluster.Name == "" || cluster.NoCredentials:
		case inFile(cluster.Name):
			cluster.refuse(fmt.Sprintf("the clusters file has a cluster %s, too: remove one of the two", cluster.Name))
		case len(objects) > 1:
			other := slices.IndexFunc(objects, func(from string) bool { return from != cluster.From })
			if other < 0 {
				cluster.refuse("two entries of discovery select it: narrow one of the two")
				continue
			}
			cluster.refuse(fmt.Sprintf("%s also names cluster %s, so neither is used: remove one of the two", objects[other], cluster.Name))
		}
	}
	return merged
}

func (c *Cluster) refuse(problem string) { c.Config, c.Problem = nil, problem }
