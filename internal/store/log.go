package store

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/stoahub/stoa/internal/journal"
)

// LogOptions describe a log. Opening a log that is there with other bounds or
// subjects changes it; entries stay.
type LogOptions struct {
	Name       string
	Subjects   []string      // what it takes; * and > stand for one and for all further parts
	MaxBytes   int64         // the oldest entries go beyond it; 0 means no bound
	MaxAge     time.Duration // entries go when they are older; 0 means never
	PerSubject int64         // the oldest entries of a subject go beyond it; 0 means no bound
	Async      bool          // acknowledge before it is on disk: a crash may lose the last entries. Has no effect on an engine elsewhere, which can keep no replicas of such a log.
}

// Entry is one entry of a log. Its Data belongs to who gets it.
type Entry = journal.Entry

// Log is an ordered sequence of entries.
type Log struct {
	s     *Store
	name  string
	takes []string // nil where the caller cannot choose the subject
}

// Log opens a log, making it if it is not there.
func (s *Store) Log(ctx context.Context, o LogOptions) (*Log, error) {
	if err := checkName("log", o.Name); err != nil {
		return nil, err
	}
	if len(o.Subjects) == 0 {
		return nil, fmt.Errorf("log %s: it takes no subject", o.Name)
	}
	cfg := jetstream.StreamConfig{
		Name: o.Name, Subjects: o.Subjects, Storage: jetstream.FileStorage, Retention: jetstream.LimitsPolicy, Discard: jetstream.DiscardOld,
		MaxBytes: orNone(o.MaxBytes), MaxAge: o.MaxAge, MaxMsgsPerSubject: orNone(o.PerSubject), MaxMsgs: -1, MaxConsumers: -1, MaxMsgSize: -1,
		Replicas: s.o.Replicas, AllowDirect: true,
	}
	l := &Log{s: s, name: o.Name, takes: slices.Clone(o.Subjects)}
	if o.Async && s.folder != nil {
		cfg.PersistMode = jetstream.AsyncPersistMode
	}
	if s.folder == nil {
		cfg.Duplicates = rememberIDs
		if o.MaxAge > 0 {
			cfg.Duplicates = min(cfg.Duplicates, o.MaxAge)
		}
	}
	if err := s.stream(ctx, cfg); err != nil {
		return nil, err
	}
	return l, nil
}

// rememberIDs is how long an engine elsewhere knows the ids of messages, for
// those that we send again; it costs memory there.
const rememberIDs = 30 * time.Second

func orNone(n int64) int64 {
	if n <= 0 {
		return -1
	}
	return n
}

// stream makes the stream, or changes it where it differs.
func (s *Store) stream(outer context.Context, cfg jetstream.StreamConfig) error {
	ctx, cancel := s.writing(outer)
	defer cancel()
	js := s.engine.Load().js
	have, err := s.find(ctx, cfg.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = js.CreateStream(ctx, cfg)
		if err == nil {
			s.streams.Store(cfg.Name, cfg.Replicas)
			return nil
		}
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return s.failed(outer, "make "+cfg.Name, err, false)
		}
		have, err = s.find(ctx, cfg.Name) // another hub was quicker, and says something else of it
	}
	if err != nil {
		return s.failed(outer, "open "+cfg.Name, err, false)
	}
	info := have.CachedInfo()
	if lost := info.State.Lost; lost != nil && len(lost.Msgs) > 0 {
		s.log.Error("the engine lost entries", "log", cfg.Name, "entries", len(lost.Msgs), "first", lost.Msgs[0])
	}
	s.fit(&info.Config, &cfg)
	s.streams.Store(cfg.Name, cfg.Replicas)
	if s.o.Keep || same(info.Config, cfg) {
		return nil
	}
	if _, err := js.UpdateStream(ctx, cfg); err != nil {
		return s.failed(outer, "change "+cfg.Name, err, false)
	}
	if cfg.Replicas > info.Config.Replicas {
		s.log.Info("more servers of the cluster keep a log from now on", "log", cfg.Name, "replicas", cfg.Replicas, "before", info.Config.Replicas)
	}
	return nil
}

