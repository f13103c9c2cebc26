package chat

import (
	"log/slog"
	"time"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/policy"
)

// What a conversation does is logged by names and figures: what is said in it,
// and what passes to and from tools, is not.

// openLog makes the logger of the turn, whose lines say which turn they are of
// and whose: others must not read them.
func (t *turn) openLog(pairs ...any) {
	from := t.log
	if from == nil {
		from = t.e.opts.Logger.With(obs.KeyPrincipal, t.input.Principal, obs.KeySession, obs.Short(t.session), obs.KeyCorrelation, t.input.Correlation)
	}
	t.log = from.With(pairs...)
}

func (t *turn) logStart() {
	t.log.Info("turn started", obs.KeyAction, "turn", "input", t.input.ID, obs.KeyAgent, t.agent.Name, obs.KeyModel, t.model.Name, "trace", t.trace.Trace())
}

func (t *turn) logEnd(end *End) {
	level := slog.LevelInfo
	attrs := []any{obs.KeyAction, "turn", "reason", end.Reason, obs.KeyTook, time.Since(t.begun), obs.KeyModel, end.Model, "steps", end.Steps,
		"inputTokens", end.Usage.Input, "outputTokens", end.Usage.Output}
	if end.Reason == ReasonFailed {
		level = slog.LevelWarn
		attrs = append(attrs, obs.KeyKind, end.Kind, obs.KeyErr, end.Error)
	}
	t.log.Log(t.e.ctx, level, "turn ended", attrs...)
}

// logAsked tells that a request goes to the model.
func (t *turn) logAsked(req *llm.Request) {
	t.log.Debug("model asked", obs.KeyAction, "model", obs.KeyModel, t.model.Name, obs.KeyAttempt, req.Tried+1, "messages", len(req.Messages), "tools", len(req.Tools), "estimatedTokens", t.measured)
}

// logAnswered tells what became of it.
func (t *turn) logAnswered(begun time.Time, attempt int, used llm.Usage, stop llm.Stop, err error) {
	attrs := []any{obs.KeyAction, "model", obs.KeyModel, t.model.Name, obs.KeyAttempt, attempt, obs.KeyTook, time.Since(begun), "inputTokens", used.Input, "outputTokens", used.Output}
	if err != nil {
		t.log.Debug("model gave no whole answer", append(attrs, obs.KeyErr, err)...)
		return
	}
	t.log.Debug("model answered", append(attrs, "stop", stop)...)
}

func (t *turn) logRetry(r *Retry) {
	if r.Discard && r.WaitMS == 0 {
		t.log.Debug("the answer begins anew", obs.KeyAction, "model", obs.KeyModel, t.model.Name, obs.KeyAttempt, r.Attempt)
		return
	}
	t.log.Warn("the model is asked again", obs.KeyAction, "model", obs.KeyModel, t.model.Name, obs.KeyAttempt, r.Attempt, "wait", time.Duration(r.WaitMS)*time.Millisecond, "reason", r.Reason)
}

func (t *turn) logCall(c *Call) {
	t.log.Debug("tool call started", obs.KeyAction, "tools/call", obs.KeyCall, c.ID, obs.KeyTool, c.Name, obs.KeyUpstream, c.Upstream)
}

func (t *turn) logResult(r *Result) {
	t.log.Debug("tool call ended", obs.KeyAction, "tools/call", obs.KeyCall, r.Call, obs.KeyTool, r.Name, "status", r.Status, obs.KeyTook, time.Duration(r.TookMS)*time.Millisecond, "bytes", r.Bytes)
}

func (t *turn) logAsk(a *policy.Approval) {
	t.log.Info("a tool call waits for approval", obs.KeyAction, "approve", obs.KeyCall, a.Call, obs.KeyTool, a.Tool, "approval", a.ID, "expires", a.Expires)
}

func (t *turn) logDecision(a *policy.Approval, dec *policy.Decision) {
	t.log.Info("approval decided", obs.KeyAction, "approve", obs.KeyCall, a.Call, obs.KeyTool, a.Tool, "approval", a.ID, "outcome", dec.Outcome(), "by", dec.By)
}
