package hub

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/ailumina"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/call"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/chatws"
	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/llm/models"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/upstream"
)

// chatHost is what a hub has for conversations. engine and all after it are nil
// if the config wants none.
type chatHost struct {
	engine *chat.Engine
	files  *chat.Files
	host   *chatws.Host
	agents *chatws.Agents
}

// openChat opens the conversations. Nothing of them runs before Run.
func (h *Hub) openChat(Options) (err error) {
	if !h.cfg.Chat.Enabled {
		return nil
	}
	ctx, c := context.Background(), &h.chat
	if c.files, err = chat.OpenFiles(ctx, h.state.store, chat.FileOptions{Logger: h.logger("files")}); err != nil {
		return err
	}
	h.opened(c.files.Close)
	c.engine, err = chat.Open(ctx, h.state.store, chat.Options{
		Face:   func(session string) call.Face { return h.gateway.Stateful(session) },
		Models: h.chatModel, Desk: h.desk, Sessions: h.state.sessions, Attach: c.files.Attach, Principal: h.principal,
		Find: h.findTool, Missing: h.whyMissing, Sees: h.seesAgent, Instructions: h.instructions, Events: h.events, Tracer: h.tracer, Logger: h.logger("chat"), Expire: h.cfg.Session.Timeout,
		Hub: h.process, Before: h.before,
	}, chatSettings(h.cfg, h.models.Load()))
	if err != nil {
		return err
	}
	h.opened(c.engine.Close)
	each, local := sockets(h.cfg)
	c.host = chatws.New(c.engine, h.desk, chatws.Options{MessageBytes: min(h.cfg.Limits.MessageBytes, 1<<20), Connections: each, Local: local, Degraded: h.degraded, Logger: h.logger("chat")})
	c.agents = chatws.NewAgents(c.engine, chatws.AgentOptions{FrameBytes: h.cfg.Limits.MessageBytes, Most: each, Local: local, Signed: h.door.Signed, Traced: h.door.TracedActor, Logger: h.logger("chat")})
	h.opened(func() {
		c.host.Close()
		c.agents.Close()
	})
	return nil
}

// localSockets is how many times as many sockets as another principal all those
// may have together who need no token on this machine: they are many programs.
const localSockets = 4

// sockets are how many of them a principal may have, and how many those without
// a token together.
func sockets(cfg *config.Config) (each, local int) {
	return cfg.Limits.Sockets, cfg.Limits.Sockets * localSockets
}

// bound changes how many sockets there may be.
func (c *chatHost) bound(cfg *config.Config) {
	if c.engine != nil {
		each, local := sockets(cfg)
		c.host.Bound(each, local)
		c.agents.Bound(each, local)
	}
}

// resume takes up what the hub before this one did not finish.
func (c *chatHost) resume() {
	if c.engine != nil {
		c.engine.Resume()
	}
}

// drain lets clients go and turns end.
func (c *chatHost) drain(ctx context.Context) {
	if c.engine == nil {
		return
	}
	c.engine.Drain(ctx)
	c.host.Wait(ctx)
	c.agents.Wait(ctx)
}

// leave tells clients that the hub stops.
func (c *chatHost) leave() {
	if c.engine != nil {
		c.host.Close()
		c.agents.Close()
	}
}

// chatModel finds a model by its name.
func (h *Hub) chatModel(name string) (chat.Model, error) {
	m, err := h.models.Load().Get(name)
	if err != nil {
		return chat.Model{}, err
	}
	return chat.Model{Model: h.spanned(m), Name: m.Name, ID: m.ID, MaxTokenCount: m.MaxTokenCount, Price: m.Price, Retries: m.Retries, RetryDelay: m.RetryDelay}, nil
}

// Model tells a person which model conversations are held with.
func (h *Hub) Model() string { return h.models.Load().Tell(h.config().Chat.Model) }

// chatHealth says what keeps the model of the chat from answering.
func (h *Hub) chatHealth() []healthItem {
	m, err := h.models.Load().Get(h.config().Chat.Model)
	if err != nil || m.Missing == "" || !h.config().Chat.Enabled {
		return nil
	}
	return []healthItem{{"model", "warning", "the model of the chat cannot answer: " + h.Model(), "Set the key, or name another model in chat.model."}}
}

