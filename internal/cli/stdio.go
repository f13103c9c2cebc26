package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/stoahub/stoa/internal/attach"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/obs"
)

type stdioCmd struct {
	reach
	Session string `help:"Name of the session, to share one or to come back to it. Without it, one of this process alone." placeholder:"NAME"`
	Local   bool   `help:"Be a complete hub in this one process, which keeps nothing, instead of attaching to one."`
	Quiet   bool   `help:"Log errors only." short:"q"`
}

// lastAnswers is how long requests may run on after stdin has ended: enough
// for `echo … | stoa stdio`, and not so long that a client that left without
// a signal leaves a process behind.
const lastAnswers = 30 * time.Second

// sessionName is what a session may be called; the name becomes part of a URL.
var sessionName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)

func (c *stdioCmd) Run(ctx context.Context, s std) error {
	in, stop := s.serving(ctx)
	defer stop()
	if err := c.check(); err != nil {
		return c.hopeless(ctx, s, in, err)
	}
	cfg, notes, err := c.load(nil)
	switch {
	case err != nil:
		return c.broken(ctx, s, in, err)
	case c.Local:
		return c.local(ctx, s, in, cfg, notes)
	}
	return c.attach(ctx, s, in, &finder{reach: &c.reach, cfg: cfg})
}

// check says what is wrong with the flags.
func (c *stdioCmd) check() error {
	if c.Session != "" {
		if err := checkSession(c.Session); err != nil {
			return err
		}
	}
	if c.Hub != "" {
		if _, err := hubURL(c.Hub); err != nil {
			return err
		}
	}
	return nil
}

// hopeless serves a client although this process can never find a hub: it would
// otherwise see nothing but that its server has ended.
func (c *stdioCmd) hopeless(ctx context.Context, s std, in io.Reader, wrong error) error {
	log, err := obs.Logger(s.err, "error", config.Default().Log.Format)
	if err != nil {
		return err
	}
	told := wrong
	if f := describe(wrong); f.hint != "" {
		told = fmt.Errorf("%w. %s", wrong, f.hint)
	}
	err = attach.Run(ctx, in, s.out, attach.Options{
		Find:  func(context.Context) (*attach.Target, error) { return nil, attach.Final(told) },
		Grace: lastAnswers, Logger: obs.Component(log, "attach"),
	})
	switch {
	case ctx.Err() != nil:
		return err
	case errors.Is(err, syscall.EPIPE):
		return &failure{err: errSilent, code: exitFailed} // nobody is left to be told
	}
	return wrong
}

// broken serves a client although the config cannot be read: by a hub that runs
// nevertheless, or else by telling what is wrong until it is mended.
func (c *stdioCmd) broken(ctx context.Context, s std, in io.Reader, wrong error) error {
	cfg := config.Default()
	if cfg.Data = config.DataFolder(c.options(nil)); cfg.Data == "" {
		return c.hopeless(ctx, s, in, wrong)
	}
	return c.attach(ctx, s, in, &finder{reach: &c.reach, cfg: &cfg, wrong: wrong})
}

// local serves a hub of this process.
func (c *stdioCmd) local(ctx context.Context, s std, in io.Reader, cfg *config.Config, notes []config.Note) error {
	h, err := openHub(s, modes{c.Quiet, c.Verbose}, cfg, notes, hub.Options{Temporary: true})
	if err != nil {
		return err
	}
	defer h.Close()
	return h.ServePipe(ctx, in, s.out, c.sessionName(), lastAnswers)
}

// sessionName is the name of the session of this process. One of our own is as
// good as a password to what the session holds, and lasts as long as we do: a
// hub that comes after this one knows us by it.
func (c *stdioCmd) sessionName() string {
	return cmp.Or(c.Session, "s_"+strings.ToLower(rand.Text()))
}

// attach pumps between the client and a hub.
func (c *stdioCmd) attach(ctx context.Context, s std, in io.Reader, f *finder) error {
	cfg := f.cfg
	_, least := modes{c.Quiet, c.Verbose}.levels(cfg)
	log, err := obs.Logger(s.err, least, cfg.Log.Format)
	if err != nil {
		return err
	}
	log = obs.Component(log, "attach")
	f.log, f.said, f.session = log, map[string]bool{}, c.sessionName()
	opts := attach.Options{
		Find: f.find, MessageBytes: cfg.Limits.MessageBytes, Depth: cfg.Limits.Depth,
		Grace: lastAnswers, Patience: cfg.Attach.LaunchTimeout, Logger: log,
	}
	if c.Hub == "" {
		opts.Folder = cfg.Data
		if cfg.Attach.Launch && !c.Local {
			opts.Launch = f.launch()
		}
	}
	err = attach.Run(ctx, in, s.out, opts)
	switch {
	case f.wrong != nil && !f.found && ctx.Err() == nil:
		return f.wrong
	case err == nil || ctx.Err() != nil:
		return err
	case errors.Is(err, attach.ErrNoHub):
		return failed(exitUnreachable, "Start one with `stoa serve`, allow it to be launched with attach.launch or AIUR_AUTO_LAUNCH_SERVER=true, or use --local.",
			"stdio: no hub runs on the data folder %s, and none may be launched", cfg.Data)
	case errors.Is(err, syscall.EPIPE):
		return &failure{err: errSilent, code: exitFailed} // nobody is left to be told
	}
	if _, ok := errors.AsType[*failure](err); ok {
		return err
	}
	if c.Hub != "" {
		return failed(exitUnreachable, "", "stdio: %w", err)
	}
	return failed(exitUnreachable, "Run `stoa serve` with the same flags to see what is wrong, or use --local.", "stdio: %w", err)
}

// finder finds the hub to attach to.
type finder struct {
	*reach
	cfg     *config.Config
	session string
	log     *slog.Logger
	said    map[string]bool // what has been warned of
	wrong   error           // why the config could not be read; nil: cfg is what it says
	found   bool            // there was a hub
}
