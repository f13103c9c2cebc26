package plan

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/session"
)

// Resume drives the runs that were not over when the hub ended, and follows
// what other hubs write to the same store from then on.
func (r *Runs) Resume() {
	for _, run := range r.list() {
		if !run.Summary().Status.Over() {
			r.drive(run)
		}
	}
	r.follow.Do(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.closing {
			return
		}
		r.journal.Follow()
		if r.o.Keep != nil {
			r.wg.Go(r.sweep)
		}
	})
}

// changed is told what happens to runs, by whomever. x is locked.
func (r *Runs) changed(x *entity, e *Event, at journal.Place) {
	_, id := split(x.Key())
	r.mu.Lock()
	run := r.all[id]
	r.mu.Unlock()
	switch {
	case e == nil && run != nil:
		run.leave()
		r.unlist(run)
	case e == nil:
	case x.Now().flaw != nil:
		if at.Seq == x.Now().flawed {
			r.unusable(x)
		}
		if run != nil {
			run.leave()
			r.unlist(run)
		}
	case run != nil:
		run.took(e, x.Now())
	case e.Type == RunCreated && e.By == r.name:
		r.disown(x)
	default:
		run = r.adopt(x)
		run.told = true
		run.launch() // as soon as its hub does not drive it
	}
}

// unusable says that the journal of a run cannot be used. It is left where it
// is.
func (r *Runs) unusable(x *entity) {
	s := x.Now()
	r.o.Logger.Error("the journal of a run cannot be used", "run", s.Created.Run, "entity", x.Key(), "seq", s.flawed, "err", s.flaw)
}

// adopt makes the run of an entity, which is locked.
func (r *Runs) adopt(x *entity) *Run {
	run := r.newRun(x)
	run.state = x.Now()
	r.mu.Lock()
	r.all[run.id] = run
	r.mu.Unlock()
	r.index(run)
	return run
}

// disown removes a run that could not be begun, as whoever wanted it was told:
// its first event came to be stored after all.
func (r *Runs) disown(x *entity) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closing {
		return
	}
	r.wg.Go(func() {
		if err := x.Remove(r.ctx, nil); err != nil {
			r.o.Logger.Warn("forget a run that was not begun", "entity", x.Key(), "err", err)
		}
	})
}

// sweepEvery is how often runs are looked at that nothing else ends.
const sweepEvery = time.Minute

// sweep forgets runs whose Sessions are gone.
func (r *Runs) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-r.going.Done():
			return
		case now := <-tick.C:
			r.Sweep(r.ctx, now)
		}
	}
}

// Sweep forgets the runs that are over or left paused for as long as runs are
// kept, and whose Sessions hold nothing: no end of such a Session is told. Nor is that of one that ended
// while the hub was about to.
func (r *Runs) Sweep(ctx context.Context, now time.Time) {
	keep := r.o.Keep()
	if keep <= 0 {
		return
	}
	kept := map[string]bool{}
	for _, s := range r.o.Sessions.All(func(string) bool { return true }) {
		kept[s.ID()] = true
	}
	for _, run := range r.list() {
		if rest := run.rested(); kept[run.session] || rest.IsZero() || now.Sub(rest) < keep {
			continue
		}
		r.forget(ctx, run)
	}
}

// rested is since when nothing happens to a run: it is over, or paused.
func (r *Run) rested() time.Time {
	r.lock()
	defer r.unlock()
	switch {
	case r.state.Status.Over():
		return r.state.Ended
	case r.state.Pause != nil && len(r.busy) == 0:
		return r.state.Pause.Since
	}
	return time.Time{}
}

// trim forgets the oldest runs of a Session that are over, beyond the bound.
func (r *Runs) trim(run *Run) {
	s := run.Summary()
	all := r.Of(s.Principal, s.Session)
	for i := len(all) - 1; i >= r.o.Max; i-- {
		if all[i].Summary().Status.Over() {
			r.forget(r.ctx, all[i])
		}
	}
}

// forget makes an end of a run, whatever it does.
func (r *Runs) forget(ctx context.Context, run *Run) {
	if err := r.endAll(ctx, run.session, run.x); err != nil {
		r.o.Logger.Warn("forget a run", "run", run.id, "err", err)
	}
}

// end leaves a run, whatever it does.
func (r *Run) end() {
	r.lock()
	defer r.unlock()
	r.leave()
}

