package hub

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/obs"
	"github.com/stoahub/stoa/internal/session"
)

// seen returns the Sessions that a principal may look at, those of one
// principal if it asks for that. Looking at a Session does not keep it from
// expiring.
func (h *Hub) seen(who *auth.Principal, of string) ([]*session.Session, error) {
	if !who.Has(auth.RightSessions) {
		if of != "" && of != who.Name {
			return nil, &fault.Error{Kind: fault.Denied, Subject: "principal", Msg: fmt.Sprintf("%q may see its own sessions only", who.Name), Hint: "Use the token of the data folder."}
		}
		of = who.Name
	}
	return h.holding(func(principal string) bool { return of == "" || principal == of }), nil
}

func (h *Hub) listSessions(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, err := query(r, "principal", "search", "offset", "limit")
	if err != nil {
		return err
	}
	all, err := h.seen(who, q.Get("principal"))
	if err != nil {
		return err
	}
	if text := strings.ToLower(q.Get("search")); text != "" {
		all = slices.DeleteFunc(slices.Clone(all), func(s *session.Session) bool {
			return !strings.Contains(strings.ToLower(s.Principal()+"/"+s.Name()), text)
		})
	}
	part, err := pageOf(q, all)
	if err != nil {
		return err
	}
	reply(w, http.StatusOK, map[string]any{"sessions": h.sessionInfos(part), "total": len(all)})
	return nil
}

// named finds the Session that a request names. Who may see those of others
// says whose it is, unless only one has that name or it has one itself.
func (h *Hub) named(r *http.Request, who *auth.Principal, more ...string) (*session.Session, error) {
	q, err := query(r, append(more, "principal")...)
	if err != nil {
		return nil, err
	}
	return h.sessionOf(who, q.Get("principal"), r.PathValue("session"))
}

func (h *Hub) sessionOf(who *auth.Principal, of, name string) (*session.Session, error) {
	all, err := h.seen(who, of)
	if err != nil {
		return nil, err
	}
	var found []*session.Session
	var names, whose []string
	for _, s := range all {
		names = append(names, s.Name())
		if s.Name() != name {
			continue
		}
		if s.Principal() == who.Name {
			return s, nil
		}
		found, whose = append(found, s), append(whose, s.Principal())
	}
	switch len(found) {
	case 0:
		return nil, missing(fault.ResourceNotFound, "session", name, names)
	case 1:
		return found[0], nil
	}
	return nil, (&fault.Error{Kind: fault.InvalidParams, Subject: name, Msg: "several principals have a session of that name: " + strings.Join(whose, ", "),
		Hint: "Say whose with principal."}).With("candidates", whose)
}

func (h *Hub) showSession(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if err := h.maySee(who, "context_list"); err != nil {
		return err
	}
	s, err := h.named(r, who, "search", "offset", "limit")
	if err != nil {
		return err
	}
	all, err := s.Values("")
	if err != nil {
		return err
	}
	q := r.URL.Query()
	if text := strings.ToLower(q.Get("search")); text != "" {
		all = slices.DeleteFunc(all, func(v session.Value) bool {
			said := v.Name + " " + v.Description
			if v.Origin != nil {
				said += " " + v.Origin.Tool
			}
			return !strings.Contains(strings.ToLower(said), text)
		})
	}
	part, err := pageOf(q, all)
	if err != nil {
		return err
	}
	shown := map[string]any{"session": h.sessionInfo(s), "values": part, "total": len(all)}
	if c := h.conversationOf(s); c != nil {
		st, err := c.Peek()
		if err != nil {
			return err
		}
		shown["conversation"] = st.Brief()
	}
	reply(w, http.StatusOK, shown)
	return nil
}

func (h *Hub) removeSession(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	s, err := h.named(r, who)
	if err != nil {
		return err
	}
	if err := h.endSession(r.Context(), s); err != nil {
		return fmt.Errorf("remove session %s: %w", s.Name(), err)
	}
	h.log.Info("a session was removed", obs.KeyAction, "remove", obs.KeySession, obs.Short(s.Name()), "by", who.Name)
	reply(w, http.StatusOK, map[string]any{"removed": s.Name(), "principal": s.Principal()})
	return nil
}

