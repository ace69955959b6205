package installplans

import (
	"testing"
	"time"

	"drydock.dev/drydock/activities/activitytest"
)

func TestMain(m *testing.M) {
	approvalTimeout = time.Minute
	activitytest.Main(m)
}
