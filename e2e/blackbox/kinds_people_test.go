package blackbox

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// Tokens.

func (w *worker) command(args ...string) (string, error) {
	out, err := command(w.t, w.h, append(args, "--data", w.h.data, "--config", w.h.config)...).Output()
	if err != nil {
		return "", fmt.Errorf("stoa %s: %w", strings.Join(args, " "), err)
	}
	w.acked.Add(1)
	return string(out), nil
}

func makeToken(w *worker, r *record) error {
	out, err := w.command("token", "create", r.key, "--json")
	made, err := read[struct{ Secret, Token string }](reply{text: out}, err)
	if err != nil {
		return err
	}
	r.secret, r.is = cmp.Or(made.Secret, made.Token), "valid"
	return nil
}

func revokeToken(w *worker, r *record) error {
	_, err := w.command("token", "revoke", r.key)
	r.is = ""
	return err
}

func lookToken(w *worker, r *record) (string, error) {
	if r.secret == "" {
		return "", nil
	}
	got, err := w.ask(http.MethodGet, "/api/v1/plans", r.secret, nil)
	if err != nil || got.status == http.StatusUnauthorized {
		return "", err
	}
	return "valid", nil
}

// All that a principal has. It goes when the token is made anew.

func makePrincipal(w *worker, r *record) error {
	if r.secret == "" {
		if err := makeToken(w, r); err != nil {
			return err
		}
	}
	if _, err := w.tool("/s/desk/mcp", r.secret, "context_add", object{"name": "note", "data": r.numbered()}); err != nil {
		return err
	}
	if _, err := w.tool("/mcp", r.secret, "task_start", object{"tool": "files__read", "arguments": object{}}); err != nil {
		return err
	}
	for path, body := range map[string]any{"/api/chat": object{"text": r.numbered(), "sessionId": "talk"}, "/api/files?name=note": r.numbered()} {
		if _, err := w.wants(http.MethodPost, path, r.secret, body); err != nil {
			return err
		}
	}
	_, err := w.wants(http.MethodPut, "/api/v1/plans/"+r.key, r.secret, planOf(object{"id": "a", "tool": "files__read"}))
	r.is = "sessions tasks conversations files plans"
	return err
}

func renewPrincipal(w *worker, r *record) error {
	if err := revokeToken(w, r); err != nil {
		return err
	}
	if err := makeToken(w, r); err != nil {
		return err
	}
	is, err := lookPrincipal(w, r)
	if err == nil && is != "" {
		err = fmt.Errorf("a new token starts with %s", is)
	}
	r.is = ""
	return err
}

func lookPrincipal(w *worker, r *record) (string, error) {
	if r.secret == "" {
		return "", nil
	}
	var there []string
	for member, path := range map[string]string{"sessions": "/api/v1/sessions", "tasks": "/api/v1/tasks", "conversations": "/api/chat", "files": "/api/files", "plans": "/api/v1/plans"} {
		answer, err := read[map[string]json.RawMessage](w.wants(http.MethodGet, path, r.secret, nil))
		if err != nil {
			return "", err
		}
		var all []json.RawMessage
		if err := json.Unmarshal(answer[member], &all); err != nil {
			return "", fmt.Errorf("%s: %w: %s", path, err, answer[member])
		}
		if len(all) > 0 {
			there = append(there, member)
		}
	}
	slices.SortFunc(there, func(a, b string) int { return slices.Index(belongingsOrder, a) - slices.Index(belongingsOrder, b) })
	return strings.Join(there, " "), nil
}

var belongingsOrder = []string{"sessions", "tasks", "conversations", "files", "plans"}

// Browsers that are signed in.

func makeSignIn(w *worker, r *record) error {
	r.secret = ""
	got, err := read[struct{ ID, Secret string }](w.wants(http.MethodPost, "/api/v1/sign-ins", w.h.owner, nil))
	r.id, r.secret, r.is = got.ID, got.Secret, "valid"
	return err
}

func removeSignIn(w *worker, r *record) error {
	_, err := w.wants(http.MethodDelete, "/api/v1/sign-ins/"+r.id, w.h.owner, nil)
	r.is = ""
	return err
}

func lookSignIn(w *worker, r *record) (string, error) { return lookToken(w, r) }
