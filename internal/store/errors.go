package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/journal"
)

var (
	// ErrNotFound and ErrUncertain are those of any journal.
	ErrNotFound  = journal.ErrNotFound
	ErrUncertain = journal.ErrUncertain

	// ErrLost means that the entry was there and its file is damaged.
	ErrLost = errors.New("the entry is lost: its file was damaged")
)

// Conflict means that nothing was written because the last sequence was
// another than the one expected.
type Conflict = journal.Conflict

// unable is the fault for a store that cannot do it now.
func unable(what string, err error) *fault.Error {
	return fault.New(fault.Storage, "store", "%s", what).Because(err)
}

// tooLarge is the fault for what does not fit into one message.
func tooLarge(what string, size int) error {
	e := fault.New(fault.Limit, what, "%d bytes are more than the %d of one entry", size, MaxEntry).With("limit", MaxEntry)
	e.Hint = "Store it as a blob and keep its hash."
	return e
}

// API error codes of JetStream that mean something to us.
const (
	codeWrongSequence      = 10071 // says which
	codeWrongSequenceOther = 10164 // another append is just being decided
	codeDuplicateUnderWay  = 10158 // the first of two is just being decided
	codeNoMessage          = 10037
	codeNoSequence         = 10043
	codeDeleteFailed       = 10057 // also of what is not there, at either end of the log
	codeNoQuorum           = 10008
	codeNoResources        = 10023
	codeAccountFull        = 10002
	codeStoreFailed        = 10077
)

// apiError is what JetStream says of a request it refused.
type apiError struct {
	Code        int    `json:"code"`
	ErrCode     int    `json:"err_code"`
	Description string `json:"description"`

	unsure bool // what was refused was sent before, without an answer
}

func (e *apiError) Error() string { return fmt.Sprintf("%s (%d)", e.Description, e.ErrCode) }

// conflict says whether an append was refused for what it expected.
func (e *apiError) conflict() bool {
	return e.ErrCode == codeWrongSequence || e.ErrCode == codeWrongSequenceOther
}

// transient says whether the engine may do later what it refused.
func (e *apiError) transient() bool {
	switch e.ErrCode {
	case codeNoQuorum, codeNoResources, codeAccountFull, codeStoreFailed:
		return true
	}
	return e.Code == 503
}

// failed words what went wrong with an operation. The outer context is the
// caller's: if it ended, that is the reason. sent says that a write had left
// us.
func (s *Store) failed(outer context.Context, op string, err error, sent bool) error {
	api, refused := errors.AsType[*apiError](err)
	if !refused {
		if j, ok := errors.AsType[*jetstream.APIError](err); ok {
			api, refused = &apiError{Code: j.Code, ErrCode: int(j.ErrorCode), Description: j.Description}, true
		}
	}
	state := s.State()
	switch {
	case refused && api.transient():
		if sent { // before
			err = fmt.Errorf("%w: %w", ErrUncertain, err)
		}
		f := unable(op+": the engine refused", err)
		s.doubt(f)
		return f
	case refused && sent && api.ErrCode == codeDuplicateUnderWay:
		return fmt.Errorf("%s: %w: %w", op, ErrUncertain, err)
	case refused:
		return fmt.Errorf("%s: %w", op, err)
	case s.ctx.Err() != nil:
		return fmt.Errorf("%s: %w", op, ErrClosed)
	case outer.Err() != nil:
		if sent {
			return fmt.Errorf("%s: %w: %w", op, ErrUncertain, context.Cause(outer))
		}
		return fmt.Errorf("%s: %w", op, context.Cause(outer))
	case unsent(err):
		if sent { // before
			err = fmt.Errorf("%w: %w", ErrUncertain, err)
		}
		f := unable(op+": the engine is not there", err)
		s.doubt(f)
		return f
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled), errors.Is(err, nats.ErrTimeout),
		errors.Is(err, nats.ErrConnectionClosed), errors.Is(err, nats.ErrDisconnected):
		what := "no answer came"
		if known, ok := errors.AsType[*fault.Error](state); ok {
			what, err = known.Msg, known.Err
		}
		if sent {
			err = fmt.Errorf("%w: %w", ErrUncertain, err)
		}
		f := unable(op+": "+what, err)
		s.doubt(f)
		return f
	}
	return fmt.Errorf("%s: %w", op, err)
}

// unsent tells errors after which the engine cannot have got the request.
func unsent(err error) bool {
	return errors.Is(err, nats.ErrNoResponders) || errors.Is(err, nats.ErrReconnectBufExceeded) || errors.Is(err, jetstream.ErrNoStreamResponse)
}

// doubt notes a failure that others will meet too, until the watch finds that
// it is over.
func (s *Store) doubt(f *fault.Error) {
	if s.State() == nil {
		s.health.set(f, false)
	}
}
