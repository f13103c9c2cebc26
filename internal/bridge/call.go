package bridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/stoahub/stoa/internal/ailumina"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/schema"
	"github.com/stoahub/stoa/internal/wire"
)

// failedText begins every error that a call has as its result.
const failedText = "Ailumina chat failed: "

// call answers a call of the tool. What goes wrong is a result; an error means
// that nobody waits for one.
func (b *Bridge) call(ctx context.Context, req *mcp.Request) ([]byte, error) {
	text, err := b.chat(ctx, req)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		said := b.explain(err)
		b.log.Debug("chat failed", obs.KeyErr, said)
		return result(false, "error", failedText+said), nil
	}
	return result(true, "data", text), nil
}

// result is the result of a call: a text that is JSON.
func result(success bool, member, value string) []byte {
	inner := wire.AppendString(fmt.Appendf(nil, `{"success":%t,%q:`, success, member), value)
	return ailumina.ToolText(string(append(inner, '}')), !success)
}

// explain says what went wrong, and what to do where that is known.
func (b *Bridge) explain(err error) string {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return err.Error()
	}
	hint := f.Hint
	switch {
	case hint != "":
	case errors.Is(err, syscall.ECONNREFUSED) && b.opts.Elsewhere != nil:
		hint = b.opts.Elsewhere()
	case f.Kind == fault.UnknownAgent:
		hint = "The server has no agent of that name."
	case f.Kind == fault.Unauthorized || f.Kind == fault.Denied:
		hint = "Give the bridge the server's token in AILUMINA_WS_TOKEN."
	}
	if hint == "" {
		return f.Text()
	}
	return f.Text() + ". " + hint
}

// chat puts the question of a call to its agent.
func (b *Bridge) chat(ctx context.Context, req *mcp.Request) (string, error) {
	args := req.Param("arguments")
	if args == nil {
		args = []byte("{}")
	}
	if text := schema.Describe(b.tool.input.Validate(args)); text != "" {
		return "", errors.New(text)
	}
	kind, _ := wire.String(wire.Get(args, "agent_type"))
	q, err := ailumina.DecodeArguments(args)
	if err != nil {
		return "", err
	}
	base, o, err := b.server(req, args)
	if err != nil {
		return "", err
	}
	log := b.log.With(obs.KeyAgent, kind)
	begun := time.Now()
	to := ailumina.Endpoint(base, b.tool.agents[kind])
	log.Debug("connecting", "url", to.String(), "history", len(q.History))
	c, err := ailumina.Dial(ctx, to, o)
	if err != nil {
		return "", err
	}
	defer c.Close()
	log.Debug("connected", obs.KeyTook, time.Since(begun))
	t := teller{req: req}
	text, err := c.Chat(ctx, q, func(e ailumina.Event) {
		log.Debug("message", "type", e.Name(), obs.KeyTool, e.Tool, "bytes", len(e.Text))
		t.tell(e)
	})
	if err == nil {
		log.Debug("complete", obs.KeyTook, time.Since(begun), "bytes", len(text))
	}
	return text, err
}

// server is where the agents of a call are, and how they are reached.
func (b *Bridge) server(req *mcp.Request, args []byte) (*url.URL, ailumina.Options, error) {
	o := ailumina.Options{Connect: b.opts.Connect, Timeout: b.opts.Timeout, Max: b.opts.Max}
	base := b.base
	if text, _ := wire.String(wire.Get(args, "server_url")); text != "" {
		u, err := ailumina.ParseURL(text)
		if err != nil {
			return nil, o, fmt.Errorf("server_url cannot be used: %w", err)
		}
		if !b.allowed(u.Hostname()) {
			return nil, o, fmt.Errorf("server_url names the host %s, which this bridge may not connect to. Whoever runs it can allow that with --allow-host %s", u.Hostname(), u.Hostname())
		}
		base = u
	}
	// What is for one server goes to no other, whoever names it.
	if base.Scheme != b.base.Scheme || base.Host != b.base.Host {
		return base, o, nil
	}
	o.TLS, o.Header = b.opts.TLS, b.opts.Header
	if token := b.opts.Token.Reveal(); token != "" {
		if o.Header = o.Header.Clone(); o.Header == nil {
			o.Header = http.Header{}
		}
		o.Header.Set("Authorization", "Bearer "+token)
	}
	o.Header = chained(o.Header, req)
	return base, o, nil
}

// allowed reports whether callers may have the bridge connect to a host. What
// they say may come from a model that was told to by somebody else.
func (b *Bridge) allowed(host string) bool {
	if ip := net.ParseIP(host); strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback() {
		return true
	}
	return strings.EqualFold(host, b.base.Hostname()) ||
		slices.ContainsFunc(b.opts.Hosts, func(h string) bool { return h == "*" || strings.EqualFold(h, host) })
}

// teller passes on what an agent says, as progress of the request.
type teller struct {
	req  *mcp.Request
	done int
}

func (t *teller) tell(e ailumina.Event) {
	if t.req.Token == nil && e.Notice {
		t.req.Tell(0, strings.Trim(e.Text, "\n[]"))
	}
	if t.req.Token == nil || e.Kind == ailumina.Complete || e.Kind == ailumina.Failure {
		return
	}
	// Sentences are the message. All else says only that the agent is at work:
	// put together, the messages are the answer so far.
	text := ""
	if e.Kind == ailumina.Sentence {
		text = e.Text
	}
	t.done++
	t.req.Stream.Notify(mcp.NoteProgress, mcp.Progress(t.req.Token, float64(t.done), -1, text))
	t.req.Stream.Flush()
}
