package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// factReceiver is a webhook that refuses each notification of a rollout once.
type factReceiver struct {
	*httptest.Server
	mu sync.Mutex
	// tried has the ids of the refused notifications. accepted counts the accepted ones by type, and twice has the ids of those that came again.
	tried    map[string]bool
	accepted map[string]int
	twice    []string
}

func receiveFacts(t *testing.T) *factReceiver {
	t.Helper()
	r := &factReceiver{tried: map[string]bool{}, accepted: map[string]int{}}
	seen := map[string]bool{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		var event struct{ ID, Type string }
		if json.NewDecoder(request.Body).Decode(&event) != nil || request.Header.Get("Webhook-Id") != event.ID {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case !r.tried[event.ID]:
			r.tried[event.ID] = true
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case seen[event.ID]:
			r.twice = append(r.twice, event.ID)
		}
		seen[event.ID] = true
		r.accepted[event.Type]++
	}))
	t.Cleanup(r.Close)
	return r
}

// accepts waits until the receiver has accepted as many notifications of each type, and none twice.
func (r *factReceiver) accepts(t *testing.T, wanted map[string]int) {
	t.Helper()
	require.EventuallyWithT(t, func(t *assert.CollectT) {
		r.mu.Lock()
		defer r.mu.Unlock()
		assert.Equal(t, wanted, r.accepted)
		assert.Empty(t, r.twice)
	}, patience, tick)
}