// findTool tells whose an exposed tool is.
func (h *Hub) findTool(tool string) (upstream, ref string, ok bool) {
	it, err := h.cat.Now().Find(catalog.Tool, tool, catalog.All)
	if err != nil {
		return "", "", false
	}
	return it.Upstream, it.Ref(), true
}

// agentTool is the tool of an agent, for as long as nobody has asked it for its
// list.
const agentTool = `{"name":"` + ailumina.ToolName + `","annotations":` + ailumina.Governed + `}`

// seesAgent reports whether somebody may talk to an agent of the hub: whoever can
// see its tool, by which every other client talks to it.
func (h *Hub) seesAgent(by actor.Actor, session, agent string) bool {
	name := config.Slug(agent)
	it := h.cat.Now().Tool(name, ailumina.ToolName)
	if it == nil {
		var err error
		if it, err = catalog.Parse(catalog.Tool, name, []byte(agentTool)); err != nil {
			return false
		}
		it.Trusted = true // it is ours
	}
	view := h.door.View(&mcp.Client{Actor: by}, session)
	return view.Item(it)
}

// instructions is what a server says of itself. Agents say no more than their
// tool does.
func (h *Hub) instructions(server string) string {
	u := h.pool.Get(server)
	if u == nil || h.config().Agent(server) != nil {
		return ""
	}
	if hello := u.Known(); hello != nil {
		return hello.Instructions
	}
	return ""
}

// degraded names the upstreams that who could use if they worked.
func (h *Hub) degraded(who *auth.Principal) (down []chatws.Degraded) {
	for _, s := range h.listed(who) {
		if s.State.Down() && h.door.Sees(actor.Chat, who, s.Name) {
			why := strings.TrimPrefix(s.Error, s.Name+": ") // people are told the name before it
			if s.Cause != "" {
				why += ": " + s.Cause
			}
			down = append(down, chatws.Degraded{Name: s.Name, Reason: strings.TrimSpace(why + ". " + s.Hint)})
		}
	}
	return down
}

// whyMissing says why nothing is known of a tool: the server that its name begins
// with is down. It is "" if that is not why. What the server's program wrote is
// not told: the answer goes to the provider of a model.
func (h *Hub) whyMissing(who *auth.Principal, tool string) string {
	name, _, ok := strings.Cut(tool, "__")
	if !ok {
		return ""
	}
	for _, s := range h.listed(who) {
		if s.Name == name && s.State.Down() && h.door.Sees(actor.Chat, who, name) {
			return fmt.Sprintf("The server %s is down: %s. %s", name, strings.TrimPrefix(s.Error, name+": "), s.Hint)
		}
	}
	return ""
}

// chatSettings is what a config says of conversations.
func chatSettings(cfg *config.Config, set *models.Set) chat.Settings {
	c := &cfg.Chat
	prompt := func(model, own string) string {
		if m, err := set.Get(model); own == "" && err == nil {
			return m.SystemPrompt
		}
		return own
	}
	s := chat.Settings{
		Model: c.Model, SystemPrompt: prompt(c.Model, c.SystemPrompt), Temperature: c.Temperature,
		MaxHistory: c.MaxHistoryLength, RetryDelay: c.RetryDelay, MaxTokenCount: c.MaxTokenCount, RetainNewest: c.RetainNewestMessages,
		MaxSteps: c.MaxSteps, Parallel: c.Parallel, Queue: c.Queue, Texts: chat.Texts(c.Texts),
	}
	if s.RetryAttempts = c.RetryAttempts; c.RetryAttempts == 0 {
		s.RetryAttempts = -1 // its word for none
	}
	if c.SummarizationThreshold != nil {
		s.Summarize = *c.SummarizationThreshold
	}
	for i := range cfg.Agents {
		a := &cfg.Agents[i]
		s.Agents = append(s.Agents, chat.Agent{
			Name: a.Called(), Description: a.Description, Model: a.Model, SystemPrompt: prompt(a.Model, a.SystemPrompt), Tools: a.Tools,
			Temperature: a.Temperature, MaxSteps: a.MaxSteps, MaxTokens: a.MaxTokens, Listed: a.Listed,
		})
	}
	return s
}

const (
	agentTimeout    = 5 * time.Minute // between two signs of life
	agentMaxTimeout = time.Hour
)

