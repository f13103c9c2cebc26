package chat

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/obs"
)

// Before every request it is estimated how many tokens it takes. Where these
// are too many, something is done once: the content of old results is replaced,
// or old messages are summed up or left out. No call and no result is ever
// taken from a turn that is shown.

const (
	pruneAbove  = 400 // bytes: shorter results are not worth it
	roomPart    = 0.8 // of the limit, that is left after a compaction, so that not every step needs one
	maxCompacts = 6   // for one request: each of the ways, and one more
	// lastMessages are a message with calls and its results.
	lastMessages = 2
)

// limit is how many tokens the model may have before it; 0: not known.
func (t *turn) limit() int {
	switch m, s := t.model.MaxTokenCount, t.s.MaxTokenCount; {
	case m == 0:
		return s
	case s == 0:
		return m
	default:
		return min(m, s)
	}
}

// resultBytes is how much of one result the model is shown: never more than an
// eighth of what it may have before it, by four characters for a token, since
// several may come at once.
func (t *turn) resultBytes() int {
	if limit := t.limit(); limit > 0 {
		return min(t.s.ResultBytes, max(2<<10, limit/2))
	}
	return t.s.ResultBytes
}

// mark is how many tokens are too many; 0: there is no such number.
func (t *turn) mark() int {
	room := t.room()
	switch s := t.s.Summarize; {
	case s <= 0:
		return room
	case s <= 1:
		return min(room, int(s*float64(t.limit())))
	case room == 0:
		return int(s)
	default:
		return min(room, int(s))
	}
}

// over reports whether a request takes too many tokens.
func (t *turn) over(used int) bool {
	m := t.mark()
	return m > 0 && used > m
}

// measure estimates what a request takes.
func (t *turn) measure(req llm.Request) Context {
	req.Model = t.model.ID
	c := Context{Used: t.e.meter.Estimate(req), Limit: t.limit()}
	c.System = t.e.meter.EstimateText(req.Model, req.System)
	c.History = t.e.meter.Estimate(llm.Request{Model: req.Model, Messages: req.Messages})
	c.Tools = max(0, c.Used-c.System-c.History)
	return c
}

// compact makes the history shorter, once: first the results of old calls are
// taken out, then the oldest turns, and only then what is newest. It reports
// false if there is nothing left that could be done. used is what the request
// takes, 0 if it was the provider that found it too long.
func (t *turn) compact(ctx context.Context, req llm.Request, used int) (done bool, err error) {
	now := t.b.now()
	target := int(float64(t.mark()) * roomPart)
	known := used > 0
	if !known { // our own figures are not to be trusted
		used = t.measure(req).Used
		target = int(float64(used) * roomPart / 2)
	}
	if t.compacts >= maxCompacts {
		return false, nil
	}
	t.compacts++
	calls, enough := t.prunable(&now, used-target, t.s.RetainNewest)
	cut := t.cuttable(&now, used-target, t.s.RetainNewest)
	if len(calls) == 0 && cut == now.Cut {
		// Rather the newest messages than a conversation that is dead.
		calls, enough = t.prunable(&now, used-target, lastMessages)
		cut = t.cuttable(&now, used-target, 1)
	}
	if len(calls) == 0 && cut == now.Cut && (t.tight || !known) { // before that, fewer tools
		calls, enough = t.prunable(&now, used-target, 0)
	}
	c := &Compaction{Before: used}
	switch {
	case len(calls) > 0 && (enough || known || cut <= now.Cut): // if it is not enough, turns go next
		c.Kind, c.Calls = Prune, calls
	case cut > now.Cut:
		c.Kind, c.Cut = Drop, cut
		if err := t.sumUp(ctx, &now, c); err != nil {
			return false, err
		}
	default:
		return false, nil
	}
	after := now
	after.Messages = slices.Clone(now.Messages)
	after.compact(c)
	c.After = t.measure(t.compose(&after)).Used
	return true, t.note(ctx, &Event{Type: Compacted, Compaction: c})
}

