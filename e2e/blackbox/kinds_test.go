package blackbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// kinds are all that can be made and deleted at a hub. Errors are apart: nobody
// deletes them.
var kinds = map[string]kind{
	"value":      {often: 8, make: makeValue, remove: removeValue, look: lookValue},
	"plan":       {often: 3, make: makePlan, remove: removePlan, look: lookPlan},
	"file":       {often: 3, once: true, make: makeFile, remove: removeFile, look: lookFile},
	"session":    {often: 2, once: true, make: makeSession, remove: removeSession, look: lookSession},
	"approval":   {often: 2, once: true, make: makeApproval, remove: removeApproval, look: lookApproval},
	"connection": {often: 2, once: true, make: makeConnection, remove: removeConnection, look: lookConnection},
	"task":       {often: 1, make: makeTask, remove: cancelTask, look: lookTask},
	"token":      {often: 1, once: true, make: makeToken, remove: revokeToken, look: lookToken},
	"principal":  {often: 1, once: true, make: makePrincipal, remove: renewPrincipal, look: lookPrincipal},
	"sign-in":    {often: 1, once: true, make: makeSignIn, remove: removeSignIn, look: lookSignIn},
}

// numbered is what a record's version says.
func (r *record) numbered() string { return fmt.Sprintf("%s version %d", r.key, r.n) }

// read decodes an answer that came well.
func read[T any](got reply, err error) (into T, _ error) {
	if err != nil {
		return into, err
	}
	if err := json.Unmarshal([]byte(got.text), &into); err != nil {
		return into, fmt.Errorf("%w in %s", err, clip(got.text))
	}
	return into, nil
}

// Values.

// keep stores a value.
func (w *worker) keep(session, name, data string) error {
	_, err := w.tool("/s/"+session+"/mcp", w.h.owner, "context_add", object{"name": name, "data": data})
	return err
}

func (r *record) valuePath() string { return "/api/v1/sessions/values/values/" + r.key }

func makeValue(w *worker, r *record) error {
	r.is = r.numbered()
	return w.keep("values", r.key, r.numbered()+strings.Repeat(".", w.rnd.IntN(2000)))
}

func removeValue(w *worker, r *record) (err error) {
	r.is = ""
	if w.rnd.IntN(2) == 0 {
		_, err = w.wants(http.MethodDelete, r.valuePath(), w.h.owner, nil)
		return err
	}
	_, err = w.tool("/s/values/mcp", w.h.owner, "context_remove", object{"name": r.key})
	return err
}

func lookValue(w *worker, r *record) (string, error) {
	got, err := w.ask(http.MethodGet, r.valuePath(), w.h.owner, nil)
	if err != nil || got.status == http.StatusNotFound {
		return "", err
	}
	text, err := read[string](got, err)
	return strings.TrimRight(text, "."), err
}

// Published plans.

func makePlan(w *worker, r *record) error {
	plan := planOf(object{"id": "a", "tool": "files__read"})
	plan["title"] = r.numbered()
	_, err := w.wants(http.MethodPut, "/api/v1/plans/"+r.key, w.h.owner, plan)
	r.is = r.numbered()
	return err
}

func removePlan(w *worker, r *record) error {
	_, err := w.wants(http.MethodDelete, "/api/v1/plans/"+r.key, w.h.owner, nil)
	r.is = ""
	return err
}

func lookPlan(w *worker, r *record) (string, error) {
	answer, err := read[struct {
		Plans []struct{ Name, Title string }
	}](w.wants(http.MethodGet, "/api/v1/plans", w.h.owner, nil))
	for _, p := range answer.Plans {
		if p.Name == r.key {
			return p.Title, err
		}
	}
	return "", err
}

// Uploaded files.

type fileList struct{ Files []struct{ ID, Name string } }

func makeFile(w *worker, r *record) error {
	_, err := w.wants(http.MethodPost, "/api/files?name="+url.QueryEscape(r.numbered()), w.h.owner, r.numbered())
	r.is = r.numbered()
	return err
}

