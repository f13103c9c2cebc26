package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/stoahub/stoa/internal/attach"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/console"
)

type consoleCmd struct {
	Open    consoleOpenCmd    `cmd:"" default:"withargs" help:"Open the console in the browser and sign in (the default)."`
	SignIns consoleSignInsCmd `cmd:"" name:"sign-ins" help:"List the browsers that are signed in."`
	SignOut consoleSignOutCmd `cmd:"" name:"sign-out" help:"Sign out a browser, or all of them."`
}

type consoleOpenCmd struct {
	files
	asJSON
	NoOpen bool `help:"Open no browser: print the address, and a code to sign in with there."`
}

// signInCode is a code to sign in with, and where.
type signInCode struct {
	URL     string    `json:"url"`
	Code    string    `json:"code"`
	ID      string    `json:"id"`
	Expires time.Time `json:"expires"`
}

const codesPath = "/api/v1/sign-ins/codes"

// Run opens the console of the hub of the data folder. The browser is
// signed in by a code that works once, within two minutes. The code reaches it
// through a file that nobody else can read: what is on the command line of a
// browser, everybody on the machine can see.
func (c *consoleOpenCmd) Run(ctx context.Context, s std) error {
	answers, data, err := c.hub(ctx, s)
	if err != nil {
		return err
	}
	defer answers.close()
	e, err := answers.newCode(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return s.json(e)
	}
	if c.NoOpen || !isTerminal(s.out) {
		return e.print(s)
	}
	file, err := e.write(data)
	if err != nil {
		s.note("the browser has to be signed in by hand: %v", err)
		return e.print(s)
	}
	defer os.Remove(file)
	if err := console.Open(ctx, (&url.URL{Scheme: "file", Path: file}).String()); err != nil {
		s.note("no browser could be opened: %v", err)
		return e.print(s)
	}
	return e.wait(ctx, s, answers)
}

// hub returns the hub of the data folder, which is started if it may be and none
// runs.
func (c *consoleOpenCmd) hub(ctx context.Context, s std) (answers *client, data string, err error) {
	if data, err = c.folder(); err != nil {
		return nil, "", err
	}
	if answers, err = (&reach{files: c.files}).running(ctx, data); answers == nil && err == nil {
		answers, err = c.start(ctx, s)
	}
	return answers, data, err
}

// start starts a hub on the data folder, if that may be.
func (c *consoleOpenCmd) start(ctx context.Context, s std) (*client, error) {
	cfg, _, err := c.load(nil)
	if err != nil {
		return nil, err
	}
	r := &reach{files: c.files}
	if !cfg.Attach.Launch {
		return nil, failed(exitUnreachable, "Start one with stoa serve.", "no hub runs on %s, and attach.launch is false", cfg.Data)
	}
	lasting := *cfg
	lasting.Attach.Independent, lasting.Attach.StopOnExit = true, false // the page is there for longer than we are
	f := &finder{reach: r, cfg: &lasting, log: slog.New(slog.DiscardHandler), said: map[string]bool{}}
	err = os.MkdirAll(cfg.Data, 0o700)
	if err == nil {
		err = attach.Start(ctx, attach.Options{Find: f.find, Folder: cfg.Data, Launch: f.launch()})
	}
	if err != nil {
		return nil, failed(exitUnreachable, "Run stoa serve with the same flags to see what is wrong.", "start a hub on %s: %w", cfg.Data, err)
	}
	s.note("no hub was running, so one was started; stoa stop ends it")
	answers, err := r.running(ctx, cfg.Data)
	if answers == nil && err == nil {
		err = failed(exitUnreachable, "Start one with stoa serve.", "the hub that was started on %s has ended", cfg.Data)
	}
	return answers, err
}

// newCode asks the hub for a code.
func (c *client) newCode(ctx context.Context) (e signInCode, err error) {
	b, err := c.ask(ctx, http.MethodPost, codesPath, nil, nil)
	if err == nil {
		err = json.Unmarshal(b, &e)
	}
	e.URL = c.base.JoinPath("/console/").String()
	return e, err
}

// print tells a person where to go and what to type there.
func (e *signInCode) print(s std) error {
	_, err := fmt.Fprintf(s.out, "%s\nsign in with the code %s, within %.0f seconds\n", e.URL, e.Code, e.left().Seconds())
	return err
}