// unlist takes a run out of memory that was left. It is locked.
func (r *Runs) unlist(run *Run) {
	c := &run.state.Created
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, run.id)
	if k := keyOf(c.Owner, c.Key); r.keys[k] == run {
		delete(r.keys, k)
	}
}

// EndSession ends and forgets the runs of a Session that has ended. They stay
// listed until their journals are gone: what could not be removed can be tried
// again.
func (r *Runs) EndSession(ctx context.Context, principal, name string) error {
	id := session.ID(principal, name)
	keys := map[string]bool{}
	r.journal.Each(func(x *entity) {
		if of, _ := split(x.Key()); of == id {
			keys[x.Key()] = true
		}
	})
	if !r.o.Alone { // another hub may have begun some just now
		if err := r.log.Scan(ctx, subjectPrefix+id+".*", 0, func(e journal.Entry) error {
			keys[strings.TrimPrefix(e.Subject, subjectPrefix)] = true
			return nil
		}); err != nil {
			return fmt.Errorf("look up the runs of session %s: %w", id, err)
		}
	}
	var all []*entity
	for key := range keys {
		all = append(all, r.journal.At(key))
	}
	return r.endAll(ctx, id, all...)
}

// endAll ends runs of a Session.
func (r *Runs) endAll(ctx context.Context, id string, all ...*entity) error {
	for _, x := range all {
		_, run := split(x.Key())
		r.mu.Lock()
		listed := r.all[run]
		r.mu.Unlock()
		if listed != nil {
			listed.end()
		}
	}
	for _, x := range all {
		if _, err := x.Latest(ctx); err != nil {
			return fmt.Errorf("forget the runs of session %s: %w", id, err)
		}
		if err := x.Remove(ctx, nil); err != nil {
			return fmt.Errorf("forget the runs of session %s: %w", id, err)
		}
	}
	if slices.ContainsFunc(r.list(), func(run *Run) bool { return run.session == id }) {
		return nil
	}
	// Runs of older versions have their data with the Session.
	if err := r.blobs.Purge(ctx, id); err != nil {
		return fmt.Errorf("forget the data of the runs of session %s: %w", id, err)
	}
	return nil
}

// Forget ends and forgets the runs of a principal, also those that another hub has
// begun and that were not heard of here yet.
func (r *Runs) Forget(ctx context.Context, principal string) error {
	if err := r.CatchUp(ctx); err != nil {
		return err
	}
	sessions := map[string]bool{}
	for _, run := range r.All(func(s Summary) bool { return s.Principal == principal }) {
		sessions[run.Summary().Session] = true
	}
	for name := range sessions {
		if err := r.EndSession(ctx, principal, name); err != nil {
			return err
		}
	}
	return nil
}

// CatchUp takes in what other hubs have written until now.
func (r *Runs) CatchUp(ctx context.Context) error { return r.journal.Current(ctx, time.Now()) }

// SessionEnded is EndSession that does not wait. It ends the runs that there are
// now: who uses the name of the Session next may begin some at once.
func (r *Runs) SessionEnded(principal, name string) {
	var all []*entity
	for _, run := range r.Of(principal, name) {
		all = append(all, run.x)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closing && len(all) > 0 {
		r.wg.Go(func() {
			if err := r.endAll(r.ctx, session.ID(principal, name), all...); err != nil && r.ctx.Err() == nil {
				r.o.Logger.Warn("the runs of a session that ended could not be forgotten yet", "session", obs.Short(session.ID(principal, name)), "err", err)
			}
		})
	}
}

// Quiet begins nothing more: what is not done is for the next hub. Calls that
// are under way go on.
func (r *Runs) Quiet() {
	r.mu.Lock()
	r.closing = true
	r.mu.Unlock()
	r.hush()
	for _, run := range r.list() {
		run.poke()
	}
}

// Drain is Quiet that lets calls that are under way end.
func (r *Runs) Drain(ctx context.Context) {
	r.Quiet()
	idle := make(chan struct{})
	go func() { r.wg.Wait(); close(idle) }()
	select {
	case <-idle:
	case <-ctx.Done():
	}
}

// Close ends what runs: a call that is cut off is one of which nobody knows.
func (r *Runs) Close() {
	r.Quiet()
	r.cancel()
	r.wg.Wait()
	r.journal.Close()
}

// Closing says whether the hub is stopping.
func (r *Runs) Closing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closing
}
