package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/mcp"
)

type stdioCmd struct {
	files
}

// lastAnswers is how long requests may run on after stdin has ended: enough
// for `echo … | stoa stdio`, and not so long that a client that left without
// a signal leaves a process behind.
const lastAnswers = 30 * time.Second

func (c *stdioCmd) Run(ctx context.Context, s std) error {
	cfg, notes, err := c.load(nil)
	if err != nil {
		return err
	}
	// A client that has gone must not kill us before our servers are stopped:
	// with a receiver for the signal, writing fails instead.
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	h, err := openHub(s, cfg, notes, hub.Options{Temporary: true})
	if err != nil {
		return err
	}
	defer h.Close()
	// Reading stdin cannot be interrupted; what ends us closes it for us.
	in, feed := io.Pipe()
	go func() {
		_, err := io.Copy(feed, s.in)
		feed.CloseWithError(err)
	}()
	stop := context.AfterFunc(ctx, func() { in.CloseWithError(io.ErrClosedPipe) })
	defer stop()
	return mcp.ServePipe(ctx, in, s.out, auth.Local, h.Gateway(), mcp.PipeOptions{MessageBytes: cfg.Limits.MessageBytes, Depth: cfg.Limits.Depth, Grace: lastAnswers})
}
