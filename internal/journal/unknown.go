package journal

import (
	"errors"
	"fmt"
	"sync"
)

// Unknown is what Decode and Apply return for an event of a type that this
// release does not know: a later one has written it, which may share the log.
// The entry is kept for those who know it, goes with its entity, and nothing
// else depends on it. With it Apply returns the state that follows, and what is
// told of the event is told.
type Unknown struct {
	Type string
}

func (u *Unknown) Error() string {
	return fmt.Sprintf("%.64q is of no type that this release knows", u.Type)
}

// unknown are the types that were said to be unknown.
type unknown struct {
	mu   sync.Mutex
	said map[string]bool
}

// mostUnknown is how many of them are said one by one: they are made elsewhere.
const mostUnknown = 64

// first reports whether a type was not said yet.
func (u *unknown) first(kind string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.said[kind] || len(u.said) >= mostUnknown {
		return false
	}
	if u.said == nil {
		u.said = map[string]bool{}
	}
	u.said[kind] = true
	return true
}

// skipped tells the log of the program of an entry that does not count: each time
// of one that is wrong, and once of each type that is not known.
func (j *Journal[S, E]) skipped(key string, seq uint64, err error) {
	u, ok := errors.AsType[*Unknown](err)
	switch {
	case !ok:
		j.o.Logger.Error("an entry cannot be used and is skipped", "journal", j.kind.Subjects, "entity", key, "seq", seq, "err", err)
	case j.unknown.first(u.Type):
		j.o.Logger.Warn("entries of a type that this release does not know are kept and skipped; a later release has written them", "journal", j.kind.Subjects, "type", u.Type, "entity", key, "seq", seq)
	}
}
