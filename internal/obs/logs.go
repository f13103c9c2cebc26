package obs

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
)

// LogOptions say what is logged, and where to.
type LogOptions struct {
	Level   string    // of the ring and the files; "" means info
	Console io.Writer // for people; nil means none
	Least   string    // of the console; "" means Level
	Format  string    // of the console: auto, text or json; "" means auto
	// Handler takes the place of the console, and decides its levels itself.
	Handler slog.Handler
	Ring    int // records kept in memory; 0 means 2,000
}

// Logs is the log of one hub: a console, the last records in memory, and, once
// Open was called, files. Everything may be used concurrently.
type Logs struct {
	ring   *Ring
	logger *slog.Logger
	hide   hidden
	turned atomic.Pointer[turn] // to be told by whoever logged last
	tap    atomic.Pointer[func(Trouble)]

	mu    sync.Mutex
	file  *file // nil: none
	began bool  // a file has had what the ring held
}

// NewLogs returns a log without files.
func NewLogs(o LogOptions) (*Logs, error) {
	least, err := orInfo(o.Level)
	if err != nil {
		return nil, err
	}
	l := &Logs{ring: NewRing(o.Ring)}
	t := tee{logs: l, console: o.Handler, lines: jsonHandler(lines{l}, least, &l.hide)}
	if t.console == nil && o.Console != nil {
		if o.Least == "" {
			o.Least = o.Level
		}
		if t.console, err = console(o.Console, o.Least, o.Format, &l.hide); err != nil {
			return nil, err
		}
	}
	if t.console == nil {
		t.console = slog.DiscardHandler
	}
	l.logger = slog.New(t)
	return l, nil
}

// Logger is what to log with.
func (l *Logs) Logger() *slog.Logger { return l.logger }

// Hide takes texts out of everything that is logged from now on, errors
// included; those shorter than 8 bytes are left. A Handler of the options is on
// its own in this.
func (l *Logs) Hide(values []string) { l.hide.Set(values) }

// Open begins to write files, with what was logged before. It does not fail: a
// folder that cannot be written to is told of as an error, and tried again.
func (l *Logs) Open(o Files) {
	f := newFile(o)
	l.mu.Lock()
	if l.file != nil || l.began {
		l.mu.Unlock()
		return
	}
	l.file, l.began = f, true
	for _, line := range l.ring.all() {
		if t := f.write(append(line[:len(line):len(line)], '\n')); t != nil {
			l.turned.Store(t)
		}
	}
	l.mu.Unlock()
	l.tell()
}

// Close ends the files; what is logged afterwards goes to the console and the
// ring only.
func (l *Logs) Close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		l.file.close()
		l.file = nil
	}
}

// Dir is the folder of the files, or "" if there are none.
func (l *Logs) Dir() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return ""
	}
	return l.file.o.Dir
}

// Trouble is why nothing is written to the files although it should be, or nil.
func (l *Logs) Trouble() error {
	l.mu.Lock()
	f := l.file
	l.mu.Unlock()
	if f == nil {
		return nil
	}
	return f.trouble()
}

// Read returns the records that q wants, the newest first: those in memory,
// then those before them in the files. Their lines must not be changed.
func (l *Logs) Read(q Query) []Record {
	out := l.ring.Read(q)
	dir := l.Dir()
	if len(out) >= q.limit() || dir == "" {
		return out
	}
	older := q
	older.Limit = q.limit() - len(out)
	if lines := l.ring.all(); len(lines) > 0 {
		if first, err := parseRecord(lines[0]); err == nil && (older.Before.IsZero() || first.Time.Before(older.Before)) {
			older.Before = first.Time
		}
	}
	more, err := ReadFiles(dir, older)
	if err != nil {
		return out // the files are in trouble, which was told
	}
	return append(out, more...)
}

// After returns the records in memory that q wants and that follow a number, as
// Ring.After does.
func (l *Logs) After(number uint64, q Query) (out []Record, next uint64) {
	return l.ring.After(number, q)
}

// Last is the number of the newest record.
func (l *Logs) Last() uint64 { return l.ring.newest() }

// tell logs that the files began or ceased to work.
func (l *Logs) tell() {
	t := l.turned.Swap(nil)
	if t == nil {
		return
	}
	log := Component(l.logger, "log")
	if t.err == nil {
		log.Info("log files are written again", KeyAction, "write", "lost", t.lost)
		return
	}
	log.Error("log files cannot be written; the hub goes on without and tries again", KeyAction, "write", KeyErr, t.err,
		"hint", "make room, give the folder to this user, or choose another with AIUR_LOG_DIRECTORY or log.file.directory")
}

// lines takes every record as a line of JSON.
type lines struct{ logs *Logs }

func (s lines) Write(line []byte) (int, error) {
	l := s.logs
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring.add(line)
	if l.file != nil {
		if t := l.file.write(line); t != nil {
			// Not told here: our caller holds the lock of its handler.
			l.turned.Store(t)
		}
	}
	return len(line), nil
}

// tee gives each record to people and to machines.
type tee struct {
	logs           *Logs
	console, lines slog.Handler
	attrs          []slog.Attr // of the logger, for who taps it
}

func (t tee) Enabled(ctx context.Context, l slog.Level) bool {
	return t.lines.Enabled(ctx, l) || t.console.Enabled(ctx, l) || l >= slog.LevelWarn && t.logs.tap.Load() != nil
}

func (t tee) Handle(ctx context.Context, r slog.Record) error {
	var errs [2]error
	if t.console.Enabled(ctx, r.Level) {
		errs[0] = t.console.Handle(ctx, r.Clone())
	}
	if t.lines.Enabled(ctx, r.Level) {
		errs[1] = t.lines.Handle(ctx, r)
		t.logs.tell()
	}
	t.tapped(ctx, r)
	return errors.Join(errs[:]...)
}

func (t tee) WithAttrs(attrs []slog.Attr) slog.Handler {
	return tee{t.logs, t.console.WithAttrs(attrs), t.lines.WithAttrs(attrs), t.with(attrs)}
}

func (t tee) WithGroup(name string) slog.Handler {
	return tee{t.logs, t.console.WithGroup(name), t.lines.WithGroup(name), t.attrs}
}

var (
	_ slog.Handler = tee{}
	_ io.Writer    = lines{}
)