func removeFile(w *worker, r *record) error {
	files, err := read[fileList](w.wants(http.MethodGet, "/api/files", w.h.owner, nil))
	for _, f := range files.Files {
		if strings.HasPrefix(f.Name, r.key+" ") && err == nil {
			_, err = w.wants(http.MethodDelete, "/api/files/"+f.ID, w.h.owner, nil)
		}
	}
	r.is = ""
	return err
}

func lookFile(w *worker, r *record) (string, error) {
	files, err := read[fileList](w.wants(http.MethodGet, "/api/files", w.h.owner, nil))
	var names []string
	for _, f := range files.Files {
		if strings.HasPrefix(f.Name, r.key+" ") {
			names = append(names, f.Name)
		}
	}
	return strings.Join(names, ", "), err
}

// Sessions, with all that belongs to one: a value, a conversation, a run of a
// plan, and a decision that holds for the session.

func makeSession(w *worker, r *record) error {
	if _, err := w.wants(http.MethodPost, "/api/chat", w.h.owner, object{"text": r.numbered(), "sessionId": r.key}); err != nil {
		return err
	}
	if _, err := w.tool("/s/"+r.key+"/mcp", w.h.owner, "plan_execute", object{"plan": planOf(object{"id": "a", "tool": "files__read"})}); err != nil {
		return err
	}
	if err := w.remember(r.key); err != nil {
		return err
	}
	r.is = "value conversation run decision"
	return w.keep(r.key, "note", "note")
}

func removeSession(w *worker, r *record) error {
	got, err := w.ask(http.MethodDelete, "/api/v1/sessions/"+r.key, w.h.owner, nil)
	if err == nil && got.status == http.StatusNotFound {
		// It holds no value: it was not made to its end.
		if err = w.keep(r.key, "note", "note"); err == nil {
			_, err = w.wants(http.MethodDelete, "/api/v1/sessions/"+r.key, w.h.owner, nil)
		}
	}
	r.is = ""
	return err
}

func lookSession(w *worker, r *record) (string, error) {
	var parts []string
	got, err := w.ask(http.MethodGet, "/api/v1/sessions/"+r.key, w.h.owner, nil)
	if err == nil && got.status == http.StatusOK {
		parts = append(parts, "value")
	}
	talks, e1 := read[struct{ Conversations []struct{ SessionID string } }](w.wants(http.MethodGet, "/api/chat", w.h.owner, nil))
	for _, c := range talks.Conversations {
		if c.SessionID == r.key {
			parts = append(parts, "conversation")
		}
	}
	runs, e2 := read[struct{ Runs []struct{ Session string } }](w.wants(http.MethodGet, "/api/v1/runs?session="+r.key, w.h.owner, nil))
	for range runs.Runs {
		parts = append(parts, "run")
	}
	decisions, e3 := w.remembered(r.key)
	for range decisions {
		parts = append(parts, "decision")
	}
	for _, e := range []error{e1, e2, e3} {
		if err == nil {
			err = e
		}
	}
	return strings.Join(parts, " "), err
}

// What was decided about a tool and is remembered.

type decisionList struct {
	Remembered []struct{ ID, Session string }
}

func (w *worker) remembered(session string) (ids []string, err error) {
	all, err := read[decisionList](w.wants(http.MethodGet, "/api/v1/approvals/remembered", w.h.owner, nil))
	for _, d := range all.Remembered {
		if d.Session == session {
			ids = append(ids, d.ID)
		}
	}
	return ids, err
}

