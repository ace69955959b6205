package main

import (
	"go.temporal.io/sdk/client"

	"drydock.dev/drydock/internal/temporal"
)

// sourceOf returns the object that requests the work of a workflow; nil: there is none.
func sourceOf(execution *client.WorkflowExecutionDescription) *temporal.Object {
	object, err := temporal.ObjectIn(execution.Memo)
	if err != nil {
		return nil // another version wrote it; the status is valid
	}
	return object
}

// sourceLine says from which object work comes and, until it is over, how to steer it.
func sourceLine(object *temporal.Object, over bool, steer string) string {
	where := "on the hub"
	if object.Cluster != "" {
		where = "in cluster " + object.Cluster
	}
	line := "from " + object.String() + " " + where
	if over {
		return line
	}
	return line + ": " + steer
}
