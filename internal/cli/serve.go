package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/stoahub/stoa/internal/attach"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
)

type serveCmd struct {
	files
	listenFlag
	modes
	Launched bool `hidden:"" help:"A client has launched this hub and waits for it: keep what is printed short."`
	Leash    bool `hidden:"" help:"End when stdin has ended and no client is attached."`
}

func (c *serveCmd) Run(ctx context.Context, s std) error {
	defer tuned()()
	cfg, notes, err := config.Load(c.settings(&c.files))
	if err != nil {
		return err
	}
	if c.Launched {
		defer shortened(s.err)()
	}
	if c.Leash {
		var release func()
		if ctx, release, err = attach.Leashed(ctx, s.in, cfg.Data); err != nil {
			return err
		}
		defer release()
	}
	var h *hub.Hub
	h, err = openHub(s, c.modes, cfg, notes, hub.Options{Bind: true, Ready: func(addresses []string) {
		if !c.Quiet && isTerminal(s.err) {
			fmt.Fprint(s.err, banner(addresses, cfg, h.Model()))
			if open, text, hint := hub.PlainBeyond(addresses, cfg); len(open) > 0 {
				fmt.Fprintln(s.err, s.paint(s.err, red, fmt.Sprintf("  WARNING: %s (%s). %s\n", text, strings.Join(open, ", "), hint)))
			}
		}
	}})
	if err != nil {
		return fmt.Errorf("serve: %w", taken(context.WithoutCancel(ctx), cfg.Listen, err))
	}
	defer h.Close()
	defer c.follow(ctx, h)()
	defer context.AfterFunc(ctx, func() {
		if !c.Quiet && isTerminal(s.err) {
			s.note("letting running calls end; the same signal again stops at once")
		}
	})()
	if err := h.Run(ctx); err != nil {
		return fmt.Errorf("serve: %w", taken(context.WithoutCancel(ctx), cfg.Listen, err))
	}
	return nil
}

// follow keeps the hub as its config files say, until stop is called.
func (c *serveCmd) follow(ctx context.Context, h *hub.Hub) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	again := make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	var wg sync.WaitGroup
	wg.Go(func() { h.Follow(ctx, c.settings(&c.files), again) })
	return func() {
		signal.Stop(again)
		cancel()
		wg.Wait()
	}
}

// launchLog is how long the file of what a launched hub prints may get. The
// log has files of its own.
const launchLog = 8 << 20

// shortened empties a file whenever it has become too long, until stop is
// called.
func shortened(w io.Writer) (stop func()) {
	f, ok := w.(*os.File)
	if !ok {
		return func() {}
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(time.Minute)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			if st, err := f.Stat(); err == nil && st.Mode().IsRegular() && st.Size() > launchLog {
				_ = f.Truncate(0) // the next look tries again
			}
		}
	})
	return func() {
		close(done)
		wg.Wait()
	}
}

// taken says who has an address that could not be listened on.
func taken(ctx context.Context, addresses []string, err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	const hint = "Choose another address with --listen, such as --listen 127.0.0.1:0 for any that is free."
	for _, address := range addresses {
		if !strings.Contains(err.Error(), address) {
			continue
		}
		c := newClient(&url.URL{Scheme: "http", Host: dialable(address)}, "")
		who, probeErr := c.probe(ctx)
		c.close()
		if probeErr == nil {
			return failed(exitFailed, "Use that one, or stop it. "+hint, "%w: a stoa hub (version %s) runs at http://%s", err, who.Version, dialable(address))
		}
	}
	return &failure{err: err, hint: "Another program has it. " + hint, code: exitFailed}
}

// banner is what a person at a terminal needs to begin.
func banner(addresses []string, cfg *config.Config, model string) string {
	if len(addresses) == 0 {
		return ""
	}
	at := "http://" + dialable(addresses[0]) + "/mcp"
	if cfg.TLS.Cert != "" {
		at = "https" + strings.TrimPrefix(at, "http")
	}
	chat := ""
	if cfg.Chat.Enabled {
		chat = fmt.Sprintf("  stoa chat talks to the model (%s), a browser at %s.\n", model, "ws"+strings.TrimSuffix(strings.TrimPrefix(at, "http"), "/mcp")+"/ws")
	}
	return fmt.Sprintf(`
  stoa %s serves %s at %s

  For a client that takes mcp.json:

    {"mcpServers": {"stoa": {"type": "http", "url": "%s"}}}

  stoa tools lists what is offered, stoa servers how the servers do. Ctrl-C stops the hub.
%s
`, version(), plural(len(cfg.Servers), "server"), at, at, chat)
}
