package cli

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/stoahub/stoa/internal/attach"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/cert"
	"github.com/stoahub/stoa/internal/hub"
)

// find returns the hub to attach to, or nil if none runs.
func (f *finder) find(ctx context.Context) (*attach.Target, error) {
	if f.wrong != nil {
		// It may have been mended meanwhile.
		cfg, _, err := f.load(nil)
		if f.wrong = err; err == nil {
			f.cfg = cfg
		}
	}
	c, err := f.look(ctx)
	if c == nil && f.wrong != nil {
		return nil, attach.Final(f.wrong)
	}
	if c == nil || err != nil {
		return nil, err
	}
	defer c.close()
	f.found = true
	if f.wrong == nil {
		f.compare(c)
	}
	at := c.base.JoinPath("s", f.session, "mcp", "ws")
	at.Scheme = "ws"
	if c.base.Scheme == "https" {
		at.Scheme = "wss"
	}
	header := c.header()
	header.Set(auth.HeaderRights, "none") // the token is to get in; what a client's model says is not the owner's word
	t := &attach.Target{URL: at, Header: header, TLS: c.http.TLSClientConfig}
	if note := noted(f.cfg.Data); note != nil && isAt(note, c.base) && time.Since(note.Started) < settleTime {
		t.Settle = func(ctx context.Context) { f.settle(ctx, c.base) }
	}
	return t, nil
}

// look finds the hub that was named, that of the data folder, or one of the
// same folder at the configured address.
func (f *finder) look(ctx context.Context) (*client, error) {
	if f.Hub != "" {
		return f.remote(ctx, f.Hub, f.Token)
	}
	if c, err := f.running(ctx, f.cfg.Data); c != nil || err != nil || len(f.cfg.Listen) == 0 {
		return c, err
	}
	address := dialable(f.cfg.Listen[0])
	if _, port, err := net.SplitHostPort(address); err != nil || port == "0" {
		return nil, nil
	}
	c := newClient(&url.URL{Scheme: "http", Host: address}, f.Token)
	if f.cfg.TLS.Cert != "" {
		c.base.Scheme = "https"
		c.http.TLSClientConfig = cert.Pinned(f.cfg.TLS.Cert)
	}
	who, err := c.probe(ctx)
	if err != nil || who.Data != hub.DataID(f.cfg.Data) {
		c.close()
		return nil, nil // nobody, or a stranger, who must not hear what is for us
	}
	return c, nil
}

// compare warns, once, of a hub that is not as this command would have it.
func (f *finder) compare(c *client) {
	once := func(text string, facts ...any) {
		if !f.said[text] {
			f.said[text] = true
			f.log.Warn(text, facts...)
		}
	}
	if c.who.Version != version() {
		once("hub is of another version", "hub", c.who.Version, "client", version())
	}
	if f.Hub != "" || c.who.Config == f.cfg.Hash() {
		return
	}
	moved := *f.cfg
	moved.Listen = []string{anyPort}
	if c.who.Config != moved.Hash() {
		once("hub has another configuration than these flags, files and variables give; restart it with `stoa stop`, or keep hubs apart with --data", "data", f.cfg.Data)
	}
}

// anyPort is where a launched hub listens if another program has the address
// that nobody has asked for. hub.json tells which port it got.
const anyPort = "127.0.0.1:0"

// launch says how a hub is started that is as this command would have it.
func (f *finder) launch() *attach.Launch {
	how := f.cfg.Attach
	return &attach.Launch{
		Command: f.command,
		Log:     filepath.Join(f.cfg.Data, "logs", "launch.log"),
		Lock:    filepath.Join(f.cfg.Data, "hub.lock"),
		Timeout: how.LaunchTimeout, Leash: !how.Independent, Stop: how.StopOnExit,
	}
}

func (f *finder) command() *exec.Cmd {
	args := []string{"serve", "--launched", "--data", f.cfg.Data}
	for _, file := range f.Config {
		args = append(args, "--config", file)
	}
	for _, file := range f.EnvFile {
		args = append(args, "--env-file", file)
	}
	if !f.cfg.Attach.Independent {
		args = append(args, "--leash")
	}
	switch {
	case f.Verbose:
		args = append(args, "--verbose")
	case f.cfg.Log.File.Enabled:
		args = append(args, "--quiet") // the log has its files; what is printed is for who looks why it failed
	}
	if f.cfg.Origin("/listen") == "default" && isTaken(f.cfg.Listen[0]) {
		args = append(args, "--listen", anyPort)
	}
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	cmd := exec.Command(self, args...)
	cmd.Args[0] = os.Args[0]
	return cmd
}

func isTaken(address string) bool {
	ln, err := net.Listen("tcp", address)
	if err == nil {
		ln.Close()
	}
	return errors.Is(err, syscall.EADDRINUSE)
}

// settle waits until the hub has reached its servers, or knows that it cannot.
func (f *finder) settle(ctx context.Context, base *url.URL) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		c, err := f.look(ctx)
		if err != nil || c == nil || c.base.String() != base.String() {
			return
		}
		starting := c.starting(ctx)
		c.close()
		if !starting {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// starting reports whether servers of the hub have neither been read nor
// failed.
func (c *client) starting(ctx context.Context) bool {
	var all struct {
		Agents []struct{ Name, State string }
	}
	if !c.document(ctx, "/mcps", &all) {
		return false
	}
	for _, a := range all.Agents {
		if a.State == "connecting" {
			return true
		}
		var one struct{ Stale bool }
		if a.State == "connected" && c.document(ctx, "/mcps/"+url.PathEscape(a.Name), &one) && one.Stale {
			return true
		}
	}
	return false
}

func (c *client) document(ctx context.Context, path string, into any) bool {
	status, body, err := c.get(ctx, path, c.header())
	return err == nil && status == 200 && json.Unmarshal(body, into) == nil
}
