package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Read returns the entry with a sequence.
func (l *Log) Read(ctx context.Context, seq uint64) (Entry, error) {
	op := fmt.Sprintf("read %d of log %s", seq, l.name)
	if seq == 0 {
		return Entry{}, fmt.Errorf("%s: %w: sequences begin at 1", op, ErrNotFound)
	}
	e, _, err := l.s.get(ctx, l.name, op, getRequest{Seq: seq})
	if errors.Is(err, ErrNotFound) && l.s.folder != nil && l.s.folder.lost(l.name, seq) {
		return Entry{}, fmt.Errorf("%s: %w", op, ErrLost)
	}
	return e, err
}

// Last returns the last entry of a subject, or of all subjects that match a
// filter.
func (l *Log) Last(ctx context.Context, filter string) (Entry, error) {
	e, _, err := l.s.get(ctx, l.name, fmt.Sprintf("read the last %s of log %s", filter, l.name), getRequest{Last: filter})
	return e, err
}

type getRequest struct {
	Seq      uint64 `json:"seq,omitempty"`
	Last     string `json:"last_by_subj,omitempty"`
	Next     string `json:"next_by_subj,omitempty"`
	Batch    int    `json:"batch,omitempty"`
	MaxBytes int    `json:"max_bytes,omitempty"`
}

// get asks for one entry and its headers: a single copy directly, of replicas
// the leader, since another may not have heard yet of what we appended.
func (s *Store) get(outer context.Context, stream, op string, r getRequest) (Entry, nats.Header, error) {
	ctx, cancel := s.reading(outer)
	defer cancel()
	b, err := json.Marshal(r)
	if err != nil {
		return Entry{}, nil, err
	}
	subject, read := "$JS.API.DIRECT.GET."+stream, directEntry
	if s.isReplicated(stream) {
		subject, read = "$JS.API.STREAM.MSG.GET."+stream, leaderEntry
	}
	for {
		m, err := s.ask(ctx, subject, b)
		if err != nil {
			if ctx.Err() == nil && (s.again(ctx, err) || s.folder == nil && silent(err)) {
				continue
			}
			return Entry{}, nil, s.failed(outer, op, err, false)
		}
		e, header, err := read(m)
		if errors.Is(err, ErrNotFound) {
			return Entry{}, nil, fmt.Errorf("%s: %w", op, ErrNotFound)
		}
		if err != nil && s.busy(ctx, err) {
			continue
		}
		if err != nil {
			return Entry{}, nil, s.failed(outer, op, err, false)
		}
		return e, header, nil
	}
}

// ask asks once. An engine elsewhere that is silent is asked again, since its
// leader may be another by then.
func (s *Store) ask(ctx context.Context, subject string, b []byte) (*nats.Msg, error) {
	if s.folder == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	return s.engine.Load().nc.RequestWithContext(ctx, subject, b)
}

// directEntry reads an entry as it is sent without JSON around it.
func directEntry(m *nats.Msg) (Entry, nats.Header, error) {
	switch status := m.Header.Get("Status"); status {
	case "":
	case "404":
		return Entry{}, nil, ErrNotFound
	default:
		code, _ := strconv.Atoi(status) // whatever it is, it is told
		return Entry{}, nil, &apiError{Code: code, Description: m.Header.Get("Description")}
	}
	seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return Entry{}, nil, fmt.Errorf("the engine's answer has no sequence: %w", err)
	}
	t, err := time.Parse(time.RFC3339Nano, m.Header.Get("Nats-Time-Stamp"))
	if err != nil {
		return Entry{}, nil, fmt.Errorf("the engine's answer has no time: %w", err)
	}
	return Entry{Seq: seq, Subject: m.Header.Get("Nats-Subject"), Time: t, Data: m.Data}, m.Header, nil
}

func leaderEntry(m *nats.Msg) (Entry, nats.Header, error) {
	var r struct {
		Error   *apiError `json:"error"`
		Message struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Headers []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
			Time    time.Time `json:"time"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return Entry{}, nil, fmt.Errorf("the engine's answer: %w", err)
	}
	if r.Error != nil {
		if r.Error.ErrCode == codeNoMessage {
			return Entry{}, nil, ErrNotFound
		}
		return Entry{}, nil, r.Error
	}
	var header nats.Header
	if len(r.Message.Headers) > 0 {
		var err error
		if header, err = nats.DecodeHeadersMsg(r.Message.Headers); err != nil {
			return Entry{}, nil, fmt.Errorf("the engine's answer: %w", err)
		}
	}
	return Entry{Seq: r.Message.Seq, Subject: r.Message.Subject, Time: r.Message.Time, Data: r.Message.Data}, header, nil
}

// Purge removes the entries of a subject or of all that match a filter; "" and
// ">" mean all.
func (l *Log) Purge(ctx context.Context, filter string) error {
	return l.purge(ctx, purgeRequest{Filter: filter})
}

// PurgeBefore removes the entries that match filter and come before seq.
func (l *Log) PurgeBefore(ctx context.Context, filter string, seq uint64) error {
	return l.purge(ctx, purgeRequest{Filter: filter, Seq: seq})
}

type purgeRequest struct {
	Filter string `json:"filter,omitempty"`
	Seq    uint64 `json:"seq,omitempty"`
}

func (l *Log) purge(ctx context.Context, r purgeRequest) error {
	return l.s.command(ctx, fmt.Sprintf("purge %s of log %s", r.Filter, l.name), "STREAM.PURGE."+l.name, r)
}

// Delete removes one entry. It is ErrNotFound if there is none.
func (l *Log) Delete(ctx context.Context, seq uint64) error {
	op := fmt.Sprintf("delete %d of log %s", seq, l.name)
	err := l.s.command(ctx, op, "STREAM.MSG.DELETE."+l.name, map[string]any{"seq": seq, "no_erase": true})
	api, refused := errors.AsType[*apiError](err)
	if !refused {
		return err
	}
	missing := api.ErrCode == codeNoMessage || api.ErrCode == codeNoSequence
	if api.ErrCode == codeDeleteFailed {
		_, look := l.Read(ctx, seq)
		missing = errors.Is(look, ErrNotFound)
	}
	if missing {
		return fmt.Errorf("%s: %w", op, ErrNotFound)
	}
	return err
}

// command asks the engine to change something, and to say that it did. What it
// asks for can be done twice: an engine elsewhere may change its leader.
func (s *Store) command(outer context.Context, op, subject string, request any) error {
	b, err := json.Marshal(request)
	if err != nil {
		return err
	}
	ctx, cancel := s.writing(outer)
	defer cancel()
	sent := false
	for {
		m, err := s.ask(ctx, "$JS.API."+subject, b)
		if err != nil {
			sent = sent || !unsent(err)
			if ctx.Err() == nil && (s.again(ctx, err) || s.folder == nil && silent(err)) {
				continue
			}
			return s.failed(outer, op, err, sent)
		}
		var answer struct {
			Error *apiError `json:"error"`
		}
		if err := json.Unmarshal(m.Data, &answer); err != nil {
			return fmt.Errorf("%s: the engine's answer: %w", op, err)
		}
		if answer.Error != nil && s.busy(ctx, answer.Error) {
			continue
		}
		if answer.Error != nil {
			return s.failed(outer, op, answer.Error, false)
		}
		return nil
	}
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
	st, err := l.s.find(ctx, l.name)
	if err != nil {
		return Usage{}, l.s.failed(outer, "measure log "+l.name, err, false)
	}
	i := st.CachedInfo().State
	return Usage{i.Msgs, i.Bytes, i.FirstSeq, i.LastSeq, i.NumSubjects}, nil
}
