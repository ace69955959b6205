package workflowtest

import (
	"time"
)

// NoMoreSelecting lets nobody find out from then on which windows are for which clusters.
func (w *World) NoMoreSelecting(after time.Duration) {
	w.RegisterDelayedCallback(func() {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		w.Blocked["SelectClusters"] = true
	}, after)
}