// agentOptions make an upstream of a chat agent. Those that are not listed are
// not even dialled until somebody asks.
func (h *Hub) agentOptions(a *config.Agent) (upstream.Options, error) {
	handler, err := chat.NewHandler(h.chat.engine, a.Called())
	if err != nil {
		return upstream.Options{}, err
	}
	return upstream.Options{Name: a.Name, Title: a.Title, Handler: handler, Via: "chat", Agent: true, Unlisted: !a.Listed, Lazy: !a.Listed,
		Timeout: agentTimeout, MaxTimeout: agentMaxTimeout, Retries: new(0), Logger: h.logger("chat")}, nil
}

// offered are the agents of a config that are served.
func offered(cfg *config.Config) []config.Agent {
	if !cfg.Chat.Enabled {
		return nil
	}
	// A config made by hand may not have been validated.
	return slices.DeleteFunc(slices.Clone(cfg.Agents), func(a config.Agent) bool { return a.Stock && cfg.Server(a.Name) != nil })
}

// setAgents offers the agents of next in place of those of old. It is called
// when no server has a name of theirs any more.
func (h *Hub) setAgents(old, next []config.Agent) error {
	for i := range next {
		a := &next[i]
		j := slices.IndexFunc(old, func(o config.Agent) bool { return o.Name == a.Name })
		put := h.pool.Add
		if j >= 0 {
			if o := &old[j]; o.Title == a.Title && o.Description == a.Description && o.Listed == a.Listed {
				continue // the rest is the engine's
			}
			put = h.pool.Replace
		} else if h.pool.Get(a.Name) != nil {
			continue // an agent that registered has the name; checkAgents has let that pass
		}
		o, err := h.agentOptions(a)
		if err != nil {
			return err
		}
		if _, err := put(o); err != nil {
			return err
		}
	}
	return nil
}

// dropAgents ends those of old that next has not.
func (h *Hub) dropAgents(old, next []config.Agent) {
	for i := range old {
		if !slices.ContainsFunc(next, func(a config.Agent) bool { return a.Name == old[i].Name }) && !h.agents.has(old[i].Name) {
			h.pool.Retire(old[i].Name)
		}
	}
}

// agentChanges tells a person what becomes of the agents.
func agentChanges(old, next []config.Agent) (out []Change) {
	find := func(in []config.Agent, name string) *config.Agent {
		if i := slices.IndexFunc(in, func(a config.Agent) bool { return a.Name == name }); i >= 0 {
			return &in[i]
		}
		return nil
	}
	for i := range next {
		switch before := find(old, next[i].Name); {
		case before == nil:
			out = append(out, Change{"agent", next[i].Name, "added"})
		case !reflect.DeepEqual(*before, next[i]):
			out = append(out, Change{"agent", next[i].Name, "changed"})
		}
	}
	for i := range old {
		if find(next, old[i].Name) == nil {
			out = append(out, Change{"agent", old[i].Name, "removed"})
		}
	}
	return out
}

// checkAgents refuses agents whose names are taken by what the config does not
// know of.
func (h *Hub) checkAgents(old *config.Config, next []config.Agent) error {
	for i := range next {
		name := next[i].Name
		if h.pool.Get(name) == nil || next[i].Stock || old.Server(name) != nil || old.Agent(name) != nil {
			continue
		}
		return &fault.Error{Kind: fault.InvalidRequest, Subject: "reload", Msg: "the agent name " + name + " is taken by a registered agent or the program's own tools; nothing was changed", Hint: "Rename the agent."}
	}
	return nil
}

// isStock reports whether a name is that of an agent which exists without being
// configured, and so gives way to others.
func (h *Hub) isStock(name string) bool {
	u := h.pool.Get(name)
	return u != nil && u.Unlisted() && slices.ContainsFunc(offered(h.config()), func(a config.Agent) bool { return a.Name == name && a.Stock })
}

// restock puts an agent that exists by default back when who took its place is
// gone.
func (h *Hub) restock(name string) {
	a := h.config().Agent(name)
	if h.chat.engine == nil || a == nil || !a.Stock || h.pool.Get(name) != nil || h.config().Server(name) != nil {
		return
	}
	o, err := h.agentOptions(a)
	if err == nil {
		_, err = h.pool.Add(o)
	}
	if err != nil {
		h.logger("chat").Warn("an agent could not be put back", obs.KeyAgent, name, obs.KeyErr, err)
	}
}