func (e *signInCode) left() time.Duration { return max(time.Until(e.Expires), 0).Round(time.Second) }

// redirect is the page that carries a code to the console: behind #, which no
// browser sends to anybody.
const redirect = `<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<title>Stoa</title>
<meta http-equiv="refresh" content="0;url=%[1]s">
<p><a href="%[1]s">Open the console</a></p>
`

// signInFiles are those that were left by commands that were killed.
const signInFiles = "console-*.html"

// write makes the file that signs a browser in. It is private from the moment
// that it exists.
func (e *signInCode) write(folder string) (string, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	removeStale(folder)
	f, err := os.CreateTemp(folder, signInFiles) // O_EXCL and 0600
	if err != nil {
		return "", err
	}
	at := html.EscapeString(e.URL + "#code=" + url.QueryEscape(e.Code))
	_, err = fmt.Fprintf(f, redirect, at)
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// removeStale removes files whose code has expired.
func removeStale(folder string) {
	old, _ := filepath.Glob(filepath.Join(folder, signInFiles)) // the pattern is well-formed
	for _, path := range old {
		if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()) > auth.CodeLife {
			os.Remove(path)
		}
	}
}

// wait waits until the browser has used the code, which it cannot do if it may
// not read our file; then a person can still type it.
func (e *signInCode) wait(ctx context.Context, s std, c *client) error {
	if _, err := fmt.Fprintf(s.out, "opened %s\n", e.URL); err != nil {
		return err
	}
	s.note("if the page asks for a code, or the browser cannot read the file that was opened, go to %s and type %s (within %.0f seconds)", e.URL, e.Code, e.left().Seconds())
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for time.Now().Before(e.Expires) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		var now auth.Code
		b, err := c.ask(ctx, http.MethodGet, codesPath+"/"+e.ID, nil, nil)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(b, &now); err != nil {
			return err
		}
		if now.Used {
			_, err := fmt.Fprintln(s.out, "the browser is signed in")
			return err
		}
	}
	return failed(exitFailed, "Run stoa console again.", "the code has expired, and nobody used it")
}

type consoleSignInsCmd struct {
	files
	asJSON
}

func (c *consoleSignInsCmd) Run(ctx context.Context, s std) error {
	kept, err := c.principals(ctx)
	if err != nil {
		return err
	}
	defer kept.Close()
	all, err := kept.SignIns.List()
	if err != nil {
		return err
	}
	if c.JSON {
		return s.json(map[string]any{"signIns": all})
	}
	if len(all) == 0 {
		s.note("no browser is signed in; stoa console signs one in")
		return nil
	}
	var rows [][]cell
	for _, one := range all {
		rows = append(rows, []cell{{text: one.ID}, {text: one.Name}, {text: one.Created.Local().Format("2006-01-02 15:04")}, {text: "until " + one.Expires.Local().Format("2006-01-02 15:04")}, {text: one.Browser}})
	}
	return s.table([]string{"ID", "WHO", "SINCE", "VALID", "BROWSER"}, rows)
}

type consoleSignOutCmd struct {
	files
	asJSON
	ID  string `arg:"" optional:"" name:"id" help:"Id of the sign-in, as stoa console sign-ins lists it."`
	All bool   `help:"Sign out every browser of everybody."`
}

func (c *consoleSignOutCmd) Run(ctx context.Context, s std) error {
	if (c.ID == "") != c.All {
		return failed(exitUsage, "Run stoa console sign-ins to see who is signed in.", "say which browser to sign out, by its id, or --all")
	}
	kept, err := c.principals(ctx)
	if err != nil {
		return err
	}
	defer kept.Close()
	gone, err := kept.SignIns.Revoke(func(one auth.SignIn) bool { return c.All || one.ID == c.ID })
	if errors.Is(err, auth.ErrNoSignIn) && !c.All {
		return &failure{err: err, hint: "Run stoa console sign-ins to see who is signed in.", code: exitUsage}
	}
	if err != nil && !errors.Is(err, auth.ErrNoSignIn) {
		return err
	}
	if c.JSON {
		return s.json(map[string]any{"signedOut": gone})
	}
	for _, one := range gone {
		if _, err := fmt.Fprintf(s.out, "signed out %s (%s, %s)\n", one.ID, one.Name, one.Browser); err != nil {
			return err
		}
	}
	return nil
}
