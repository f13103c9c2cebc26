package hub

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/task"
)

// What belongs to a session is kept in four places: its values, its
// conversation, its runs and its tasks. A session exists as long as any of them
// does.

// sessionInfo is what the API tells of a session.
type sessionInfo struct {
	session.Info
	Conversation bool `json:"conversation,omitempty"` // it has one
	Runs         int  `json:"runs,omitempty"`
	Tasks        int  `json:"tasks,omitempty"`
}

// note makes a time count for when the session began and was used last.
func (i *sessionInfo) note(began, used time.Time) {
	if i.Created.IsZero() || !began.IsZero() && began.Before(i.Created) {
		i.Created = began
	}
	if used.After(i.Used) {
		i.Used = used
	}
}

// holding returns the Sessions that hold anything and whose principals pass,
// sorted by principal and name.
func (h *Hub) holding(pass func(principal string) bool) []*session.Session {
	all := h.state.sessions.All(pass)
	have := map[chat.Key]bool{}
	for _, s := range all {
		have[keyOf(s)] = true
	}
	add := func(k chat.Key) {
		if k.Session != "" && pass(k.Principal) && !have[k] {
			have[k] = true
			all = append(all, h.state.sessions.Named(k.Principal, k.Session))
		}
	}
	if h.chat.engine != nil {
		for _, k := range h.chat.engine.Keys(pass) {
			add(k)
		}
	}
	for _, run := range h.plans.runs.All(func(plan.Summary) bool { return true }) {
		s := run.Summary()
		add(chat.Key{Principal: s.Principal, Session: s.Session})
	}
	for _, t := range h.tasks.Kept().List(func(*task.State) bool { return true }) {
		w := t.State().Work
		add(chat.Key{Principal: w.Principal, Session: w.Session})
	}
	slices.SortFunc(all, func(a, b *session.Session) int {
		return cmp.Or(strings.Compare(a.Principal(), b.Principal()), strings.Compare(a.Name(), b.Name()))
	})
	return all
}

func keyOf(s *session.Session) chat.Key { return chat.Key{Principal: s.Principal(), Session: s.Name()} }

// conversationOf returns the conversation of a session, or nil.
func (h *Hub) conversationOf(s *session.Session) *chat.Conversation {
	if h.chat.engine == nil {
		return nil
	}
	return h.chat.engine.Find(s.Principal(), s.Name())
}

func (h *Hub) sessionInfo(s *session.Session) sessionInfo {
	return h.sessionInfos([]*session.Session{s})[0]
}

// sessionInfos tells of sessions what can be told without reading what they hold.
func (h *Hub) sessionInfos(of []*session.Session) []sessionInfo {
	out := make([]sessionInfo, len(of))
	at := make(map[chat.Key]*sessionInfo, len(of))
	for i, s := range of {
		out[i].Info = s.Info()
		at[keyOf(s)] = &out[i]
		if s.Info().Created.IsZero() {
			out[i].Used = time.Time{} // of a Session that is kept nowhere: the rest tells
		}
		if c := h.conversationOf(s); c != nil {
			out[i].Conversation = true
			out[i].note(c.Began(), c.Used())
		}
	}
	for _, run := range h.plans.runs.All(func(plan.Summary) bool { return true }) {
		s := run.Summary()
		if i := at[chat.Key{Principal: s.Principal, Session: s.Session}]; i != nil {
			i.Runs++
			i.note(s.Began, s.Began)
			if s.Ended != nil {
				i.note(s.Began, *s.Ended)
			}
		}
	}
	for _, t := range h.tasks.Kept().List(func(*task.State) bool { return true }) {
		s := t.State()
		if i := at[chat.Key{Principal: s.Work.Principal, Session: s.Work.Session}]; i != nil {
			i.Tasks++
			i.note(s.Created, s.Updated)
		}
	}
	return out
}

// endSession removes everything that a session holds, and returns when nothing
// of it can come back. What may still store something in it ends first.
func (h *Hub) endSession(ctx context.Context, s *session.Session) error {
	ctx = context.WithoutCancel(ctx) // half a removal helps nobody
	if err := h.tasks.Kept().EndSession(ctx, s.Principal(), s.Name()); err != nil {
		return err
	}
	if err := h.plans.runs.EndSession(ctx, s.Principal(), s.Name()); err != nil {
		return err
	}
	if c := h.conversationOf(s); c != nil {
		if err := c.Forget(ctx); err != nil {
			return fmt.Errorf("forget its conversation: %w", err)
		}
	}
	kept := !s.Info().Created.IsZero()
	if err := h.state.sessions.Remove(ctx, s); err != nil {
		return err
	}
	if !kept { // the registry tells of those that it knows
		h.events.Emit(event.Record{Type: event.SessionEnded, Session: s.Name(), Principal: s.Principal()})
	}
	if err := h.desk.EndSession(ctx, s.Principal(), s.Name()); err != nil {
		return fmt.Errorf("forget what was decided for it: %w", err)
	}
	return nil
}

// exportRest writes what a session holds besides its values, as further members
// of the export.
func (h *Hub) exportRest(ctx context.Context, out *bufio.Writer, s *session.Session) error {
	member := func(name string, v any) error {
		raw, err := json.Marshal(v)
		if err == nil {
			_, err = fmt.Fprintf(out, ",%q:%s", name, raw)
		}
		return err
	}
	if c := h.conversationOf(s); c != nil {
		st, err := c.Peek()
		if err == nil {
			err = member("conversation", st)
		}
		if err != nil {
			return err
		}
	}
	runs := []plan.View{}
	for _, run := range h.plans.runs.Of(s.Principal(), s.Name()) {
		v, err := run.View(ctx, plan.Look{Results: true, Plan: true})
		if err != nil {
			return err
		}
		runs = append(runs, v)
	}
	tasks := []taskInfo{}
	for _, t := range h.tasks.Kept().List(func(st *task.State) bool {
		return st.Work.Principal == s.Principal() && st.Work.Session == s.Name()
	}) {
		d, err := t.Detail(ctx)
		if err != nil {
			return err
		}
		tasks = append(tasks, infoOf(&d))
	}
	if err := member("runs", runs); err != nil {
		return err
	}
	return member("tasks", tasks)
}
