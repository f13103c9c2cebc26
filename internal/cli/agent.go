package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/stoahub/stoa/internal/agentd"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hub"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/secret"
)

// An agent has two tokens, and each has a variable of its own: the one that
// callers must show to it, and the one that it shows to its hub.
const (
	listenToken      = "AGENT_LISTEN_TOKEN"
	hubTokenVariable = "AGENT_TOKEN"
)

type agentCmd struct {
	Manifest    string `arg:"" optional:"" help:"The agent's manifest; left out, agent.yaml, agent.yml, agent.jsonc or agent.json of the current folder."`
	Listen      string `help:"Address to listen on. Without it, AGENT_PORT on 127.0.0.1, or 127.0.0.1:7000." placeholder:"HOST:PORT" xor:"way"`
	Stdio       bool   `help:"Serve stdin and stdout, for clients that start their servers." xor:"way"`
	Concurrency int    `help:"Commands that run at once. Without it, as the manifest says, or AGENT_CONCURRENCY, or 1." placeholder:"N"`
	TokenFile   string `help:"File with the token that callers must have. Without it, AGENT_LISTEN_TOKEN. Needed for addresses that others can reach." placeholder:"FILE" type:"path"`
	Register    string `help:"Hub to register at, as http://127.0.0.1:8080; it then serves the agent at /mcps/NAME/mcp for as long as it runs." placeholder:"URL"`
	HubToken    string `help:"File with the token for that hub. Without it, STOA_TOKEN, AGENT_TOKEN, or the token of the hub that runs on the data folder." placeholder:"FILE" type:"path"`
	Data        string `help:"Data folder of a hub on this machine." placeholder:"DIR"`
	Check       bool   `help:"Say what is wrong with the manifest, and serve nothing." xor:"way"`
	Schema      bool   `help:"Print the JSON Schema of manifests, and serve nothing." xor:"way"`
	modes
}

// reapCmd is the helper of an agent; see agentd.Reap.
type reapCmd struct{}

func (*reapCmd) Run(s std) error {
	// A signal for the agent is not for us: we have to be there after it.
	signal.Ignore(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	agentd.Reap(s.in)
	return nil
}

func (c *agentCmd) Run(ctx context.Context, s std) error {
	if c.Schema {
		_, err := s.out.Write(config.ManifestSchema())
		return err
	}
	if c.Concurrency < 0 || c.Concurrency > 10_000 {
		return failed(exitUsage, "Allowed: 1 to 10000.", "agent: --concurrency %d is out of bounds", c.Concurrency)
	}
	path := c.Manifest
	if path == "" {
		var err error
		if path, err = config.FindManifest("."); err != nil {
			return failed(exitUsage, "Name the manifest: stoa agent FILE. docs/agent.md says what is in one.", "agent: %w", err)
		}
	}
	if c.Check {
		return c.check(s, path)
	}
	a, err := c.open(s, path)
	if err != nil {
		return err
	}
	defer a.Close()
	defer reloadOnHangup(a)()
	if c.Stdio {
		return c.pipe(ctx, s, a)
	}
	return c.serve(ctx, s, a)
}

func (c *agentCmd) check(s std, path string) error {
	m, notes, err := agentd.Check(path, nil)
	if problems, ok := errors.AsType[config.Problems](err); ok {
		fmt.Fprintln(s.out, problems)
		return &failure{err: errSilent, code: exitUsage}
	}
	if err != nil {
		return err
	}
	for _, n := range notes {
		fmt.Fprintln(s.out, "note:", n)
	}
	_, err = fmt.Fprintf(s.out, "OK: %s, %s, %s, %s\n", m.Name, plural(len(m.Tools), "tool"), plural(len(m.Resources), "resource"), plural(len(m.Prompts), "prompt"))
	return err
}

func (c *agentCmd) open(s std, path string) (*agentd.Agent, error) {
	level := cmp.Or(strings.ToLower(os.Getenv("LOG_LEVEL")), "info")
	switch {
	case c.Quiet:
		level = "error"
	case c.Verbose:
		level = "debug"
	}
	log, err := obs.Logger(s.err, level, "auto")
	if err != nil {
		return nil, fmt.Errorf("agent: LOG_LEVEL: %w", err)
	}
	o := agentd.Options{Manifest: path, Concurrency: c.Concurrency, Router: c.Register, Version: version(), Logger: obs.Component(log, "agent"),
		Traces: obs.TraceOptions{Endpoint: os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"), Sample: 1, Service: os.Getenv("OTEL_SERVICE_NAME")}}
	if self, err := os.Executable(); err == nil {
		o.Reaper = []string{self, "reap"}
	}
	return agentd.Open(o)
}

// reloadOnHangup reads the manifest again at each SIGHUP, until stop is called.
func reloadOnHangup(a *agentd.Agent) (stop func()) {
	again, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(again, syscall.SIGHUP)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-again:
				_ = a.Reload() // it has logged what is wrong
			case <-done:
				return
			}
		}
	})
	return func() {
		signal.Stop(again)
		close(done)
		wg.Wait()
	}
}

