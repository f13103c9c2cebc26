package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stoahub/stoa/internal/ailumina"
	"github.com/stoahub/stoa/internal/bridge"
	"github.com/stoahub/stoa/internal/cert"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/secret"
)

type bridgeCmd struct {
	files
	URL       string   `help:"Server of the agents, as ws://localhost:8000. Without it, AILUMINA_WS_URL, or that." placeholder:"URL" name:"url"`
	Timeout   string   `help:"To connect, and to wait for each message: 45s, or milliseconds. Without it, AILUMINA_WS_TIMEOUT, or 30s." placeholder:"TIME"`
	Connect   string   `help:"To connect, in place of --timeout. Without it, AILUMINA_WS_CONNECT_TIMEOUT." placeholder:"TIME" name:"connect-timeout"`
	Response  string   `help:"To wait for each message, in place of --timeout. Without it, AILUMINA_WS_RESPONSE_TIMEOUT." placeholder:"TIME" name:"response-timeout"`
	Max       string   `help:"For a whole answer. Without it, AILUMINA_WS_MAX_TIMEOUT, or 10m." placeholder:"TIME" name:"max-timeout"`
	CA        string   `help:"PEM file of the authorities that a wss server is trusted by, instead of the system's. Without it, AILUMINA_WS_CA." placeholder:"FILE" name:"ca" type:"path"`
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
	var said config.Bridge
	variable, data := os.Getenv, cmp.Or(c.Data, os.Getenv("STOA_DATA"))
	if err != nil {
		// A file that happens to lie here must not keep a client from its agents.
		log.Warn("the config is passed over", obs.KeyErr, err)
	} else {
		data, said = cfg.Data, cfg.Bridge
		o.Agents = append(agentNames(cfg), o.Agents...)
		variable = func(name string) string {
			v, _ := cfg.Lookup(name)
			return v
		}
	}
	if err := c.times(variable, said, &o); err != nil {
		return nil, err
	}
	o.URL, o.Token = cmp.Or(c.URL, variable("AILUMINA_WS_URL"), said.URL), secret.New(variable("AILUMINA_WS_TOKEN"))
	if err := c.secure(variable, said, &o); err != nil {
		return nil, err
	}
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

// times finds out how long to wait: a flag wins over its variable, and that over
// the config. What is said of both waits counts where nothing is said of one.
func (c *bridgeCmd) times(variable func(string) string, said config.Bridge, o *bridge.Options) error {
	both, err := waiting("--timeout", c.Timeout, "AILUMINA_WS_TIMEOUT", variable)
	if err != nil {
		return err
	}
	for _, t := range []struct {
		flag, text, variable string
		or                   []time.Duration
		into                 *time.Duration
	}{
		{"--connect-timeout", c.Connect, "AILUMINA_WS_CONNECT_TIMEOUT", []time.Duration{both, said.Connect}, &o.Connect},
		{"--response-timeout", c.Response, "AILUMINA_WS_RESPONSE_TIMEOUT", []time.Duration{both, said.Response}, &o.Timeout},
		{"--max-timeout", c.Max, "AILUMINA_WS_MAX_TIMEOUT", []time.Duration{said.Max}, &o.Max},
	} {
		own, err := waiting(t.flag, t.text, t.variable, variable)
		if err != nil {
			return err
		}
		*t.into = cmp.Or(append([]time.Duration{own}, t.or...)...)
	}
	// What waits for each message must not change what connecting has.
	o.Connect = cmp.Or(o.Connect, ailumina.DefaultTimeout)
	if o.Max > 0 && o.Timeout > o.Max {
		return failed(exitUsage, "Raise the time for a whole answer, or lower the other.", "bridge: a whole answer may take %v, which is less than the %v for each message", o.Max, o.Timeout)
	}
	return nil
}

// waiting reads a time to wait; 0 if nobody says.
func waiting(flag, text, name string, variable func(string) string) (time.Duration, error) {
	from := flag
	if text == "" {
		text, from = variable(name), name
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

// secure finds out what the server of the agents is sent, and by what it is
// trusted.
func (c *bridgeCmd) secure(variable func(string) string, said config.Bridge, o *bridge.Options) error {
	headers := map[string]secret.String{}
	maps.Copy(headers, said.Headers)
	if text := variable("AILUMINA_WS_HEADERS"); text != "" {
		var more map[string]string
		if err := json.Unmarshal([]byte(text), &more); err != nil { // what the parser says may repeat a value
			return failed(exitUsage, `Write it as in {"X-Api-Key": "…"}.`, "bridge: AILUMINA_WS_HEADERS is not a JSON object of texts")
		}
		for name, value := range more {
			headers[name] = secret.New(value)
		}
	}
	var wrong error
	config.CheckHandshake(headers, func(key, text, hint string) {
		if wrong == nil {
			wrong = failed(exitUsage, strings.ToUpper(hint[:1])+hint[1:]+".", "bridge: header %s: %s", strings.TrimPrefix(key, "/headers/"), text)
		}
	})
	if wrong != nil {
		return wrong
	}
	o.Header = http.Header{}
	for name, value := range headers {
		o.Header.Set(name, value.Reveal())
	}
	trust := said.TLS
	if ca := cmp.Or(c.CA, variable("AILUMINA_WS_CA")); ca != "" {
		trust.CA, trust.Insecure = ca, false
	}
	if err := cert.Trust(trust).Check(); err != nil {
		return failed(exitUsage, "Name a PEM file that this user can read.", "bridge: %w", err)
	}
	if to, err := url.Parse(o.URL); err == nil {
		o.TLS = cert.Trust(trust).Client(to.Hostname())
	}
	return nil
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
