package activitykit_test

import (
	"testing"

	"drydock.dev/drydock/activities/activitytest"
)

func TestMain(m *testing.M) { activitytest.MainOnSpoke(m) }
