package chatws

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/pace"
	"github.com/stoahub/stoa/internal/policy"
)

// Post takes a message and answers with the events of its turn, as a stream; or
// with all of it at its end, if the client wants nothing but JSON.
func (h *Host) Post(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, from, err := h.posted(w, r, askMessage)
	if err != nil {
		return err
	}
	v, err := h.gate.enter(r, who, kindStream, "")
	if err != nil {
		return h.tooMuch(w, err)
	}
	defer v.leave()
	if !h.posts.take(who.Name, time.Now()) {
		return h.tooMuch(w, fault.New(fault.Limit, "", "%s", h.texts().RateLimited))
	}
	conv, err := h.engine.Conversation(who, q.Session)
	if err != nil {
		return h.explain(err)
	}
	v.at(conv.Name())
	s := &stream{h: h, tells: h.restater(), conv: conv, out: w, ctx: r.Context()}
	if q.Text != "" || q.FileID != "" {
		ev, err := conv.Send(r.Context(), chat.Input{Text: q.Text, Agent: q.Agent, FileID: q.FileID, Key: q.Key, Actor: actor.New(actor.Chat, who).Record(), Trace: obs.ParentOf(r.Header)})
		if err != nil {
			return h.tooMuch(w, err)
		}
		h.opts.Logger.Debug("message received", obs.KeyAction, "message", obs.KeySession, obs.Short(conv.Name()), "input", ev.Input.ID, "bytes", len(q.Text), obs.KeyPrincipal, who.Name, obs.KeyRemote, r.RemoteAddr, obs.KeyCorrelation, ev.Input.Correlation)
		s.input, s.asked, s.pos = ev.Input.ID, ev.Seq, chat.Position{Seq: ev.Seq - 1}
	}
	if from != nil {
		s.pos = chat.Position{Seq: from.Seq, Offset: from.Offset}
	}
	if !wantsEvents(r.Header, true) {
		return s.whole(w)
	}
	defer h.attend(who, conv)()
	defer canReply(r.URL.Query(), conv)()
	return s.run()
}

// posted reads the body of a request, and from where its client goes on.
func (h *Host) posted(w http.ResponseWriter, r *http.Request, kind string) (request, *place, error) {
	b, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(h.opts.MessageBytes)))
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return request{}, nil, fault.New(fault.TooLarge, "", "the body is longer than %d bytes", h.opts.MessageBytes)
	} else if err != nil {
		return request{}, nil, fault.New(fault.InvalidRequest, "", "the body has not come whole").Because(err)
	}
	from, err := lastEvent(r.Header)
	if err != nil {
		return request{}, nil, err
	}
	q, f := parseBody(b, kind, from != nil, h.opts.MessageBytes)
	switch {
	case f != nil:
		return q, nil, f
	case from == nil:
	case q.Session == "":
		return q, nil, shape("/sessionId", "it is missing: Last-Event-ID goes on with a conversation, which it names")
	case q.Text != "" && q.Key == "":
		return q, nil, shape("/key", "it is missing: a message that comes with Last-Event-ID was sent before, and its key tells that it is the same")
	}
	return q, from, nil
}

// lastEvent reads the place that a client says it has reached.
func lastEvent(h http.Header) (*place, error) {
	id := h.Get("Last-Event-ID")
	if id == "" {
		return nil, nil
	}
	at, err := parsePlace(id)
	return &at, err
}

// wantsEvents reports whether a client takes a stream of events. If it does not
// say, otherwise counts.
func wantsEvents(h http.Header, otherwise bool) bool {
	events, other := false, false
	for _, value := range h.Values("Accept") {
		for part := range strings.SplitSeq(value, ",") {
			kind, _, err := mime.ParseMediaType(strings.TrimSpace(part))
			switch {
			case err != nil:
			case kind == "text/event-stream", kind == "text/*":
				events = true
			case kind == "application/json", kind == "application/*":
				other = true
			}
		}
	}
	return events || otherwise && !other
}

// tooMuch answers who sends more than is taken with 429, and hands on any other
// error.
func (h *Host) tooMuch(w http.ResponseWriter, err error) error {
	if err == errClosing {
		h.away(w)
		return nil
	}
	f := h.explain(err)
	switch {
	case limited(f):
		w.Header().Set("Retry-After", "1")
		refuse(w, http.StatusTooManyRequests, f)
	case f.Kind == fault.Unreachable:
		w.Header().Set("Retry-After", "5")
		refuse(w, http.StatusServiceUnavailable, f)
	default:
		return f
	}
	return nil
}

// Approve answers an approval.
func (h *Host) Approve(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, _, err := h.posted(w, r, askApprove)
	if err != nil {
		return err
	}
	if err := h.decide(who, q); err != nil {
		return h.explain(err)
	}
	return sayJSON(w, http.StatusOK, map[string]string{"id": q.ID, "decision": q.Decision})
}

// named returns the conversation of a session that a request has to name.
func (h *Host) named(who *auth.Principal, session string) (*chat.Conversation, error) {
	if session == "" {
		return nil, shape("/sessionId", "it is missing")
	}
	conv, err := h.engine.Conversation(who, session)
	if err != nil {
		return nil, h.explain(err)
	}
	return conv, nil
}

// Abort ends a turn.
func (h *Host) Abort(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, _, err := h.posted(w, r, askAbort)
	if err != nil {
		return err
	}
	conv, err := h.named(who, q.Session)
	if err != nil {
		return err
	}
	aborted, err := abort(conv, q)
	if err != nil {
		return h.explain(err)
	}
	return sayJSON(w, http.StatusOK, map[string]bool{"aborted": aborted})
}

