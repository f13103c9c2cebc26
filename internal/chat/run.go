package chat

import (
	"cmp"
	"context"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/obs"
)

// Run is a turn that stands alone: of a conversation that whoever asks keeps.
type Run struct {
	By      actor.Actor // on whose behalf
	Session string      // where tools keep what they keep; empty for none
	Agent   string
	History []llm.Message // what was said before
	Input   string
	FileID  string
	Chain   string     // of the call that this comes of, as in its _meta; empty for none
	Trace   obs.Parent // what this is part of
	// Correlation is what the lines of the log have of what this is part of;
	// empty for a new one.
	Correlation string
}

// Run runs a turn. emit is told what happens, in order, from one goroutine at a
// time; it must not block for long. The turn ends with ctx. How it ended is in
// End, also if it failed; the error says that it could not begin.
func (e *Engine) Run(ctx context.Context, r Run, emit func(Event)) (End, error) {
	agent, err := e.Agent(r.Agent)
	if err != nil {
		return End{}, err
	}
	in := Input{Text: r.Input, Agent: agent.Name, FileID: r.FileID, Principal: r.By.Name(), Actor: r.By.Record(), Session: r.Session, Trace: r.Trace, Correlation: cmp.Or(r.Correlation, obs.Correlation(r.Trace))}
	if r.FileID != "" {
		if in.File, err = e.attach(ctx, r.By.Principal(), r.Session, r.FileID); err != nil {
			return End{}, err
		}
	}
	if !e.begin() {
		return End{}, e.refuse()
	}
	defer e.done()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(e.ctx, func() { cancel(ErrClosed) })()
	b := &book{log: e.opts.Logger, emit: emit} // nobody reads the events of a run again
	for _, m := range llm.Repair(r.History, lost) {
		b.state.Messages = append(b.state.Messages, imported(m))
	}
	if err := b.record(ctx, &Event{Type: InputAdded, Input: &in}); err != nil {
		return End{}, err
	}
	t := &turn{e: e, b: b, s: e.settings.Load(), by: r.By, session: r.Session, input: in, chain: r.Chain}
	return t.run(ctx), nil
}

// imported is a message of a conversation that is not ours. Its results can be
// pruned by the ids that the calls have there.
func imported(m llm.Message) Message {
	out := Message{Message: m}
	for _, p := range m.Parts {
		switch {
		case p.Call != nil:
			out.Calls = append(out.Calls, p.Call.ID)
		case p.Result != nil:
			out.Calls = append(out.Calls, p.Result.ID)
		}
	}
	return out
}

// aside is a turn that is never run, to look at what one would have.
func (e *Engine) aside(who *auth.Principal, session string, a Agent) *turn {
	by := actor.New(actor.Chat, who)
	return &turn{e: e, s: e.settings.Load(), by: by, session: session, agent: a, face: e.opts.Face(session), client: client(by, a)}
}

// client is the model of an agent, which acts on somebody's behalf.
func client(by actor.Actor, a Agent) *mcp.Client {
	return &mcp.Client{Era: mcp.Modern, Actor: by.By(actor.ByModel(a.Name)), Info: []byte(`{"name":"stoa-chat","version":"1"}`), Capabilities: []byte(`{"elicitation":{"form":{},"url":{}}}`)}
}
