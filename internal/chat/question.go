package chat

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/ailumina"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/policy"
)

// Asker is who puts a question to an agent.
type Asker struct {
	By      actor.Actor // on whose behalf
	Session string      // whose values the agent's tools may be given; empty for none
	Chain   string      // which calls the question comes of, as the hub has signed it; empty for none
	Trace   obs.Parent  // what the question is part of
	// Correlation is as that of a Run.
	Correlation string
}

// Ask puts a question to an agent and returns its answer. Nothing is kept of
// it: what was said before comes with the question. told is called with what
// the agent says and does on the way, one thing at a time, and not after Ask
// has returned. That the agent came to no answer, or was asked about what there
// is not, is an *ailumina.AgentError.
func (e *Engine) Ask(ctx context.Context, from Asker, agent string, q ailumina.Question, told func(ailumina.Event)) (string, error) {
	if strings.TrimSpace(q.Input) == "" && q.FileID == "" {
		return "", &ailumina.AgentError{Text: "user_input is empty. Say something, or name a file."}
	}
	speech := NewSpeech(told, e.announce)
	end, err := e.Run(ctx, Run{By: from.By, Session: from.Session, Agent: agent, History: said(q.History), Input: q.Input, FileID: q.FileID, Chain: from.Chain, Trace: from.Trace, Correlation: from.Correlation}, speech.Hear)
	text := speech.End()
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if f, ok := errors.AsType[*fault.Error](err); ok && f.Kind == fault.ResourceNotFound {
		return "", &ailumina.AgentError{Text: f.Text() + ". " + f.Advice()}
	}
	if err != nil {
		return "", err
	}
	if end.Reason != ReasonDone {
		return "", &ailumina.AgentError{Text: cmp.Or(end.Text, end.Error, "The agent came to no answer: "+end.Reason)}
	}
	return text, nil
}

// announce says what a person has to decide.
func (e *Engine) announce(a *policy.Approval) string {
	if e.opts.Desk == nil {
		return "Waiting for approval: " + a.Tool
	}
	return e.opts.Desk.Announce(a)
}

// said is a conversation as a client tells it. Nobody outside speaks for the
// agent's own instructions, so that what a client calls system, and roles that
// are not known, are words of the user that say where they come from.
func said(turns []ailumina.Turn) []llm.Message {
	var out []llm.Message
	for _, t := range turns {
		if strings.TrimSpace(t.Content) == "" {
			continue // some providers refuse a message that says nothing
		}
		switch t.Role {
		case "user", "human":
			out = append(out, llm.Say(llm.User, t.Content))
		case "assistant", "model", "ai":
			out = append(out, llm.Say(llm.Assistant, t.Content))
		default:
			out = append(out, llm.Say(llm.User, "["+cut(t.Role, 64)+"] "+t.Content))
		}
	}
	return out
}