// Reply answers an elicitation.
func (h *Host) Reply(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, _, err := h.posted(w, r, askReply)
	if err != nil {
		return err
	}
	conv, err := h.named(who, q.Session)
	if err != nil {
		return err
	}
	if err := conv.Reply(q.ID, chat.Reply{Action: q.Action, Content: q.Content}); err != nil {
		return h.explain(err)
	}
	return sayJSON(w, http.StatusOK, map[string]string{"id": q.ID, "action": q.Action})
}

// canReply notes that a client can answer elicitations, if it says so.
func canReply(q url.Values, conv *chat.Conversation) (leave func()) {
	for can := range strings.SplitSeq(q.Get("can"), ",") {
		if can == "elicitation" {
			return conv.CanReply()
		}
	}
	return func() {}
}

// shown is what Show tells of a conversation.
type shown struct {
	Session   string            `json:"sessionId"`
	Seq       uint64            `json:"seq"` // of the last event
	Messages  []Message         `json:"messages"`
	Turn      *chat.Turn        `json:"turn,omitempty"` // that runs
	Queued    int               `json:"queued"`
	Approvals []policy.Approval `json:"approvals"` // that wait

	Elicitations []chat.Elicitation `json:"elicitations,omitempty"` // that wait for a reply

	Context *chat.Context `json:"context,omitempty"`
	Last    *chat.End     `json:"last,omitempty"` // how the last turn ended
	Usage   any           `json:"usage,omitempty"`
	Cost    float64       `json:"cost,omitempty"`
}

// listMost is how many conversations a list has.
const listMost = 200

// agentBrief is an agent that a message may name.
type agentBrief struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// List tells which conversations the client has, and who can answer in them.
func (h *Host) List(w http.ResponseWriter, _ *http.Request, who *auth.Principal) error {
	list, more := h.engine.List(who.Name, listMost)
	if list == nil {
		list = []chat.Brief{}
	}
	agents := []agentBrief{}
	for _, a := range h.engine.AgentsFor(actor.New(actor.Chat, who), "") {
		agents = append(agents, agentBrief{a.Name, a.Description})
	}
	return sayJSON(w, http.StatusOK, map[string]any{"conversations": list, "more": more, "agents": agents})
}

// Show tells what a conversation has come to; to who wants events, what happens
// in it from now on, or from where it says.
func (h *Host) Show(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	name := r.PathValue("session")
	conv, err := h.engine.Conversation(who, name)
	if err != nil {
		return h.explain(err)
	}
	st, err := conv.State()
	if err != nil {
		return h.explain(err)
	}
	if st.Seq == 0 { // at another hub it may just have been begun
		if err := h.engine.CatchUp(r.Context()); err != nil {
			return h.explain(err)
		}
		if st, err = conv.State(); err != nil {
			return h.explain(err)
		}
	}
	if st.Seq == 0 {
		f := fault.New(fault.UnknownSession, "", "there is no conversation %q", clip(name))
		f.Hint = "Begin one by POST /api/chat, or name another; a Session that nobody used for long is forgotten."
		return f
	}
	if wantsEvents(r.Header, false) {
		return h.follow(w, r, who, conv, st.Seq)
	}
	out := shown{Session: conv.Name(), Seq: st.Seq, Messages: history(&st), Turn: st.Turn, Queued: len(st.Queue), Approvals: []policy.Approval{}, Elicitations: conv.Elicitations(), Context: st.Context, Last: st.Last, Usage: st.Usage, Cost: st.Cost}
	for _, a := range h.desk.Pending(who.Name) {
		if a.Session == conv.Name() {
			out.Approvals = append(out.Approvals, a)
		}
	}
	return sayJSON(w, http.StatusOK, out)
}

// follow streams what happens in a conversation until the client goes.
func (h *Host) follow(w http.ResponseWriter, r *http.Request, who *auth.Principal, conv *chat.Conversation, last uint64) error {
	from, err := lastEvent(r.Header)
	if err != nil {
		return err
	}
	at, given, err := whence(r.URL.Query())
	switch {
	case err != nil:
		return err
	case from != nil:
		at = *from
	case !given:
		at.Seq = last
	}
	v, err := h.gate.enter(r, who, kindStream, "")
	if err != nil {
		return h.tooMuch(w, err)
	}
	defer v.leave()
	v.at(conv.Name())
	defer h.attend(who, conv)()
	defer canReply(r.URL.Query(), conv)()
	s := &stream{h: h, tells: h.restater(), conv: conv, out: w, ctx: r.Context(), pos: chat.Position{Seq: at.Seq, Offset: at.Offset}, endless: true}
	return s.run()
}

// posters limits how often each principal may post.
type posters struct {
	rate, burst float64

	mu  sync.Mutex
	all map[string]*pace.Bucket
}

// principals are those with a token, and few; this is for a hub that has had
// very many.
const manyPosters = 10_000

func (p *posters) take(principal string, now time.Time) bool {
	p.mu.Lock()
	b := p.all[principal]
	if b == nil {
		if p.all == nil || len(p.all) >= manyPosters {
			p.all = map[string]*pace.Bucket{}
		}
		b = pace.New(p.rate, p.burst, now)
		p.all[principal] = b
	}
	p.mu.Unlock()
	return b.Take(now)
}

// eventID is the line of a stream by which a client can come back.
func eventID(at place) string {
	if at.Offset == 0 {
		return "id: " + strconv.FormatUint(at.Seq, 10) + "\n"
	}
	return "id: " + at.String() + "\n"
}