// value finds the value that a request names.
func (h *Hub) value(r *http.Request, who *auth.Principal, more ...string) (*session.Session, session.Value, error) {
	if err := h.maySee(who, "context_get"); err != nil {
		return nil, session.Value{}, err
	}
	s, err := h.named(r, who, more...)
	if err != nil {
		return nil, session.Value{}, err
	}
	name := r.PathValue("value")
	v, err := s.Value(name)
	if err == nil {
		return s, v, nil
	}
	all, err := s.Values("")
	if err != nil {
		return nil, session.Value{}, err
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return nil, session.Value{}, missing(fault.ResourceNotFound, "value", name, names)
}

// readValue answers with the data of a value as it was stored.
func (h *Hub) readValue(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	s, v, err := h.value(r, who, "version")
	if err != nil {
		return err
	}
	if v, err = versionOf(s, v, r.URL.Query().Get("version")); err != nil {
		return err
	}
	data, err := s.Data(r.Context(), v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	w.Header().Set("Stoa-Value-Version", strconv.Itoa(v.Version))
	_, _ = w.Write(data) // a client that has gone misses nothing
	return nil
}

func (h *Hub) removeValue(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	s, v, err := h.value(r, who)
	if err != nil {
		return err
	}
	if !who.Has(auth.RightSessions) {
		if err := h.permit(r, who, s.Name(), "context_remove", map[string]any{"name": v.Name, "session": s.Name()}); err != nil {
			return err
		}
	}
	if err := s.Remove(r.Context(), v.Name); err != nil {
		return err
	}
	reply(w, http.StatusOK, map[string]any{"removed": v.Name, "session": s.Name(), "principal": s.Principal()})
	return nil
}

// exportSession writes all that a Session holds, one part at a time. If a part
// cannot be read the answer is cut off: half an export must not look whole.
func (h *Hub) exportSession(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if err := h.maySee(who, "context_get"); err != nil {
		return err
	}
	s, err := h.named(r, who)
	if err != nil {
		return err
	}
	values, err := s.Values("")
	if err != nil {
		return err
	}
	head, err := json.Marshal(h.sessionInfo(s))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	out := bufio.NewWriterSize(w, 32<<10)
	fmt.Fprintf(out, `{"stoa":1,"exported":%q,"session":%s,"values":[`, time.Now().UTC().Format(time.RFC3339Nano), head)
	first := true
	for _, v := range values {
		var wrote bool
		if wrote, err = exportValue(r.Context(), out, s, v.Name, first); err != nil {
			break
		}
		first = first && !wrote
	}
	if err == nil {
		_ = out.WriteByte(']')
		err = h.exportRest(r.Context(), out, s)
	}
	if err != nil {
		if r.Context().Err() == nil {
			h.log.Error("an export was cut off", obs.KeyAction, "export", obs.KeySession, obs.Short(s.Name()), obs.KeyErr, err)
		}
		panic(http.ErrAbortHandler)
	}
	_, _ = out.WriteString("}\n")
	_ = out.Flush() // a client that has gone misses nothing
	return nil
}

// exportValue writes the present version of a value with its data, and what is
// known of the versions before it. One that has been removed meanwhile is left
// out.
func exportValue(ctx context.Context, out *bufio.Writer, s *session.Session, name string, first bool) (wrote bool, err error) {
	type entry struct {
		session.Value
		History []session.Value `json:"history"`
		Data    json.RawMessage `json:"data"`
	}
	for {
		history, err := s.History(name)
		if err != nil {
			return false, nil // it has been removed
		}
		e := entry{Value: history[0], History: history[1:]}
		e.Data, err = s.Data(ctx, e.Value)
		if fault.Is(err, fault.BadReference) && ctx.Err() == nil {
			continue // another version has taken its place
		}
		if err != nil {
			return false, err
		}
		data := e.Data
		e.Data = nil
		head, err := json.Marshal(e)
		if err != nil {
			return false, err
		}
		if !first {
			_ = out.WriteByte(',') // out remembers its first error
		}
		_, _ = out.Write(head[:len(head)-len("null}")])
		_, _ = out.Write(data)
		return true, out.WriteByte('}')
	}
}
