package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/store"
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
		if r.disk != nil {
			r.wg.Go(r.tail)
		}
		if r.o.Keep != nil {
			r.wg.Go(r.sweep)
		}
	})
}

// tail takes in what is written to journals, by whomever, until the hub stops.
// What this hub wrote itself is known by then.
func (r *Runs) tail() {
	err := r.disk.log.Tail(r.going, "", r.last+1, func(e store.Entry) error {
		r.hear(r.going, e)
		return nil
	})
	if err != nil && r.going.Err() == nil && !errors.Is(err, store.ErrClosed) {
		r.o.Logger.Error("what other hubs do with runs is not known any more", "err", err)
	}
}

// hear is heard, of which one entry must not take the hub down: the run is as it
// was, and read again when something else is heard of it.
func (r *Runs) hear(ctx context.Context, e store.Entry) {
	defer func() {
		if p := recover(); p != nil {
			_, id := split(e.Subject)
			_ = obs.Stumbled(r.o.Logger, p, "what was written of a run made the hub stumble", obs.KeyRun, id)
		}
	}()
	r.heard(ctx, e)
}

// heard takes in one entry of a journal.
func (r *Runs) heard(ctx context.Context, e store.Entry) {
	sess, id := split(e.Subject)
	r.mu.Lock()
	run := r.all[id]
	r.mu.Unlock()
	if run == nil {
		var ev Event
		if json.Unmarshal(e.Data, &ev) != nil || ev.Type != RunCreated || ev.By == r.name {
			return // of one that is forgotten here
		}
		run = r.newRun(id, sess)
		run.told = true
		r.mu.Lock()
		r.all[id] = run
		r.mu.Unlock()
		defer func() {
			r.index(run)
			r.drive(run) // as soon as its hub does not
		}()
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	if e.Seq <= run.journal.seq || run.gone {
		return
	}
	var ev Event
	if json.Unmarshal(e.Data, &ev) == nil && ev.N == run.state.N+1 && run.take(ev) == nil {
		if run.journal.seq = e.Seq; ev.Type == RunStopping {
			run.cut()
		}
		run.poke()
		return
	}
	if err := run.reread(ctx); err != nil && !errors.Is(err, errGone) && ctx.Err() == nil {
		r.o.Logger.Warn("what another hub wrote of a run cannot be read", "run", id, "err", err)
	}
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
	left, gone := map[string]int{}, map[string]int{}
	for _, run := range r.list() {
		id := run.journal.session
		left[id]++
		if rest := run.rested(); kept[id] || rest.IsZero() || now.Sub(rest) < keep {
			continue
		}
		r.forget(ctx, run)
		gone[id]++
	}
	for id, n := range gone {
		if n == left[id] {
			r.purge(ctx, id)
		}
	}
}

// rested is since when nothing happens to a run: it is over, or paused.
func (r *Run) rested() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
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
	run.end()
	r.drop(ctx, run)
}

// end leaves a run, whatever it does.
func (r *Run) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leave()
}

// unlist takes a run out of memory that was left.
func (r *Runs) unlist(run *Run) {
	c := &run.state.Created // it changes no more
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, run.id)
	if k := keyOf(c.Owner, c.Key); r.keys[k] == run {
		delete(r.keys, k)
	}
}

// drop takes a run out that was left.
func (r *Runs) drop(ctx context.Context, run *Run) {
	r.unlist(run)
	if r.disk != nil {
		if err := r.disk.log.Purge(ctx, run.journal.subject); err != nil {
			r.o.Logger.Warn("forget a run", "run", run.id, "err", err)
		}
	}
}

func (r *Runs) purge(ctx context.Context, sess string) {
	if r.disk == nil {
		return
	}
	if err := r.disk.blobs.Purge(ctx, sess); err != nil {
		r.o.Logger.Warn("forget the data of runs", "session", obs.Short(sess), "err", err)
	}
}

// EndSession ends and forgets the runs of a Session that has ended. They stay
// listed until their journals are gone: what could not be removed can be tried
// again.
func (r *Runs) EndSession(ctx context.Context, principal, name string) error {
	id := session.ID(principal, name)
	return r.endAll(ctx, r.Of(principal, name), id, subjectOf(id, ">"))
}

// endAll ends runs of a Session, whose journals are those of the subjects.
func (r *Runs) endAll(ctx context.Context, runs []*Run, id string, subjects ...string) error {
	for _, run := range runs {
		run.end()
	}
	if r.disk != nil {
		for _, s := range subjects {
			if err := r.disk.log.Purge(ctx, s); err != nil {
				return fmt.Errorf("forget the runs of session %s: %w", id, err)
			}
		}
		if err := r.disk.blobs.Purge(ctx, id); err != nil {
			return fmt.Errorf("forget the data of the runs of session %s: %w", id, err)
		}
	}
	for _, run := range runs {
		r.unlist(run)
	}
	return nil
}

// Forget ends and forgets the runs of a principal.
func (r *Runs) Forget(ctx context.Context, principal string) error {
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

// SessionEnded is EndSession that does not wait. It ends the runs that there are
// now: who uses the name of the Session next may begin some at once.
func (r *Runs) SessionEnded(principal, name string) {
	runs := r.Of(principal, name)
	subjects := make([]string, len(runs))
	for i, run := range runs {
		subjects[i] = run.journal.subject
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closing && len(runs) > 0 {
		r.wg.Go(func() {
			if err := r.endAll(r.ctx, runs, session.ID(principal, name), subjects...); err != nil && r.ctx.Err() == nil {
				r.o.Logger.Warn("the runs of a session that ended could not be forgotten yet", "err", err)
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
}

// Closing says whether the hub is stopping.
func (r *Runs) Closing() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.closing
}