// prunable returns the calls whose results are replaced to gain so many tokens,
// oldest first, and whether they are enough. The newest messages are left.
func (t *turn) prunable(now *State, gain, keep int) (calls []string, enough bool) {
	for i := now.Cut; i < len(now.Messages)-keep; i++ {
		m := &now.Messages[i]
		if m.Role != llm.FromTool {
			continue
		}
		for j, id := range m.Calls {
			r := m.Parts[j].Result
			if len(r.Content) <= pruneAbove {
				continue
			}
			if gain <= 0 {
				return calls, true
			}
			gain -= t.e.meter.EstimateText(t.model.ID, r.Content) - t.e.meter.EstimateText(t.model.ID, pruned(len(r.Content)))
			calls = append(calls, id)
		}
	}
	return calls, gain <= 0
}

// cuttable is how many messages can be left out to gain so many tokens: whole
// turns, the oldest first, and none of the newest messages. For a summary it is
// as many as there are, so that not each turn needs one.
func (t *turn) cuttable(now *State, gain, keep int) int {
	cut := now.Cut
	for i := now.Cut + 1; i <= len(now.Messages)-max(1, keep); i++ {
		gain -= t.e.meter.Estimate(llm.Request{Model: t.model.ID, Messages: []llm.Message{now.Messages[i-1].Message}})
		if now.Messages[i].Role != llm.User {
			continue
		}
		if cut = i; gain <= 0 && t.s.Summarize <= 0 {
			break
		}
	}
	return cut
}

const (
	leftOutText = "[The first %d messages of this conversation are left out, since they would not fit.]"
	summedText  = "[Summary of the first %d messages of this conversation, which are left out:]\n%s"
	sumPrompt   = "You write summaries of conversations between a user and an assistant with tools, for the assistant to go on from. Keep what the user wants, decisions, facts, names, numbers, file paths, what was done by tools and what is still open. Be brief. Write only the summary."
	sumAsk      = "Sum up this conversation:"
	maxSummary  = 16 << 10
	// maxTranscript is in bytes, charsPerToken as llm.Meter has it.
	maxTranscript = 256 << 10
	charsPerToken = 4
)

// sumUp says what stands for the messages that are left out. If the model is
// to sum them up and cannot, they are left out all the same.
func (t *turn) sumUp(ctx context.Context, now *State, c *Compaction) error {
	c.Text = fmt.Sprintf(leftOutText, c.Cut)
	if t.s.Summarize <= 0 {
		return nil
	}
	limit := maxTranscript
	if n := t.limit(); n > 0 {
		limit = min(limit, n*charsPerToken*3/4)
	}
	text := transcript(now, c.Cut, limit)
	a, err := llm.Collect(t.model.Stream(ctx, llm.Request{System: sumPrompt, Messages: []llm.Message{llm.Say(llm.User, text)}}))
	c.Usage = a.Usage.Plus(a.Lost)
	if err != nil {
		c.Usage = spent(err, c.Usage)
	}
	c.Cost = t.model.Price.Cost(c.Usage)
	text = strings.TrimSpace(a.Message.Text())
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil || text == "":
		t.log.Warn("a conversation could not be summed up", obs.KeyAction, "model", obs.KeyModel, t.model.Name, obs.KeyErr, err)
		return nil
	}
	most := maxSummary
	if n := t.limit(); n > 0 {
		most = min(most, n/2)
	}
	c.Kind, c.Text = Summary, fmt.Sprintf(summedText, c.Cut, shorten(text, most))
	return nil
}

// transcript writes the first messages down as text, each part shortened until
// all of it has at most about limit bytes: every message says something. As
// text it is nothing that a provider could find wrong.
func transcript(now *State, cut, limit int) string {
	for bound := 8 << 10; ; bound /= 2 {
		var b strings.Builder
		b.WriteString(sumAsk)
		if now.Summary != "" {
			fmt.Fprintf(&b, "\n\n%s", shorten(now.Summary, 2*bound))
		}
		for _, m := range now.Messages[now.Cut:cut] {
			for _, p := range m.Parts {
				switch {
				case p.Text != "":
					fmt.Fprintf(&b, "\n\n%s: %s", m.Role, shorten(p.Text, bound))
				case p.Call != nil:
					fmt.Fprintf(&b, "\n\n%s calls %s with %s", m.Role, p.Call.Name, shorten(string(p.Call.Args), bound))
				case p.Result != nil:
					fmt.Fprintf(&b, "\n\nresult of %s: %s", p.Result.Name, shorten(p.Result.Content, bound))
				}
			}
		}
		if b.Len() <= limit || bound < 128 {
			return shorten(b.String(), limit)
		}
	}
}
