package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// engine is a connection to JetStream and, if it is embedded, its server. It
// is replaced as a whole.
type engine struct {
	srv  *server.Server // nil if it is elsewhere
	nc   *nats.Conn
	js   jetstream.JetStream
	once sync.Once
	lost atomic.Int64 // unix nanoseconds of when the connection was lost last
	vain atomic.Int32 // attempts to connect that have failed since
}

// memoryBound is the engine's bound for streams in memory, of which it has
// none; without one the engine looks for the size of the machine.
const memoryBound = 64 << 20

// startEngine starts the embedded engine over a folder that has been checked.
func startEngine(ctx context.Context, f *folder, o Options, h *health) (*engine, error) {
	bound := o.MaxBytes
	if bound <= 0 {
		bound = 1 << 60 // the disk is the bound; the engine's own guess is 3/4 of what is free
	}
	srv, err := server.NewServer(&server.Options{
		ServerName: "stoa", DontListen: true, NoSigs: true, DisableJetStreamBanner: true,
		JetStream: true, StoreDir: f.dir, SyncAlways: true,
		JetStreamMaxMemory: memoryBound, JetStreamMaxStore: bound,
	})
	if err != nil {
		return nil, fmt.Errorf("prepare the engine: %w", err)
	}
	lines := &lines{log: o.Logger, health: h}
	srv.SetLoggerV2(lines, o.Logger.Enabled(ctx, slog.LevelDebug), false, false)
	srv.Start()
	stop := func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	}
	if why := lines.fatal(); why != "" || !srv.ReadyForConnections(o.Timeout) || !srv.JetStreamEnabled() {
		stop()
		return nil, fmt.Errorf("start the engine in %s: %s", f.dir, orElse(why, "it was not ready in time"))
	}
	nc, err := nats.Connect("", nats.InProcessServer(srv), nats.Name("stoa"),
		nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.ReconnectBufSize(-1))
	if err != nil {
		stop()
		return nil, fmt.Errorf("connect to the engine in %s: %w", f.dir, err)
	}
	e := &engine{}
	return e, e.use(srv, nc)
}

// dialEngine connects to an engine elsewhere.
func dialEngine(ctx context.Context, o Options, h *health) (*engine, error) {
	e := &engine{}
	opts := []nats.Option{
		nats.Name("stoa"), nats.Timeout(o.Timeout), nats.MaxReconnects(-1), nats.ReconnectBufSize(-1),
		nats.ReconnectWait(100 * time.Millisecond), nats.ReconnectJitter(100*time.Millisecond, 100*time.Millisecond),
		nats.PingInterval(10 * time.Second), nats.MaxPingsOutstanding(2),
		nats.DisconnectErrHandler(func(nc *nats.Conn, err error) {
			if !nc.IsClosed() {
				e.lost.Store(time.Now().UnixNano())
				e.vain.Store(0)
				h.set(unable("the connection to "+o.where()+" is lost", err), false)
			}
		}),
		nats.ReconnectErrHandler(func(*nats.Conn, error) { e.vain.Add(1) }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			o.Logger.Debug("store connection", "err", err)
		}),
	}
	if o.Credentials != "" {
		opts = append(opts, nats.UserCredentials(o.Credentials))
	}
	if o.TLS != nil {
		opts = append(opts, nats.Secure(o.TLS))
	}
	nc, err := nats.Connect(o.URL, opts...)
	if err != nil {
		return nil, unable("cannot connect to "+o.where(), err)
	}
	if err := e.use(nil, nc); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	if err := e.answers(ctx); err != nil {
		e.close()
		if errors.Is(err, jetstream.ErrJetStreamNotEnabled) || errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
			return nil, fmt.Errorf("%s has no JetStream for us: enable it for the server and the account (%w)", o.where(), err)
		}
		return nil, unable(o.where()+" does not answer for its JetStream", err)
	}
	if have, need := nc.MaxPayload(), int64(MaxEntry+headerRoom); have < need {
		e.close()
		return nil, fmt.Errorf("%s takes messages of %d bytes, we need %d: raise its max_payload", o.where(), have, need)
	}
	return e, nil
}

