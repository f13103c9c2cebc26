package hub_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/llm/llmtest"
	"github.com/stoahub/stoa/internal/secret"
)

// faked is an edit that makes a fake of OpenAI the model. gone gets the moment
// at which the fake noticed that nobody listens to an answer that hangs.
func faked(t *testing.T, gone chan<- time.Time, reply func(n int, a llmtest.Asked) llmtest.Reply) hubtest.Edit {
	fake := llmtest.NewFake(t, llmtest.OpenAI, reply)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fake.ServeHTTP(w, r)
		if r.Context().Err() != nil {
			gone <- time.Now()
		}
	}))
	t.Cleanup(srv.Close)
	return hubtest.Config(func(c *config.Config) {
		m := config.DefaultModel()
		m.Name, m.Provider, m.Model, m.BaseURL, m.APIKey = "fake", config.OpenAI, "test-model", srv.URL, secret.New(llmtest.Key)
		c.Models.Named = append(c.Models.Named, m)
	})
}

// wants is what the model answers to a message: the tool that it names is
// called, once; else it speaks without an end.
func wants(_ int, a llmtest.Asked) llmtest.Reply {
	body := string(a.Body)
	words := body[strings.LastIndex(body, `"role":"user"`):]
	for _, tool := range []string{"up__look", "up__wipe"} {
		if strings.Contains(words, "use "+tool) && !strings.Contains(words, `"role":"tool"`) {
			return llmtest.OpenAI.Answer(llmtest.Said{Calls: []llmtest.Called{{ID: "call_1", Name: tool, Args: []string{"{}"}}}})
		}
	}
	return llmtest.Reply{Frames: llmtest.OpenAI.Say(llmtest.Said{Text: []string{"I ", "go on "}})[:3], Hang: true}
}

// An abort reaches the model's stream, the running tool and a question to a
// person, in that order of each: the effect comes first, then the record, then
// the end of the turn. How long it takes is told, not judged: the machine may be
// busy.
func TestChatAbort(t *testing.T) {
	hubtest.Parallel(t)
	gone := make(chan time.Time, 64)
	record := filepath.Join(t.TempDir(), "record")
	spec := peer.Spec{Name: "up", RecordPath: record, Tools: []peer.Tool{
		{Name: "look", Behaviour: peer.Behaviour{Kind: peer.Slow, For: time.Minute}, RawDefinition: `{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`},
		{Name: "wipe", RawDefinition: `{"name":"wipe","inputSchema":{"type":"object"},"annotations":{"destructiveHint":true}}`},
	}}
	h := hubtest.New(t, hubtest.Stdio("up", spec), faked(t, gone, wants))
	client := h.Client(t, hubtest.ClientOptions{})
	await.Until(t, "the server is there", func() bool { return offers(client, "up__look") })
	told := func(of string) int {
		b, _ := os.ReadFile(record) // not there before the first line
		return bytes.Count(b, []byte(`"`+of+`"`))
	}
	for _, tc := range []struct {
		name, say, at string
		want          []string // frames, in this order
		reached       func(began time.Time, before int) time.Duration
	}{
		{"the model speaks", "go on", `"type":"text"`, []string{`"turn.ended"`},
			func(began time.Time, _ int) time.Duration { return (<-gone).Sub(began) }},
		{"a tool runs", "use up__look", `"state":"processing"`, []string{`"status":"cancelled"`, `"turn.ended"`},
			func(began time.Time, before int) time.Duration {
				await.Until(t, "the server is told", func() bool { return told("notifications/cancelled") > before })
				return time.Since(began)
			}},
		{"a person is asked", "use up__wipe", `"type":"approval.asked"`, []string{`"approval.decided"`, `"status":"cancelled"`, `"turn.ended"`}, nil},
	} {
		var reached, ended []time.Duration
		for range soak(5, 50) {
			c := dial(t, h, "/ws?sessionId=s") // one may not say so much in so short a time
			before, calls := told("notifications/cancelled"), told("tools/call")
			c.send(`{"type":"message","payload":{"text":` + quoted(tc.say) + `}}`)
			at := c.sees(tc.at)
			if tc.say == "use up__look" { // one that was not sent yet needs not be cancelled
				await.Until(t, "the server is called", func() bool { return told("tools/call") > calls })
			}
			began := time.Now()
			c.send(`{"type":"abort"}`)
			for _, want := range tc.want {
				if f := c.sees(want); want == `"turn.ended"` && f.Payload.End.Reason != "aborted" {
					t.Fatalf("%s: %s", tc.name, f.raw)
				}
			}
			ended = append(ended, time.Since(began))
			if tc.reached != nil {
				reached = append(reached, tc.reached(began, before))
			} else {
				c.send(`{"type":"approve","payload":{"id":` + quoted(idIn(at.raw)) + `,"decision":"approve"}}`)
				if f := c.sees(`"frame":"approve"`); f.Type != "error" {
					t.Errorf("a question that is over was answered: %s", f.raw)
				}
			}
			c.conn.CloseNow()
		}
		t.Logf("%s: reached after %s, turn ended after %s", tc.name, spread(reached), spread(ended))
	}
	st, err := os.ReadFile(record)
	if err != nil || bytes.Contains(st, []byte(`"wipe"`)) {
		t.Errorf("a call that nobody allowed reached its server (%v)", err)
	}
}

// sees reads on to a frame that holds some text.
func (c *talk) sees(text string) heard {
	c.t.Helper()
	for {
		if f := c.next(); strings.Contains(f.raw, text) {
			return f
		}
	}
}

// spread is the median and the longest of some times.
func spread(list []time.Duration) string {
	if len(list) == 0 {
		return "-"
	}
	slices.Sort(list)
	return list[len(list)/2].Round(10*time.Microsecond).String() + " (at most " + list[len(list)-1].Round(10*time.Microsecond).String() + ")"
}
