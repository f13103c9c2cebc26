package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Read returns the entry with a sequence.
func (l *Log) Read(ctx context.Context, seq uint64) (Entry, error) {
	op := fmt.Sprintf("read %d of log %s", seq, l.name)
	if seq == 0 {
		return Entry{}, fmt.Errorf("%s: %w: sequences begin at 1", op, ErrNotFound)
	}
	e, err := l.get(ctx, op, getRequest{Seq: seq})
	if errors.Is(err, ErrNotFound) && l.s.folder != nil && l.s.folder.lost(l.name, seq) {
		return Entry{}, fmt.Errorf("%s: %w", op, ErrLost)
	}
	return e, err
}

// Last returns the last entry of a subject, or of all subjects that match a
// filter.
func (l *Log) Last(ctx context.Context, filter string) (Entry, error) {
	return l.get(ctx, fmt.Sprintf("read the last %s of log %s", filter, l.name), getRequest{Last: filter})
}

type getRequest struct {
	Seq      uint64 `json:"seq,omitempty"`
	Last     string `json:"last_by_subj,omitempty"`
	Next     string `json:"next_by_subj,omitempty"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

// get asks for one entry: a single copy directly, of replicas the leader,
// since another may not have heard yet of what we appended.
func (l *Log) get(outer context.Context, op string, r getRequest) (Entry, error) {
	ctx, cancel := l.s.reading(outer)
	defer cancel()
	b, err := json.Marshal(r)
	if err != nil {
		return Entry{}, err
	}
	direct := l.s.o.Replicas == 1
	subject := "$JS.API.STREAM.MSG.GET." + l.name
	if direct {
		subject = "$JS.API.DIRECT.GET." + l.name
	}
	for {
		m, err := l.s.engine.Load().nc.RequestWithContext(ctx, subject, b)
		if err != nil {
			if unsent(err) && l.s.again(ctx, err) {
				continue
			}
			return Entry{}, l.s.failed(outer, op, err, false)
		}
		var e Entry
		if direct {
			e, err = directEntry(m)
		} else {
			e, err = leaderEntry(m)
		}
		if errors.Is(err, ErrNotFound) {
			return Entry{}, fmt.Errorf("%s: %w", op, ErrNotFound)
		}
		if err != nil {
			return Entry{}, l.s.failed(outer, op, err, false)
		}
		return e, nil
	}
}

// directEntry reads an entry as it is sent without JSON around it.
func directEntry(m *nats.Msg) (Entry, error) {
	switch status := m.Header.Get("Status"); status {
	case "":
	case "404":
		return Entry{}, ErrNotFound
	default:
		code, _ := strconv.Atoi(status) // whatever it is, it is told
		return Entry{}, &apiError{Code: code, Description: m.Header.Get("Description")}
	}
	seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return Entry{}, fmt.Errorf("the engine's answer has no sequence: %w", err)
	}
	t, err := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	if err != nil {
		return Entry{}, fmt.Errorf("the engine's answer has no time: %w", err)
	}
	return Entry{Seq: seq, Subject: m.Header.Get("Nats-Subject"), Time: t, Data: m.Data}, nil
}

func leaderEntry(m *nats.Msg) (Entry, error) {
	var r struct {
		Error   *apiError `json:"error"`
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return Entry{}, fmt.Errorf("the engine's answer: %w", err)
	}
	if r.Error != nil {
		if r.Error.ErrCode == codeNoMessage {
			return Entry{}, ErrNotFound
		}
		return Entry{}, r.Error
	}
	return Entry{Seq: r.Message.Seq, Subject: r.Message.Subject, Time: r.Message.Time, Data: r.Message.Data}, nil
}

// Purge removes the entries of a subject or of all that match a filter; "" and
// ">" mean all.
func (l *Log) Purge(ctx context.Context, filter string) error {
	return l.purge(ctx, filter)
}

// PurgeKeep removes the oldest entries that match filter and keeps the newest.
func (l *Log) PurgeKeep(ctx context.Context, filter string, keep uint64) error {
	return l.purge(ctx, filter, jetstream.WithPurgeKeep(keep))
}

// PurgeBefore removes the entries that match filter and come before seq.
func (l *Log) PurgeBefore(ctx context.Context, filter string, seq uint64) error {
	return l.purge(ctx, filter, jetstream.WithPurgeSequence(seq))
}

func (l *Log) purge(outer context.Context, filter string, opts ...jetstream.StreamPurgeOpt) error {
	ctx, cancel := l.s.writing(outer)
	defer cancel()
	if filter != "" {
		opts = append(opts, jetstream.WithPurgeSubject(filter))
	}
	st, err := l.s.engine.Load().js.Stream(ctx, l.name)
	if err == nil {
		err = st.Purge(ctx, opts...)
	}
	if err != nil {
		return l.s.failed(outer, fmt.Sprintf("purge %s of log %s", filter, l.name), err, true)
	}
	return nil
}

// Delete removes one entry. It is ErrNotFound if there is none.
func (l *Log) Delete(outer context.Context, seq uint64) error {
	ctx, cancel := l.s.writing(outer)
	defer cancel()
	op := fmt.Sprintf("delete %d of log %s", seq, l.name)
	st, err := l.s.engine.Load().js.Stream(ctx, l.name)
	if err == nil {
		err = st.DeleteMsg(ctx, seq)
	}
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && (api.ErrorCode == codeNoMessage || api.ErrorCode == 10043) {
		return fmt.Errorf("%s: %w", op, ErrNotFound)
	}
	if err != nil {
		return l.s.failed(outer, op, err, true)
	}
	return nil
}

// Usage is how much a log holds.
type Usage struct {
	Entries     uint64
	Bytes       uint64
	First, Last uint64 // sequences
	Subjects    uint64
}

// Usage asks how much the log holds.
func (l *Log) Usage(outer context.Context) (Usage, error) {
	ctx, cancel := l.s.reading(outer)
	defer cancel()
	st, err := l.s.engine.Load().js.Stream(ctx, l.name)
	if err != nil {
		return Usage{}, l.s.failed(outer, "measure log "+l.name, err, false)
	}
	i := st.CachedInfo().State
	return Usage{i.Msgs, i.Bytes, i.FirstSeq, i.LastSeq, i.NumSubjects}, nil
}