// remember has somebody allow a tool in a session, for as long as that lasts.
func (w *worker) remember(session string) error {
	const attend = "/api/v1/approvals?wait=1ms"
	if _, err := w.wants(http.MethodGet, attend, w.h.owner, nil); err != nil {
		return err
	}
	call := rpc("tools/call", object{"name": "files__write", "arguments": object{"path": w.gate + session}})
	running := w.h.background(http.MethodPost, "/s/"+session+"/mcp", w.h.owner, call)
	for {
		open, err := read[struct{ Approvals []approval }](w.wants(http.MethodGet, attend, w.h.owner, nil))
		if err != nil {
			<-running
			return err
		}
		if i := slices.IndexFunc(open.Approvals, func(a approval) bool { return a.Session == session }); i >= 0 {
			_, err := w.wants(http.MethodPost, "/api/v1/approvals/"+open.Approvals[i].ID, w.h.owner, object{"decision": "approve", "remember": "session"})
			<-running
			return err
		}
		select {
		case got := <-running:
			if got.status == 0 {
				return errNoAnswer
			}
			if strings.Contains(got.text, "reached yet") {
				return errLater
			}
			return fmt.Errorf("nobody was asked about a call: %d %s", got.status, clip(got.text))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func makeApproval(w *worker, r *record) error {
	r.is = "remembered"
	return w.remember(r.key)
}

func removeApproval(w *worker, r *record) error {
	ids, err := w.remembered(r.key)
	for _, id := range ids {
		if err == nil {
			_, err = w.wants(http.MethodDelete, "/api/v1/approvals/remembered/"+id, w.h.owner, nil)
		}
	}
	r.is = ""
	return err
}

func lookApproval(w *worker, r *record) (string, error) {
	ids, err := w.remembered(r.key)
	if len(ids) == 0 {
		return "", err
	}
	return "remembered", err
}

// Connections of legacy clients. One that keeps something outlives the hub.

func (r *record) connected() http.Header {
	return http.Header{"Mcp-Session-Id": {r.id}, "Mcp-Protocol-Version": {"2025-06-18"}}
}

func makeConnection(w *worker, r *record) error {
	r.id = ""
	got, err := w.wants(http.MethodPost, "/mcp", w.h.owner, rpc("initialize", object{"protocolVersion": "2025-06-18", "capabilities": object{}, "clientInfo": object{"name": r.key, "version": "1"}}))
	if err != nil {
		return err
	}
	r.id, r.is = got.header.Get("Mcp-Session-Id"), "open"
	_, err = w.askWith(r.connected(), http.MethodPost, "/mcp", w.h.owner, rpc("tools/call", object{"name": "context_add", "arguments": object{"name": "note", "data": r.key}}))
	return err
}

func removeConnection(w *worker, r *record) error {
	_, err := w.askWith(r.connected(), http.MethodDelete, "/mcp", w.h.owner, nil)
	r.is = ""
	return err
}

func lookConnection(w *worker, r *record) (string, error) {
	if r.id == "" {
		return "", nil
	}
	got, err := w.h.try(http.MethodPost, "/mcp", w.h.owner, r.connected(), rpc("ping", object{}))
	switch {
	case err != nil:
		return "", fmt.Errorf("%w: %w", errNoAnswer, err)
	case got.status == http.StatusNotFound:
		return "", nil
	case got.status != http.StatusOK:
		return "", fmt.Errorf("ping: %d %s", got.status, clip(got.text))
	}
	return "open", nil
}

// Tasks, which are cancelled.

var taskID = regexp.MustCompile(`t_[a-z0-9]+`)

type taskAnswer struct {
	Task struct{ Status string }
}

func makeTask(w *worker, r *record) error {
	r.id = ""
	got, err := w.tool("/mcp", w.h.owner, "task_start", object{"tool": "files__wait", "arguments": object{"path": w.gate}})
	if err != nil {
		return err
	}
	if r.id = taskID.FindString(got.text); r.id == "" {
		return fmt.Errorf("task_start: %s", clip(got.text))
	}
	r.is = "not cancelled"
	return nil
}

func cancelTask(w *worker, r *record) error {
	got, err := read[taskAnswer](w.wants(http.MethodDelete, "/api/v1/tasks/"+r.id, w.h.owner, nil))
	if got.Task.Status == "cancelled" {
		r.is = "cancelled"
	}
	return err
}

func lookTask(w *worker, r *record) (string, error) {
	if r.id == "" {
		return "", nil
	}
	got, err := read[taskAnswer](w.wants(http.MethodGet, "/api/v1/tasks/"+r.id, w.h.owner, nil))
	if got.Task.Status == "cancelled" || err != nil {
		return got.Task.Status, err
	}
	return "not cancelled", nil
}