// answers asks whether the engine has JetStream for us, again if it is silent:
// nobody answers for a cluster that has just lost its leader.
func (e *engine) answers(outer context.Context) error {
	for {
		ctx, cancel := context.WithTimeout(outer, patience)
		_, err := e.js.AccountInfo(ctx)
		cancel()
		if err == nil || outer.Err() != nil || !silent(err) {
			return err
		}
	}
}

// headerRoom is what the headers of a message may take beside its entry.
const headerRoom = 16 << 10

// where names the engine without the passwords that a URL may have.
func (o *Options) where() string {
	if o.URL == "" {
		return o.Dir
	}
	var hosts []string
	for u := range strings.SplitSeq(o.URL, ",") {
		scheme, rest, ok := strings.Cut(strings.TrimSpace(u), "://")
		if !ok {
			scheme, rest = "nats", scheme
		}
		hosts = append(hosts, scheme+"://"+rest[strings.LastIndex(rest, "@")+1:])
	}
	return strings.Join(hosts, ",")
}

// use makes the engine one that is reached over a connection.
func (e *engine) use(srv *server.Server, nc *nats.Conn) (err error) {
	e.srv, e.nc = srv, nc
	if e.js, err = jetstream.New(nc); err != nil {
		e.close()
		return fmt.Errorf("use JetStream: %w", err)
	}
	return nil
}

// reconnecting reports whether the connection was lost just now, or the servers
// have not all been tried since: where one of several died another is found in a
// moment, and a moment is longer on a busy machine.
func (e *engine) reconnecting() bool {
	return time.Since(time.Unix(0, e.lost.Load())) < patience || int(e.vain.Load()) <= len(e.nc.Servers())
}

// close ends the client before the server: a client that outlives its server
// would look for it.
func (e *engine) close() {
	e.once.Do(func() {
		e.nc.Close()
		if e.srv != nil {
			e.srv.Shutdown()
			e.srv.WaitForShutdown()
		}
	})
}

// lines takes the embedded server's log. It has no other way to say that it
// cannot write: it leaves the writer unanswered.
type lines struct {
	log    *slog.Logger
	health *health

	mu  sync.Mutex
	why string
}

func (l *lines) fatal() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.why
}

func (l *lines) say(level slog.Level, format string, v []any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, "engine", "line", strings.TrimSpace(fmt.Sprintf(format, v...)))
	}
}

// levelTrace is below debug: what the engine says of itself is of use only to
// those who look into the engine.
const levelTrace = slog.Level(-8)

func (l *lines) Noticef(format string, v ...any) { l.say(levelTrace, format, v) }
func (l *lines) Debugf(format string, v ...any)  { l.say(levelTrace, format, v) }
func (l *lines) Tracef(format string, v ...any)  { l.say(levelTrace, format, v) }

func (l *lines) Warnf(format string, v ...any) {
	l.say(levelTrace, format, v)
	l.judge(fmt.Sprintf(format, v...))
}

func (l *lines) Errorf(format string, v ...any) {
	l.say(levelTrace, format, v)
	l.judge(fmt.Sprintf(format, v...))
}

func (l *lines) Fatalf(format string, v ...any) {
	text := strings.TrimSpace(fmt.Sprintf(format, v...))
	l.mu.Lock()
	if l.why == "" {
		l.why = text
	}
	l.mu.Unlock()
	l.log.Error("the store's engine gives up", "line", text)
	l.health.set(unable("the engine gave up", errors.New(text)), true)
}

// The engine's words for a write that it could not do and will not answer, and
// ours.
var failures = []struct{ theirs, ours string }{
	{"no space left", "the disk is full"},
	{"disk quota exceeded", "the disk is full: the quota is used up"},
	{"out of resources", "the disk is full"},
	{"read-only file system", "the disk is read-only"},
	{"permission denied", "the files may not be written any more"},
	{"file too large", "the files may not grow any more"},
	{"input/output error", "the disk fails"},
	{"critical write error", "the engine cannot write"},
	{"failed to store a msg", "the engine cannot write"},
}

func (l *lines) judge(text string) {
	low := strings.ToLower(text)
	for _, f := range failures {
		if strings.Contains(low, f.theirs) {
			l.health.set(unable(f.ours, errors.New(strings.TrimSpace(text))), true)
			return
		}
	}
}

func orElse(s, other string) string {
	if s != "" {
		return s
	}
	return other
}

var _ server.Logger = (*lines)(nil)
