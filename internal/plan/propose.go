package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/llm"
)

// Proposal is what a model is asked to propose a plan for.
type Proposal struct {
	Goal  Goal
	Text  string            // what is wanted, in words
	Known func(string) bool // values of the Session
	Tools []Offered         // what may be called
	Find  Lookup            // nil: tools are not checked
}

// Offered is a tool as a model is told of it.
type Offered struct {
	Name        string
	Description string
	Schema      json.RawMessage
}

// rounds is how often a model may try: its mistakes are told to it.
const rounds = 3

// Propose asks a model for a plan. What it says passes the same checks as any
// plan; one that does not is never returned.
func Propose(ctx context.Context, m llm.Model, p Proposal) (*Plan, error) {
	req := llm.Request{System: proposeSystem + string(schemaText), Messages: []llm.Message{llm.Say(llm.User, p.prompt())}}
	var last []Problem
	for range rounds {
		a, err := llm.Collect(m.Stream(ctx, req))
		if err != nil {
			return nil, fault.New(fault.Unreachable, "plan", "no plan was proposed: %v", err)
		}
		text := a.Message.Text()
		found, problems := p.read(text)
		if problems == nil {
			return found, nil
		}
		last = problems
		req.Messages = append(req.Messages, llm.Say(llm.Assistant, text), llm.Say(llm.User, "This plan cannot be run. Repair it and answer with the whole plan:\n"+(&Problems{List: problems}).Error()))
	}
	return nil, &fault.Error{Kind: fault.InvalidArguments, Subject: "goal", Msg: fmt.Sprintf("the model proposed no plan that can be run in %d attempts; the last one: %s", rounds, (&Problems{List: last}).Error()), Hint: "Say the goal in other words, or give allowableActions and requiredOutputs."}
}

const proposeSystem = "You make plans of tool calls. Answer with one JSON object, a plan, and nothing else. Call only tools that are listed. " +
	"Arguments refer to inputs and to results of other steps by strings such as @step_1.path. The plan is checked against this JSON Schema:\n"

func (p *Proposal) prompt() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Goal: %s\n", p.Text)
	for _, in := range p.Goal.Inputs {
		fmt.Fprintf(&b, "Input: %s\n", in.Name)
	}
	for _, out := range p.Goal.Outputs {
		fmt.Fprintf(&b, "Required output: %s\n", out.Name)
	}
	for _, t := range p.Tools {
		fmt.Fprintf(&b, "Tool %s: %s\n%s\n", t.Name, t.Description, t.Schema)
	}
	return b.String()
}

// read finds the plan in what a model said, and what is wrong with it.
func (p *Proposal) read(text string) (*Plan, []Problem) {
	raw := []byte(text)
	if i, j := bytes.IndexByte(raw, '{'), bytes.LastIndexByte(raw, '}'); i >= 0 && j > i {
		raw = raw[i : j+1] // it may stand in a block, with words around it
	}
	found, problems := Examine(raw, p.Known, p.Find)
	for _, out := range p.Goal.Outputs {
		if found != nil && found.Outputs[out.Name] == "" {
			problems = append(problems, Problem{Pointer: "/outputs", Message: "lacks " + out.Name, Hint: "The goal requires it."})
		}
	}
	if problems != nil {
		return nil, problems
	}
	return found, nil
}
