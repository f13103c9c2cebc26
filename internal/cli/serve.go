package cli

import (
	"context"
	"io"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
)

type serveCmd struct {
	files
	Listen []string `help:"Address to listen on; may be given more than once." placeholder:"HOST:PORT"`
}

// open opens a hub by a config, and tells what the config's files say that is
// worth a look.
func open(s std, cfg *config.Config, notes []config.Note, temporary bool) (*hub.Hub, error) {
	log, err := obs.Logger(s.err, cfg.Log.Level, cfg.Log.Format)
	if err != nil {
		return nil, err
	}
	for _, n := range notes {
		log.Info("config note", "file", n.File, "line", n.Line, "text", n.Text, "hint", n.Hint)
	}
	return hub.Open(hub.Options{Config: cfg, Logger: log, Temporary: temporary})
}

func (c *serveCmd) Run(ctx context.Context, s std) error {
	cfg, notes, err := c.load(c.Listen)
	if err != nil {
		return err
	}
	h, err := open(s, cfg, notes, false)
	if err != nil {
		return err
	}
	defer h.Close()
	return h.Run(ctx)
}

type stdioCmd struct {
	files
}

func (c *stdioCmd) Run(ctx context.Context, s std) error {
	cfg, notes, err := c.load(nil)
	if err != nil {
		return err
	}
	h, err := open(s, cfg, notes, true)
	if err != nil {
		return err
	}
	defer h.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// Reading stdin cannot be interrupted; what ends us closes it for us.
	in, feed := io.Pipe()
	go func() {
		_, err := io.Copy(feed, s.in)
		feed.CloseWithError(err)
	}()
	stop := context.AfterFunc(ctx, func() { in.CloseWithError(io.ErrClosedPipe) })
	defer stop()
	return mcp.ServePipe(ctx, in, s.out, auth.Local, h.Gateway(), mcp.PipeOptions{MessageBytes: cfg.Limits.MessageBytes})
}
