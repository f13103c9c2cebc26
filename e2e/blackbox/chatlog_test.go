package blackbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

// B15: the log tells of the chat, and what came of one message can be found by
// one id.

// line is a line of the log, with the facts that docs/logs.md names.
type line struct {
	Component, Correlation, Parent, Socket, Turn, Model, Tool, Upstream string
	Attempt                                                             int
}

// logged are the lines of the log, by what they have in common.
func (h *hub) logged(t testing.TB) (all map[string][]line, text string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(h.data, "logs", "stoa.log"))
	if err != nil {
		t.Fatal(err)
	}
	all = map[string][]line{}
	for one := range strings.Lines(string(b)) {
		var l line
		if json.Unmarshal([]byte(one), &l) == nil && l.Correlation != "" { // the last may be half a line
			all[l.Correlation] = append(all[l.Correlation], l)
		}
	}
	return all, string(b)
}

// linked says what is missing in the lines of one message: one turn, for which
// a model was asked and a tool called, by the door for calls too.
func linked(lines []line, bySocket bool) error {
	var turn string
	var socket, asked, called, passed bool
	for _, l := range lines {
		if l.Turn != "" && turn == "" {
			turn = l.Turn
		}
		if l.Turn != "" && l.Turn != turn {
			return fmt.Errorf("lines of the turns %s and %s", turn, l.Turn)
		}
		socket = socket || l.Socket != ""
		asked = asked || l.Turn != "" && l.Model != "" && l.Attempt > 0
		called = called || l.Turn != "" && strings.Contains(l.Tool, "read")
	}
	for _, l := range lines {
		passed = passed || l.Component == "call" && l.Upstream == "files" && l.Parent == turn
	}
	switch {
	case turn == "":
		return errors.New("no line of a turn")
	case bySocket && !socket:
		return errors.New("no line of a socket")
	case !asked:
		return errors.New("no line of a request to the model")
	case !called:
		return errors.New("no line of the turn's call")
	case !passed:
		return fmt.Errorf("no line of a call whose parent is the turn %s", turn)
	}
	return nil
}

func TestLogLinksWhatComesOfAMessage(t *testing.T) {
	t.Parallel()
	const session, words = "a-session-by-a-rather-long-name", "words-that-are-nobodys-business"
	files, _ := upstream(t)
	h := serve(t, object{"files": files}, object{"log": object{"level": "debug"}})
	text := callOf("files__read", object{"path": words})
	parent := func(n int) (trace, whole string) {
		trace = fmt.Sprintf("0af7651916cd43dd8448eb211c8031%02d", n)
		return trace, "00-" + trace + "-b7ad6b7169203331-01"
	}
	byHeader, inHeader := parent(1)
	byQuery, inQuery := parent(2)
	byPost, inPost := parent(3)
	byAgent, inAgent := parent(4)
	header := func(whole string) http.Header { return http.Header{"Traceparent": {whole}} }
	h.socket(t, "/ws?sessionId="+session, h.owner, header(inHeader)).say(text, nil)
	h.socket(t, "/ws?sessionId="+session+"&traceparent="+inQuery, h.owner, nil).say(text, nil)
	readTurn(t, h.send(t, http.MethodPost, "/api/chat", h.owner, header(inPost), message(text, object{"sessionId": session})))
	h.askAgent(t, "AIlumina", text, header(inAgent))
	alone := h.socket(t, "/ws?sessionId="+session, h.owner, nil)
	alone.say(text, nil)
	alone.say(text, nil)
	var whole string
	await.NoError(t, "the log links the lines of each message", func() error {
		all, log := h.logged(t)
		whole = log
		for id, bySocket := range map[string]bool{byHeader: true, byQuery: true, byPost: false, byAgent: true} {
			if err := linked(all[id], bySocket); err != nil {
				return fmt.Errorf("%s: %w", id, err)
			}
			delete(all, id)
		}
		turns := 0
		for _, lines := range all {
			if linked(lines, true) == nil {
				turns++
			}
		}
		if turns != 2 {
			return fmt.Errorf("%d messages without a trace have an id of their own, want 2", turns)
		}
		return nil
	})
	lacks(t, "the log", whole, session, words)
}