// find asks for a stream, an engine elsewhere again if it is silent: nobody
// answers for a stream that has just lost its leader.
func (s *Store) find(ctx context.Context, name string) (jetstream.Stream, error) {
	for {
		st, err := s.findOnce(ctx, name)
		if err != nil && ctx.Err() == nil && (s.again(ctx, err) || s.busy(ctx, err) || s.folder == nil && silent(err)) {
			continue
		}
		return st, err
	}
}

func (s *Store) findOnce(ctx context.Context, name string) (jetstream.Stream, error) {
	if s.folder == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	return s.engine.Load().js.Stream(ctx, name)
}

func same(have, want jetstream.StreamConfig) bool {
	return slices.Equal(have.Subjects, want.Subjects) && have.MaxBytes == want.MaxBytes && have.MaxAge == want.MaxAge &&
		have.MaxMsgsPerSubject == want.MaxMsgsPerSubject && have.Replicas == want.Replicas &&
		have.Retention == want.Retention && have.AllowDirect == want.AllowDirect
}

// Name is the log's.
func (l *Log) Name() string { return l.name }

const (
	headerExpect = "Nats-Expected-Last-Subject-Sequence"
	headerID     = "Nats-Msg-Id"
	headerBound  = "Stoa"
)

// Append appends an entry if the last sequence of its subject is expect, 0
// meaning that there is none. Else it returns a *Conflict.
func (l *Log) Append(ctx context.Context, subject string, data []byte, expect uint64) (uint64, error) {
	m := nats.NewMsg(subject)
	m.Data = data
	return l.expecting(ctx, m, expect)
}

// expecting appends a message if the last sequence of its subject is expect.
func (l *Log) expecting(ctx context.Context, m *nats.Msg, expect uint64) (uint64, error) {
	m.Header.Set(headerExpect, strconv.FormatUint(expect, 10))
	deadline := time.Now().Add(l.s.o.Timeout)
	unsure := false
	for {
		seq, err := l.publish(ctx, m)
		api, ok := errors.AsType[*apiError](err)
		if !ok || !api.conflict() {
			return seq, err
		}
		c, err := l.conflict(ctx, m.Subject, expect, api)
		if err != nil {
			return 0, err
		}
		unsure = unsure || api.unsure
		c.Unsure = unsure
		// A cluster refuses while another append is being decided, and that one may fail.
		if c.Last != expect {
			return 0, c
		}
		if time.Now().After(deadline) {
			return 0, unable("append to "+m.Subject+": another append is still being decided", api)
		}
		if err := wait(ctx, l.s.ctx, time.Millisecond); err != nil {
			return 0, fmt.Errorf("append to %s: %w", m.Subject, err)
		}
	}
}

// AppendAny appends an entry whatever came before it.
func (l *Log) AppendAny(ctx context.Context, subject string, data []byte) (uint64, error) {
	return l.publish(ctx, &nats.Msg{Subject: subject, Data: data})
}

func (l *Log) publish(ctx context.Context, m *nats.Msg) (uint64, error) {
	if len(m.Data) > MaxEntry {
		return 0, tooLarge("append to "+m.Subject, len(m.Data))
	}
	if l.takes != nil && !taken(l.takes, m.Subject) {
		return 0, fmt.Errorf("append to %s: log %s takes %s only", m.Subject, l.name, strings.Join(l.takes, ", "))
	}
	ack, err := l.s.publish(ctx, m)
	if err != nil {
		return 0, err
	}
	if ack.Stream != l.name {
		return 0, fmt.Errorf("append to %s: it went to log %s, not to %s: the subject is not one of this log's", m.Subject, ack.Stream, l.name)
	}
	return ack.Seq, nil
}

// taken says whether one of the patterns matches a subject. What nothing
// matches would stay unanswered, as if the engine were away.
func taken(patterns []string, subject string) bool {
	parts := strings.Split(subject, ".")
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		want := strings.Split(pattern, ".")
		for i, w := range want {
			switch {
			case w == ">":
				return len(parts) > i
			case i >= len(parts) || w != "*" && w != parts[i]:
				return false
			}
		}
		return len(want) == len(parts)
	})
}

type pubAck struct {
	Stream    string    `json:"stream"`
	Seq       uint64    `json:"seq"`
	Duplicate bool      `json:"duplicate"`
	Error     *apiError `json:"error"`
}

