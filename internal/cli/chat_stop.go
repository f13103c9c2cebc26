package cli

import "time"

// stopper stops a turn when done is closed, and gives it a moment to end.
type stopper struct {
	done <-chan struct{}
	late <-chan time.Time
}

func (s *stopper) begin(t *talk) {
	s.done = nil
	s.late = time.After(graceTime)
	t.abort()
}

// abort stops the turn that runs, and what waits behind it.
func (t *talk) abort() { t.send(makeFrame("abort", abortPayload{Turn: t.turn, Queued: true})) }

// skip stops the call that runs, and lets the turn go on without it.
func (t *talk) skip() bool {
	if len(t.running) == 0 {
		return false
	}
	t.send(makeFrame("abort", abortPayload{Call: t.running[len(t.running)-1]}))
	return true
}
