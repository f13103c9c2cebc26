package cli

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// A hub's heap may grow to roomy before it is collected, and by thrifty percent
// from then on.
//
// A hub that holds little would be collected ten times a second under load, which
// costs each call a tenth more; and one that holds much has memory given back
// somewhat earlier than Go does by itself: it stands beside the programs it is
// for, and of what it holds much is stacks and buffers, which would count twice.
const (
	roomy   = 48 << 20
	thrifty = 75
	lavish  = 400 // at most, where next to nothing is held
)

// headroom is by how many percent a heap may grow of which so much is in use.
func headroom(live uint64) int {
	if live >= roomy*100/(100+thrifty) {
		return thrifty
	}
	return int(min((roomy-live)*100/max(live, 1), lavish))
}

// tuned sets after each collection when the next one is due, until stop is
// called. GOGC goes before it.
func tuned() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	done := make(chan struct{})
	due := thrifty
	before := debug.SetGCPercent(due)
	type mark struct{ _ [64]byte }
	var collected func(*mark)
	collected = func(*mark) {
		select {
		case <-done:
			return
		default:
		}
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		// Setting it stops everything for a moment, which small changes are not worth.
		if next := headroom(live[0].Value.Uint64()); next < due*4/5 || next > due*5/4 {
			due = next
			debug.SetGCPercent(due)
		}
		runtime.SetFinalizer(new(mark), collected)
	}
	runtime.SetFinalizer(new(mark), collected) // nobody holds it: it is called after the next collection
	return func() {
		close(done)
		debug.SetGCPercent(before)
	}
}
