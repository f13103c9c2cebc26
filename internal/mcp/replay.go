package mcp

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Resuming, which 2025-11-25 has and no other version: the events of an answer
// carry numbers, and a client that lost the connection asks for what follows
// the last one it got.
const (
	resumeVersion = "2025-11-25"
	resumeAfter   = "1000"          // how long, in ms, we tell a client to wait
	resumeGrace   = 5 * time.Second // how long a call waits for its client to come back
	resumeKeep    = time.Minute     // how long an answer is kept
	replayBytes   = 1 << 20         // of the events kept for one answer
	replayStreams = 16              // answers kept for one session
	earlyStream   = time.Second     // when a slow answer becomes a stream that can be resumed
)

// replay keeps the events of one answer.
type replay struct {
	number int

	mu        sync.Mutex
	first     int // the number of events[0]
	events    [][]byte
	size      int
	done      bool
	ended     time.Time
	changed   chan struct{} // closed when something was added
	followers int
	left      time.Time // when the last of them went
}

// add numbers an event and keeps it. It returns it with its number.
func (r *replay) add(event []byte, last bool) []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := strconv.Itoa(r.number) + "-" + strconv.Itoa(r.first+len(r.events))
	framed := append(append(append([]byte("id: "), id...), '\n'), event...)
	r.events = append(r.events, framed)
	for r.size += len(framed); r.size > replayBytes && len(r.events) > 1; r.first++ {
		r.size -= len(r.events[0])
		r.events = r.events[1:]
	}
	if last {
		r.done, r.ended = true, time.Now()
	}
	r.tell()
	return framed
}

// close says that no more events come.
func (r *replay) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done, r.ended = true, time.Now()
	r.tell()
}

// tell wakes those that follow. Called with mu held.
func (r *replay) tell() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// after returns the events that follow number n, whether they are the last,
// and what tells of more.
func (r *replay) after(n int) (events [][]byte, next int, done bool, more <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	from := max(n+1-r.first, 0)
	if from < len(r.events) {
		events = slices.Clone(r.events[from:])
	}
	return events, r.first + len(r.events) - 1, r.done, r.changed
}

func (r *replay) follow(delta int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.followers += delta
	r.left = time.Now()
}

// alone is for how long nobody has followed, at most since.
func (r *replay) alone(since time.Duration) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.followers > 0 {
		return 0
	}
	return min(since, time.Since(r.left))
}

// replays are those of one session.
type replays struct {
	mu   sync.Mutex
	next int
	all  []*replay
}

func (t *replays) open() *replay {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next++
	r := &replay{number: t.next, changed: make(chan struct{})}
	t.all = slices.DeleteFunc(t.all, func(old *replay) bool {
		old.mu.Lock()
		defer old.mu.Unlock()
		return old.done && time.Since(old.ended) > resumeKeep
	})
	if len(t.all) >= replayStreams {
		t.all = slices.Delete(t.all, 0, 1)
	}
	t.all = append(t.all, r)
	return r
}

// find returns what a Last-Event-ID names.
func (t *replays) find(lastID string) (r *replay, n int) {
	stream, event, ok := strings.Cut(lastID, "-")
	number, err1 := strconv.Atoi(stream)
	n, err2 := strconv.Atoi(event)
	if !ok || err1 != nil || err2 != nil {
		return nil, 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.all {
		if r.number == number {
			return r, n
		}
	}
	return nil, 0
}

// resume writes what follows event n of an answer, to its end.
func (e *Endpoint) resume(ctx context.Context, w http.ResponseWriter, s *session, r *replay, n int) {
	r.follow(1)
	defer r.follow(-1)
	startEvents(w)
	quiet := time.NewTicker(e.opts.KeepAlive)
	defer quiet.Stop()
	for {
		events, next, done, more := r.after(n)
		n = next
		for _, ev := range events {
			if _, err := w.Write(ev); err != nil {
				return
			}
		}
		flush(w)
		if done {
			return
		}
		select {
		case <-more:
		case <-quiet.C:
			if _, err := w.Write([]byte(": keep-alive\n\n")); err != nil {
				return
			}
		case <-s.over:
			return
		case <-e.closing:
			return
		case <-ctx.Done():
			return
		}
	}
}

// outlive gives a call a context that survives its connection while the
// answer can be resumed. Without that, the client's going ends the call.
func (x *exchange) outlive(s *session) (context.Context, context.CancelCauseFunc, *httpStream) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(x.r.Context()))
	st := x.stream(ctx, false, s)
	st.resumable = st.sse
	left := context.AfterFunc(x.r.Context(), func() {
		if !st.detach() {
			cancel(errClientGone)
			return
		}
		r, began, wait := st.kept(), time.Now(), resumeGrace
		for wait > 0 {
			timer := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-timer.C:
			}
			wait = resumeGrace - r.alone(time.Since(began))
		}
		cancel(errClientGone)
	})
	return ctx, func(cause error) {
		left()
		cancel(cause)
	}, st
}
