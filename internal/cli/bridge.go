package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stoahub/stoa/internal/bridge"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/secret"
)

type bridgeCmd struct {
	files
	URL       string   `help:"Server of the agents, as ws://localhost:8000. Without it, AILUMINA_WS_URL, or that." placeholder:"URL" name:"url"`
	Timeout   string   `help:"To connect, and to wait for each message: 45s, or milliseconds. Without it, AILUMINA_WS_TIMEOUT, or 30s." placeholder:"TIME"`
	Agent     []string `help:"Agent type to offer besides crud, news, collaborator, ailumina and the agents of the config; may be given more than once." placeholder:"NAME" sep:"none"`
	AllowHost []string `help:"Host that a caller may name in server_url besides this machine and the server's own; * for all. May be given more than once." placeholder:"HOST" sep:"none"`
	Mode      string   `help:"What to be; there is nothing but server." default:"server" enum:"server" hidden:""`
	modes
}

// Bounds of a time-out.
const (
	shortestBridge = time.Millisecond
	longestBridge  = time.Hour
)

func (c *bridgeCmd) Run(ctx context.Context, s std) error {
	b, err := c.open(s)
	if err != nil {
		return err
	}
	in, stop := s.serving(ctx)
	defer stop()
	err = b.ServePipe(ctx, in, s.out, lastAnswers)
	if err == nil {
		err = ctx.Err() // which was a signal
	}
	if errors.Is(err, syscall.EPIPE) {
		return &failure{err: errSilent, code: exitFailed} // nobody is left to be told
	}
	return err
}

func (c *bridgeCmd) open(s std) (*bridge.Bridge, error) {
	log, err := obs.Logger(s.err, c.level(), "auto")
	if err != nil {
		return nil, fmt.Errorf("bridge: LOG_LEVEL: %w", err)
	}
	log = obs.Component(log, "bridge")
	cfg, _, err := c.load(nil)
	if err != nil && (len(c.Config) > 0 || len(c.EnvFile) > 0) {
		return nil, err
	}
	o := bridge.Options{Hosts: c.AllowHost, Agents: c.Agent, Logger: log}
	variable, data := os.Getenv, cmp.Or(c.Data, os.Getenv("STOA_DATA"))
	if err != nil {
		// A file that happens to lie here must not keep a client from its agents.
		log.Warn("the config is passed over", obs.KeyErr, err)
	} else {
		data = cfg.Data
		o.Agents = append(agentNames(cfg), o.Agents...)
		variable = func(name string) string {
			v, _ := cfg.Lookup(name)
			return v
		}
	}
	if o.Timeout, err = c.timeout(variable); err != nil {
		return nil, err
	}
	o.URL, o.Token = cmp.Or(c.URL, variable("AILUMINA_WS_URL")), secret.New(variable("AILUMINA_WS_TOKEN"))
	o.Elsewhere = func() string { return elsewhere(data) }
	b, err := bridge.New(o)
	if err != nil {
		return nil, failed(exitUsage, "Run stoa bridge --help to see what can be said.", "bridge: %w", err)
	}
	return b, nil
}

// agentNames are the names of the agents of a config, in their order. Those
// that exist without a config are offered anyway.
func agentNames(cfg *config.Config) (names []string) {
	for i := range cfg.Agents {
		if !cfg.Agents[i].Stock {
			names = append(names, cfg.Agents[i].Called())
		}
	}
	return names
}

// elsewhere names the hub that is running, to those who found nobody.
func elsewhere(data string) string {
	const start = "Start the server of the agents, or name it in AILUMINA_WS_URL."
	if data == "" {
		return start
	}
	note := noted(data)
	if note == nil {
		return start
	}
	scheme := map[string]string{"http": "ws", "https": "wss"}[note.Scheme()]
	at := scheme + "://" + dialable(note.Address)
	return fmt.Sprintf("A hub is running at %s: to use its agents, set AILUMINA_WS_URL=%s.", at, at)
}

// timeout is how long to wait; 0 if nobody says.
func (c *bridgeCmd) timeout(variable func(string) string) (time.Duration, error) {
	text, from := c.Timeout, "--timeout"
	if text == "" {
		text, from = variable("AILUMINA_WS_TIMEOUT"), "AILUMINA_WS_TIMEOUT"
	}
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if ms, wrong := strconv.ParseInt(text, 10, 32); wrong == nil {
		d, err = time.Duration(ms)*time.Millisecond, nil
	}
	if err != nil || d < shortestBridge || d > longestBridge {
		return 0, failed(exitUsage, "Write milliseconds, as 30000, or 45s; at most 1h.", "bridge: %s %q is no time to wait", from, text)
	}
	return d, nil
}

// level is how much is told on stderr. DEBUG selects as it does for programs of
// Node: patterns between commas or spaces, with - before what is left out.
func (c *bridgeCmd) level() string {
	switch {
	case c.Quiet:
		return "error"
	case c.Verbose || debugged(os.Getenv("DEBUG"), "ailumina:bridge"):
		return "debug"
	}
	return cmp.Or(strings.ToLower(os.Getenv("LOG_LEVEL")), "info")
}

// debugged reports whether the variable DEBUG selects a name.
func debugged(patterns, name string) bool {
	var in, out bool
	for _, p := range strings.FieldsFunc(patterns, func(r rune) bool { return r == ',' || r == ' ' }) {
		p, not := strings.CutPrefix(p, "-")
		if ok, err := path.Match(p, name); err == nil && ok {
			in, out = in || !not, out || not
		}
	}
	return in && !out
}
