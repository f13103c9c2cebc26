package storetest

import (
	"testing"

	"github.com/stoahub/stoa/internal/store"
)

// Form is what hubs that are killed keep their records in. The zero value is a
// folder of their own.
type Form struct {
	Name string
	// Options are those of the store; without a URL it is a folder.
	Options store.Options
	// Kill ends at once what leads a log, until mend brings it back. nil means that
	// there is nothing to kill but the hub.
	Kill func(t testing.TB, log string) (mend func())
	// GoesOn says that the store can be used meanwhile.
	GoesOn bool
}

// Folder is the form in which there is nothing but the hub.
func Folder() Form { return Form{Name: "folder"} }

// OnServer is one server, which ends with the test.
func OnServer(t testing.TB) Form {
	s := StartServer(t)
	return Form{Name: "server", Options: store.Options{URL: s.URL}, Kill: func(t testing.TB, _ string) func() {
		s.Kill()
		return func() { s.Restart(t) }
	}}
}

// OnCluster is a cluster of three, which ends with the test.
func OnCluster(t testing.TB) Form {
	c := StartCluster(t)
	return Form{Name: "cluster", Options: c.Options(), GoesOn: true, Kill: func(t testing.TB, log string) func() {
		leader := c.Leader(t, log)
		c.Kill(leader)
		return func() {
			c.Restart(t, leader)
			c.Whole(t, log)
		}
	}}
}
