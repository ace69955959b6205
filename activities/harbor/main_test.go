package harbor

import (
	"testing"
	"time"

	"drydock.dev/drydock/activities/activitytest"
)

func TestMain(m *testing.M) {
	applyTimeout = time.Minute
	activitytest.Main(m)
}
