package blackbox

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/proc"
)

// turn is what came of a message to the chat.
type turn struct {
	SessionID string
	Text      string
	End       struct{ Reason string }
	raw       string
}

// say sends a message and waits for the end of its turn. Nobody attends by it.
func (h *hub) say(t testing.TB, token, text string, more ...object) turn {
	t.Helper()
	var got reply
	await.Until(t, "the hub takes another message", func() bool { // it takes five a second
		got = h.send(t, http.MethodPost, "/api/chat", token, nil, message(text, more...))
		return got.status != http.StatusTooManyRequests
	})
	return readTurn(t, got)
}

func message(text string, more ...object) object {
	body := object{"text": text}
	for _, m := range more {
		for k, v := range m {
			body[k] = v
		}
	}
	return body
}

func readTurn(t testing.TB, got reply) turn {
	t.Helper()
	var done turn
	if err := json.Unmarshal([]byte(got.text), &done); err != nil || got.status != http.StatusOK {
		t.Fatalf("chat: %d %s", got.status, got.text)
	}
	done.raw = got.text
	return done
}

// background sends a request that takes until somebody has done something.
// The test reads its answer before it ends.
func (h *hub) background(method, path, token string, body any) <-chan reply {
	got := make(chan reply, 1)
	go func() {
		answer, err := h.try(method, path, token, nil, body)
		if err != nil {
			answer.text = err.Error()
		}
		got <- answer
	}()
	return got
}

// saying is say for a turn that waits for somebody.
func (h *hub) saying(token, text string, more ...object) <-chan reply {
	return h.background(http.MethodPost, "/api/chat", token, message(text, more...))
}

// callOf is the command by which the scripted model calls a tool.
func callOf(tool string, args any) string {
	b, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("call %s %s", tool, b)
}

// greeting are the params of initialize.
var greeting = object{"protocolVersion": "2025-06-18", "capabilities": object{}, "clientInfo": object{"name": "x", "version": "1"}}

// stdio runs `stoa stdio` until the test ends, and returns how to ask it.
func (h *hub) stdio(t testing.TB, flags ...string) (ask func(method string, params object) string) {
	t.Helper()
	return h.piped(t, append([]string{"stdio"}, flags...)...)
}

// piped runs a command that is an MCP server on its pipes, until the test ends.
func (h *hub) piped(t testing.TB, args ...string) (ask func(method string, params object) string) {
	t.Helper()
	cmd := command(t, h, args...)
	in, out, err := proc.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // it ends with its stdin
	})
	id := 0
	return func(method string, params object) string {
		t.Helper()
		request := rpc(method, params)
		id++
		request["id"] = id
		b, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		if method == "initialize" {
			b = append(b, "\n"+`{"jsonrpc":"2.0","method":"notifications/initialized"}`...)
		}
		if _, err := in.Write(append(b, '\n')); err != nil {
			t.Fatalf("stoa %s takes nothing any more: %v", args[0], err)
		}
		return answerOf(t, args[0], out)
	}
}

// answerOf reads up to the answer to the request.
func answerOf(t testing.TB, who string, out *bufio.Reader) string {
	t.Helper()
	for {
		line, err := out.ReadString('\n')
		if err != nil {
			t.Fatalf("stoa %s says nothing more: %v", who, err)
		}
		var message struct{ ID json.RawMessage }
		if json.Unmarshal([]byte(line), &message) == nil && message.ID != nil {
			return line
		}
	}
}

// tool calls a tool as an MCP client does.
func (h *hub) tool(t testing.TB, path, token, name string, args any) reply {
	t.Helper()
	return h.post(t, path, token, rpc("tools/call", object{"name": name, "arguments": args}))
}

// names are what a client's tools/list has.
func (h *hub) names(t testing.TB, path, token string) []string {
	t.Helper()
	var all []string
	params := object{}
	for {
		got := h.post(t, path, token, rpc("tools/list", params))
		var answer struct {
			Result struct {
				Tools      []struct{ Name string }
				NextCursor *string
			}
			Error json.RawMessage
		}
		if err := json.Unmarshal([]byte(got.text), &answer); err != nil || answer.Error != nil {
			t.Fatalf("tools/list at %s: %d %s", path, got.status, got.text)
		}
		for _, tool := range answer.Result.Tools {
			all = append(all, tool.Name)
		}
		if answer.Result.NextCursor == nil {
			slices.Sort(all)
			return all
		}
		params = object{"cursor": *answer.Result.NextCursor}
	}
}

// approval is a call that waits for a person.
type approval struct {
	ID, Tool, Ref, Principal, Agent, Session string
}

// attend makes the token's holder somebody who can be asked, for 30 seconds.
func (h *hub) attend(t testing.TB, token string) {
	t.Helper()
	if got := h.get(t, "/api/v1/approvals?wait=1ms", token); got.status != http.StatusOK {
		t.Fatalf("attend: %d %s", got.status, got.text)
	}
}

// waiting are the calls that wait for an answer, and asking is attending.
func (h *hub) waiting(t testing.TB, token string) []approval {
	t.Helper()
	got := h.get(t, "/api/v1/approvals?wait=1ms", token)
	var answer struct{ Approvals []approval }
	if err := json.Unmarshal([]byte(got.text), &answer); err != nil || got.status != http.StatusOK {
		t.Fatalf("approvals: %d %s", got.status, got.text)
	}
	return answer.Approvals
}

// asked waits until somebody is asked about a tool. A call that came to its end
// instead was not asked about.
func (h *hub) asked(t testing.TB, tool string, running <-chan reply) approval {
	t.Helper()
	var found approval
	await.Until(t, "somebody is asked about "+tool, func() bool {
		for _, a := range h.waiting(t, h.owner) {
			if a.Tool == tool {
				found = a
				return true
			}
		}
		select {
		case got := <-running:
			t.Fatalf("nobody was asked about %s: %d %s", tool, got.status, got.text)
		default:
		}
		return false
	})
	return found
}

// question is asked for calls whose request may be over before: only a call
// that reaches the server shows that nobody will be asked.
func (h *hub) question(t testing.TB, tool string, l ledger, called string) approval {
	t.Helper()
	var found approval
	await.Until(t, "somebody is asked about "+tool, func() bool {
		for _, a := range h.waiting(t, h.owner) {
			if a.Tool == tool {
				found = a
			}
		}
		if l.count(t, called) > 0 {
			t.Fatal("the server was called before anybody approved")
		}
		return found.ID != ""
	})
	return found
}

// decide answers a question.
func (h *hub) decide(t testing.TB, token, id string, decision object) reply {
	t.Helper()
	return h.post(t, "/api/v1/approvals/"+id, token, decision)
}

// approve is decide for an answer that has to be taken.
func (h *hub) approve(t testing.TB, id string) {
	t.Helper()
	if got := h.decide(t, h.owner, id, object{"decision": "approve"}); got.status/100 != 2 {
		t.Fatalf("approve: %d %s", got.status, got.text)
	}
}

// mentions fails the test unless a text has one of the words.
func mentions(t testing.TB, what, text string, words ...string) {
	t.Helper()
	if !slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) }) {
		t.Errorf("%s: want one of %q in it, got %s", what, words, clip(text))
	}
}

// lacks fails the test if a text has one of the words.
func lacks(t testing.TB, what, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if strings.Contains(text, w) {
			t.Errorf("%s: %q must not be in it, got %s", what, w, clip(text))
		}
	}
}

// clip keeps logs of failures readable.
func clip(text string) string {
	const most = 400
	if len(text) > most {
		return text[:most] + "…"
	}
	return text
}