// patience is how long the answer to one message of several attempts is waited
// for: longer than a cluster takes to store it, shorter than it needs to find a
// new leader.
const patience = time.Second

// publish sends a message and waits until it is stored. An engine elsewhere
// may change its leader meanwhile: then the message is sent again, with an id
// by which the engine knows what it has already.
func (s *Store) publish(outer context.Context, m *nats.Msg) (*pubAck, error) {
	ctx, cancel := s.writing(outer)
	defer cancel()
	op := "append to " + m.Subject
	resend := s.folder == nil
	if !resend && len(m.Header) == 0 {
		// The engine's hash does not cover where the subject ends. With a header it
		// does: see blockReader.
		m.Header = nats.Header{headerBound: {"1"}}
	}
	if resend && m.Header.Get(headerID) == "" {
		if m.Header == nil {
			m.Header = nats.Header{}
		}
		m.Header.Set(headerID, rand.Text())
	}
	sent := false
	for {
		if ctx.Err() != nil {
			return nil, s.failed(outer, op, ctx.Err(), sent)
		}
		b, err := s.attempt(ctx, m, resend)
		if err == nil {
			ack, err := s.acknowledged(outer, op, b, sent)
			if api, ok := errors.AsType[*apiError](err); ok && api.ErrCode == codeDuplicateUnderWay && wait(ctx, s.ctx, 10*time.Millisecond) == nil {
				continue
			}
			if err != nil && resend && s.busy(ctx, err) {
				continue
			}
			if refused, ok := errors.AsType[*apiError](err); ok {
				refused.unsure = sent
			}
			return ack, err
		}
		sent = sent || !unsent(err)
		if ctx.Err() != nil || !s.again(ctx, err) && !(resend && silent(err)) {
			return nil, s.failed(outer, op, err, sent)
		}
	}
}

func (s *Store) attempt(ctx context.Context, m *nats.Msg, resend bool) ([]byte, error) {
	if resend {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	r, err := s.engine.Load().nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return nil, err
	}
	return r.Data, nil
}

// silent tells errors after which the engine may have got a message.
func silent(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrDisconnected)
}

// again waits before a request is repeated that nobody took; it says no where
// waiting does not help.
func (s *Store) again(ctx context.Context, err error) bool {
	if s.folder != nil || !errors.Is(err, nats.ErrNoResponders) && !(errors.Is(err, nats.ErrReconnectBufExceeded) && s.engine.Load().reconnecting()) {
		return false
	}
	t := time.NewTimer(50 * time.Millisecond)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-s.ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// busy waits before a request is repeated that an engine elsewhere refused for
// the moment, as it does while it finds a leader.
func (s *Store) busy(ctx context.Context, err error) bool {
	api, _ := errors.AsType[*apiError](err)
	js, _ := errors.AsType[*jetstream.APIError](err)
	refused := api != nil && api.ErrCode == codeNoQuorum || js != nil && js.ErrorCode == codeNoQuorum
	return refused && s.folder == nil && wait(ctx, s.ctx, 50*time.Millisecond) == nil
}

func (s *Store) acknowledged(outer context.Context, op string, b []byte, sent bool) (*pubAck, error) {
	var ack pubAck
	if err := json.Unmarshal(b, &ack); err != nil {
		return nil, fmt.Errorf("%s: %w: the answer is no acknowledgement: %w", op, ErrUncertain, err)
	}
	if ack.Error != nil {
		return nil, s.failed(outer, op, ack.Error, sent)
	}
	if s.State() != nil {
		s.health.look()
	}
	return &ack, nil
}

// conflict finds out what the last sequence is, which the engine does not
// always say.
func (l *Log) conflict(ctx context.Context, subject string, expect uint64, api *apiError) (*Conflict, error) {
	c := &Conflict{Subject: subject, Expected: expect}
	if _, n, ok := strings.Cut(api.Description, ": "); ok && api.ErrCode == codeWrongSequence {
		if last, err := strconv.ParseUint(n, 10, 64); err == nil {
			c.Last = last
			return c, nil
		}
	}
	e, err := l.Last(ctx, subject)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("append to %s: the last sequence is not %d; what it is cannot be read: %w", subject, expect, err)
	}
	c.Last = e.Seq
	return c, nil
}
