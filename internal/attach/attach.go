// Package attach owns the thin stdio client: it finds the hub of a data folder
// or launches one, attaches to it over WebSocket, and pumps messages between
// the hub and whoever sits at stdin and stdout.
//
// It promises that the client's messages reach the hub byte for byte, that
// stdout carries one message per line and nothing else, and that a request is
// answered exactly once or, if the client cancelled it, at most once. A hub
// that dies, restarts or is upgraded is attached to again: what the client has
// told the hub of itself (initialize, log level, subscriptions) is told again,
// requests that may be repeated are, and a call of which nobody can know
// whether it took effect is answered by an error that says so. What waits in
// either direction is bounded, and beyond the bound nothing more is read.
//
// Clients that start at once launch one hub. Which hub is the right one is
// decided by the caller's Find. The package interprets no more of a message
// than it needs for that; it keeps no state beyond the process.
package attach

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"
)

// Target is a hub that answers.
type Target struct {
	URL    *url.URL    // of the socket, ws or wss
	Header http.Header // of the handshake
	TLS    *tls.Config // nil: the usual rules
	// Settle waits until the servers behind a hub that has just started have
	// been reached, or ctx ends; nil means that there is nothing to wait for.
	Settle func(ctx context.Context)
}

// Options say where the hub is and what bounds the pump.
type Options struct {
	// Find returns the hub, or nil if none runs. An error means that this
	// cannot be told now.
	Find func(ctx context.Context) (*Target, error)
	// Folder is the data folder, where clients of one hub know of each other;
	// empty for a hub that is elsewhere.
	Folder string
	// Launch says how a hub is started where none runs; nil means never.
	Launch *Launch

	MessageBytes int           // largest message of the client; 0 means 10 MiB
	Depth        int           // deepest nesting of one; 0 means what wire allows
	Grace        time.Duration // for running requests after stdin has ended; 0 means 30 s
	Patience     time.Duration // how long requests wait for a hub that is gone; 0 means 30 s
	Logger       *slog.Logger  // nil discards
}

// ErrNoHub means that no hub runs and none may be launched.
var ErrNoHub = errors.New("no hub is running")

func (o *Options) defaults() {
	set := func(d *time.Duration) {
		if *d == 0 {
			*d = 30 * time.Second
		}
	}
	set(&o.Grace)
	set(&o.Patience)
	if o.MessageBytes == 0 {
		o.MessageBytes = 10 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Final is an error of Find that another look will hardly change.
func Final(err error) error { return &final{err} }

// Run pumps until in ends and what was asked is answered, which gives nil; or
// until ctx ends or a write to out fails. While there has been no hub at all,
// what can be answered without one is, and says why there is none; if that was
// so to the end, Run returns the reason. in must end when ctx does; a read that
// does not return is left behind.
func Run(ctx context.Context, in io.Reader, out io.Writer, opts Options) error {
	opts.defaults()
	var all *crowd
	if opts.Folder != "" {
		opts.Find = joining(&all, opts.Folder, opts.Find)
		defer func() { all.leave() }()
	}
	l := &launcher{opts: &opts}
	defer func() { l.close(all) }()
	p := newPump(opts, l)
	defer p.close()
	return p.run(ctx, in, out)
}

// joining is find by a member of the crowd of a folder. A folder that cannot be
// had keeps us from finding a hub, not from answering the client. Nobody calls it
// twice at once.
func joining(all **crowd, folder string, find func(context.Context) (*Target, error)) func(context.Context) (*Target, error) {
	return func(ctx context.Context) (_ *Target, err error) {
		if *all == nil {
			if *all, err = join(ctx, folder); err != nil {
				return nil, Final(err)
			}
		}
		return find(ctx)
	}
}

// Start launches a hub that outlives us, unless one runs, and returns when it
// answers. It attaches to nothing.
func Start(ctx context.Context, opts Options) error {
	opts.defaults()
	_, err := (&launcher{opts: &opts}).launch(ctx)
	return err
}
