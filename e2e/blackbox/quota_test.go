package blackbox

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

var hello = rpc("initialize", greeting)

// connect opens a legacy connection and returns its id, or why there is none.
func (h *hub) connect(t *testing.T, token string) (string, error) {
	t.Helper()
	got := h.post(t, "/mcp", token, hello)
	id := got.header.Get("Mcp-Session-Id")
	if id == "" {
		return "", fmt.Errorf("%d %.300s", got.status, got.text)
	}
	return id, nil
}

// ping uses a connection.
func (h *hub) ping(t *testing.T, token, id string) reply {
	t.Helper()
	return h.send(t, http.MethodPost, "/mcp", token, http.Header{"Mcp-Session-Id": {id}}, rpc("ping", object{}))
}

// However many connections one caller opens, another's stays.
func TestConnectionsOfOneCallerEndNobodyElses(t *testing.T) {
	t.Parallel()
	files, _ := upstream(t)
	h := serve(t, object{"files": files}, object{"limits": object{"sessions": 40}})
	ann, eve := h.token(t, "ann"), h.token(t, "eve")
	anns, err := h.connect(t, ann)
	if err != nil {
		t.Fatal(err)
	}
	for range 60 {
		_, _ = h.connect(t, eve) // let in or not
	}
	if got := h.ping(t, ann, anns); got.status != http.StatusOK {
		t.Errorf("ann's connection after eve's: %d %s", got.status, got.text)
	}
	for who, token := range map[string]string{"ann": ann, "the owner": h.owner} {
		if _, err := h.connect(t, token); err != nil {
			t.Errorf("%s cannot connect: %v", who, err)
		}
	}
}

// However many Sessions one caller fills, the owner can have one.
func TestSessionsOfOneCallerLockNobodyOut(t *testing.T) {
	t.Parallel()
	files, _ := upstream(t)
	h := serve(t, object{"files": files}, object{"session": object{"max": 16}})
	ann, eve := h.token(t, "ann"), h.token(t, "eve")
	keep := func(token, session string) reply {
		return h.post(t, "/s/"+session+"/mcp", token, rpc("tools/call", object{"name": "context_add", "arguments": object{"name": "v", "data": "1"}}))
	}
	for i := range 20 {
		keep(eve, fmt.Sprint("s", i)) // let in or not
	}
	for who, token := range map[string]string{"ann": ann, "the owner": h.owner} {
		if got := keep(token, "mine"); got.status != http.StatusOK || !strings.Contains(got.text, `"result"`) || strings.Contains(got.text, `"isError":true`) {
			t.Errorf("%s is locked out: %d %.300s", who, got.status, got.text)
		}
	}
}

// A server with a process per session does not get one for each of any number.
func TestProcessesPerSessionAreBounded(t *testing.T) {
	t.Parallel()
	files, _ := upstream(t)
	files["sharing"] = "session"
	h := serve(t, object{"files": files})
	eve, ann := h.token(t, "eve"), h.token(t, "ann")
	call := func(token string) reply {
		id, err := h.connect(t, token)
		if err != nil {
			t.Fatal(err)
		}
		return h.send(t, http.MethodPost, "/mcp", token, http.Header{"Mcp-Session-Id": {id}}, rpc("tools/call", object{"name": "files__read", "arguments": object{"path": "x"}}))
	}
	ran := 0
	for range 40 {
		if got := call(eve); strings.Contains(got.text, "some text") {
			ran++
		} else if !strings.Contains(got.text, "connections for single sessions") {
			t.Fatalf("%d %s", got.status, got.text)
		}
	}
	if ran > 16 {
		t.Errorf("one caller has %d processes", ran)
	}
	for who, token := range map[string]string{"ann": ann, "the owner": h.owner} {
		if got := call(token); !strings.Contains(got.text, "some text") {
			t.Errorf("%s gets none: %d %s", who, got.status, got.text)
		}
	}
}

// Registrations of one caller are bounded, and the owner can still register.
func TestRegistrationsOfOneCallerAreBounded(t *testing.T) {
	t.Parallel()
	files, _ := upstream(t)
	h := serve(t, object{"files": files})
	eve := h.token(t, "eve", "--right", "register")
	register := func(token, name string) reply {
		return h.post(t, "/mcps", token, object{"name": name, "url": "http://127.0.0.1:1/mcp", "ttlMs": 600_000})
	}
	made := 0
	for i := range 200 {
		if register(eve, fmt.Sprintf("eve-%d", i)).status == http.StatusCreated {
			made++
		}
	}
	if made > 125 {
		t.Errorf("one caller has registered %d agents", made)
	}
	if got := register(h.owner, "mine"); got.status != http.StatusCreated {
		t.Errorf("the owner: %d %s", got.status, got.text)
	}
}
