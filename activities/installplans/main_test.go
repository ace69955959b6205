package installplans

import (
	"testing"

	"drydock.dev/drydock/activities/activitytest"
)

func TestMain(m *testing.M) { activitytest.Main(m) }
