package hub_test

import (
	"testing"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// The hub, and what leads the log that it writes, are killed under values, tasks
// and runs of plans: on a server, and on a cluster of three.
func TestKilledHubOnAServer(t *testing.T) {
	hubtest.Parallel(t)
	killedOn(t, storetest.OnServer(t))
}

func TestKilledHubOnACluster(t *testing.T) {
	hubtest.Parallel(t)
	if testing.Short() {
		t.Skip("a cluster takes a while")
	}
	killedOn(t, storetest.OnCluster(t))
}

// killedOn is what is done in a folder too, one after the other: all that is in a
// store is looked at in the end.
func killedOn(t *testing.T, f storetest.Form) {
	for _, suite := range []struct {
		name        string
		run         func(t *testing.T, f storetest.Form, kills, count int)
		short, long int
	}{
		{"values", killedWithValues, 60, 10_000},
		{"tasks", killedWithTasks, 20, 3000},
		{"plans", killedWithPlans, 12, 1000},
	} {
		t.Run(suite.name, func(t *testing.T) { suite.run(t, f, soak(2, 60), soak(suite.short, suite.long)) })
	}
}