func (c *agentCmd) serve(ctx context.Context, s std, a *agentd.Agent) error {
	address, err := c.address()
	if err != nil {
		return err
	}
	token, err := c.token()
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", address)
	if err != nil {
		hint := ""
		if errors.Is(err, syscall.EADDRINUSE) {
			hint = "Another program has it. Choose another address with --listen, such as --listen 127.0.0.1:0 for any that is free."
		}
		return failed(exitFailed, hint, "agent: listen on %s: %w", address, err)
	}
	if !c.Quiet {
		s.note("agent %s serves MCP at http://%s/mcp", a.Name(), dialable(ln.Addr().String()))
		if token == "" && os.Getenv(hubTokenVariable) != "" {
			s.note("callers need no token: %s is what the agent shows to its hub; for callers set %s", hubTokenVariable, listenToken)
		}
	}
	stop, err := c.register(ctx, a, ln.Addr().String(), token)
	if err != nil {
		ln.Close()
		return err
	}
	err = a.Serve(stop.ctx, ln, secret.New(token))
	if refusal := stop.end(); refusal != nil && err == nil {
		return failed(exitFailed, "", "agent: %w", refusal)
	}
	if errors.Is(err, agentd.ErrNoToken) {
		hint := "Give one with --token-file or " + listenToken + ", or listen on 127.0.0.1."
		if os.Getenv(hubTokenVariable) != "" {
			hint += " " + hubTokenVariable + " is what the agent shows to its hub, and lets nobody in."
		}
		return failed(exitUsage, hint, "agent: listen on %s: %w", address, err)
	}
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}

// registering is an agent's registration while it lasts.
type registering struct {
	ctx context.Context // ends when the agent is to stop: also if the hub refuses it
	end func() error    // takes its leave, and says why the hub refused it, if it did
}

// register makes the agent known to the hub that was named, if one was.
func (c *agentCmd) register(ctx context.Context, a *agentd.Agent, address, own string) (registering, error) {
	if c.Register == "" {
		return registering{ctx, func() error { return nil }}, nil
	}
	token, err := c.hubToken()
	if err != nil {
		return registering{}, err
	}
	r := agentd.Registration{Hub: c.Register, Token: secret.New(token), URL: "http://" + reachedAt(address, c.Register) + "/mcp", Own: secret.New(own)}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		err := a.Register(ctx, r)
		cancel()
		done <- err
	}()
	return registering{ctx, func() error {
		cancel()
		return <-done
	}}, nil
}

// reachedAt is where a hub reaches an agent. One that listens on all addresses
// is told to the hub by the address that the hub sees it come from.
func reachedAt(address, hubURL string) string {
	at, err := netip.ParseAddrPort(address)
	to, err2 := url.Parse(hubURL)
	if err != nil || err2 != nil || !at.Addr().IsUnspecified() {
		return dialable(address)
	}
	conn, err := net.Dial("udp", net.JoinHostPort(to.Hostname(), "9")) // nothing is sent
	if err != nil {
		return dialable(address)
	}
	defer conn.Close()
	own, ok := conn.LocalAddr().(*net.UDPAddr)
	if !ok {
		return dialable(address)
	}
	return netip.AddrPortFrom(own.AddrPort().Addr().Unmap(), at.Port()).String()
}

// hubToken is what the hub wants of who registers.
func (c *agentCmd) hubToken() (string, error) {
	if c.HubToken != "" {
		b, err := os.ReadFile(c.HubToken)
		if err != nil {
			return "", failed(exitUsage, "", "agent: read the hub's token: %w", err)
		}
		return strings.TrimSpace(string(b)), nil
	}
	if token := cmp.Or(os.Getenv("STOA_TOKEN"), os.Getenv(hubTokenVariable)); token != "" {
		return token, nil
	}
	cfg, _, err := (&files{Data: c.Data}).load(nil)
	if err != nil {
		return "", err
	}
	token, err := hub.LocalToken(cfg.Data)
	if err == nil && token == "" {
		err = fmt.Errorf("there is none in %s", cfg.Data)
	}
	if err != nil {
		return "", failed(exitUsage, "Give it with --hub-token or STOA_TOKEN, or name the hub's folder with --data.", "agent: no token for %s: %w", c.Register, err)
	}
	return token, nil
}

// address is where to listen.
func (c *agentCmd) address() (string, error) {
	port := os.Getenv("AGENT_PORT")
	switch {
	case c.Listen != "":
		if _, _, err := net.SplitHostPort(c.Listen); err != nil {
			return "", failed(exitUsage, "Write host:port, as in 127.0.0.1:7000.", "agent: --listen %s: %w", c.Listen, err)
		}
		return c.Listen, nil
	case port == "":
		return "127.0.0.1:7000", nil
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return "", failed(exitUsage, "Write a number from 0 to 65535.", "agent: AGENT_PORT %q is no port", port)
	}
	return net.JoinHostPort("127.0.0.1", port), nil
}

// token is what lets callers in; "" for none.
func (c *agentCmd) token() (string, error) {
	if c.TokenFile == "" {
		return os.Getenv(listenToken), nil
	}
	b, err := os.ReadFile(c.TokenFile)
	if err != nil {
		return "", failed(exitUsage, "", "agent: read the token: %w", err)
	}
	token := strings.TrimSpace(string(b))
	if token == "" {
		return "", failed(exitUsage, "Write the token into it.", "agent: the file %s is empty", c.TokenFile)
	}
	return token, nil
}

// pipe serves stdin and stdout.
func (c *agentCmd) pipe(ctx context.Context, s std, a *agentd.Agent) error {
	in, stop := s.serving(ctx)
	defer stop()
	err := a.ServePipe(ctx, in, s.out, lastAnswers)
	if errors.Is(err, syscall.EPIPE) {
		return &failure{err: errSilent, code: exitFailed} // nobody is left to be told
	}
	return err
}
