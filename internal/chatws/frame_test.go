package chatws

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/llm"
)

func TestFrames(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	opaque := &llm.Opaque{Provider: "p", Data: json.RawMessage(`"secret"`)}
	for name, tc := range map[string]struct {
		event  chat.Event
		offset int
		want   []string
	}{
		"live text": {chat.Event{Seq: 5, Time: at, Type: chat.TextPart, Turn: "t2", Text: "h\"é", Offset: 3, Live: true}, 3,
			[]string{`{"type":"text","seq":5,"turn":"t2","offset":3,"end":7,"payload":{"content":"h\"é"}}`}},
		"the end of a part": {chat.Event{Seq: 5, Time: at, Type: chat.ReasoningPart, Turn: "t2", Offset: 3, Opaque: opaque}, 3,
			[]string{`{"type":"reasoning","seq":5,"turn":"t2","offset":3,"end":3,"last":true,"payload":{"content":""}}`}},
		"an input": {chat.Event{Seq: 1, Time: at, Type: chat.InputAdded, Input: &chat.Input{ID: "i1", Text: "<hi>", Key: "k", Principal: "local", Session: "s"}}, 0,
			[]string{`{"type":"input","seq":1,"ts":"2026-01-02T03:04:05Z","payload":{"input":{"id":"i1","text":"<hi>","key":"k"}}}`}},
		"a call": {chat.Event{Seq: 6, Time: at, Type: chat.CallMade, Turn: "t2", Opaque: opaque, Call: &chat.Call{ID: "c6", Name: "x", Args: json.RawMessage(`{"n":1e400}`)}}, 0,
			[]string{`{"type":"call","seq":6,"ts":"2026-01-02T03:04:05Z","turn":"t2","call":"c6","payload":{"call":{"id":"c6","name":"x","args":{"n":1e400}}}}`}},
		"progress is in no log": {chat.Event{Seq: 6, Time: at, Type: chat.CallProgress, Turn: "t2", Live: true, Progress: &chat.Progress{Call: "c6", Progress: 1, Total: 2}}, 0,
			[]string{`{"type":"call.progress","ts":"2026-01-02T03:04:05Z","turn":"t2","call":"c6","payload":{"progress":{"call":"c6","progress":1,"total":2}}}`}},
		"a result that is an array": {chat.Event{Seq: 8, Time: at, Type: chat.CallDone, Turn: "t2", Result: &chat.Result{Call: "c6", Name: "x", Content: ` [1, 2] `, Status: chat.OK, TookMS: 7}}, 0,
			[]string{`{"type":"status","seq":8,"ts":"2026-01-02T03:04:05Z","turn":"t2","call":"c6","payload":{"state":"complete","tool":"x","message":"x is done.","data":{"result":[1,2]},"status":"ok","tookMs":7}}`}},
		"a result that is nearly JSON": {chat.Event{Seq: 8, Time: at, Type: chat.CallDone, Turn: "t2", Result: &chat.Result{Call: "c6", Name: "x", Content: `{"a":`, IsError: true, Status: chat.Denied}}, 0,
			[]string{`{"type":"status","seq":8,"ts":"2026-01-02T03:04:05Z","turn":"t2","call":"c6","payload":{"state":"complete","tool":"x","message":"x: denied.","data":{"text":"{\"a\":"},"isError":true,"status":"denied"}}`}},
		"an end with words": {chat.Event{Seq: 9, Time: at, Type: chat.TurnEnded, Turn: "t2", End: &chat.End{Reason: chat.ReasonFailed, Text: "Sorry."}}, 0,
			[]string{`{"type":"text","seq":9,"turn":"t2","offset":0,"end":6,"payload":{"content":"Sorry.","notice":true}}`,
				`{"type":"turn.ended","seq":9,"ts":"2026-01-02T03:04:05Z","turn":"t2","payload":{"end":{"reason":"failed","text":"Sorry."}}}`}},
		"an end whose words are known": {chat.Event{Seq: 9, Time: at, Type: chat.TurnEnded, Turn: "t2", End: &chat.End{Reason: chat.ReasonFailed, Text: "Sorry."}}, 6,
			[]string{`{"type":"turn.ended","seq":9,"ts":"2026-01-02T03:04:05Z","turn":"t2","payload":{"end":{"reason":"failed","text":"Sorry."}}}`}},
	} {
		var got []string
		for _, f := range frames(&tc.event, tc.offset) {
			got = append(got, string(f))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A history has all that was said, in the words of the source.
func TestHistory(t *testing.T) {
	at := time.UnixMilli(1000)
	var st chat.State
	for _, e := range []chat.Event{
		{Type: chat.InputAdded, Input: &chat.Input{ID: "i1", Text: "Search"}},
		{Type: chat.TurnStarted, Turn: "t2", Start: &chat.Start{Input: "i1"}},
		{Type: chat.ReasoningPart, Turn: "t2", Text: "Hm. "},
		{Type: chat.TextPart, Turn: "t2", Text: "I'll "},
		{Type: chat.TextPart, Turn: "t2", Text: "look"},
		{Type: chat.CallMade, Turn: "t2", Call: &chat.Call{ID: "c6", Name: "find", Args: json.RawMessage(`{"q":1}`)}},
		{Type: chat.AnswerDone, Turn: "t2", Answer: &chat.Answer{}},
		{Type: chat.CallStarted, Turn: "t2", Call: &chat.Call{ID: "c6", Name: "find"}},
		{Type: chat.CallDone, Turn: "t2", Result: &chat.Result{Call: "c6", Content: "nothing", IsError: true}},
		{Type: chat.TextPart, Turn: "t2", Text: "There is "},
		{Type: chat.InputAdded, Input: &chat.Input{ID: "i11", Text: "And?", Key: "k"}},
	} {
		e.Seq, e.Time = st.Seq+1, at
		if err := st.Apply(&e); err != nil {
			t.Fatal(err)
		}
	}
	want := []Message{
		{ID: "m2", Role: "user", Content: "Search", Metadata: &Metadata{Turn: "t2"}},
		{ID: "m7", Role: "assistant", Content: "I'll look", Metadata: &Metadata{Turn: "t2", Reasoning: "Hm. "}},
		{ID: "m7.1", Role: "assistant", Data: json.RawMessage(`{"arguments":{"q":1}}`), ToolName: "find", Kind: "start", Metadata: &Metadata{Turn: "t2", Call: "c6"}},
		{ID: "m9", Role: "tool", Content: "nothing", ToolName: "find", Kind: "complete", Metadata: &Metadata{Turn: "t2", Call: "c6", IsError: true}},
		{ID: "m11", Role: "assistant", Content: "There is ", Metadata: &Metadata{Turn: "t2", Partial: true}},
		{ID: "i11", Role: "user", Content: "And?", Metadata: &Metadata{Key: "k", Queued: true}},
	}
	for i := range want {
		want[i].CreatedAt = 1000
	}
	if diff := cmp.Diff(want, history(&st)); diff != "" {
		t.Error(diff)
	}
}

func TestBoundedHistory(t *testing.T) {
	many := make([]Message, historyMessages+5)
	if got, cut := bounded(many); len(got) != historyMessages || !cut {
		t.Errorf("%d, %v", len(got), cut)
	}
	long := []Message{{ID: "a", Content: strings.Repeat("x", historyBytes/2)}, {ID: "b", Content: strings.Repeat("x", historyBytes/2)}, {ID: "c", Content: "x"}}
	if got, cut := bounded(long); len(got) != 2 || got[1].ID != "c" || !cut {
		t.Errorf("%d, %v", len(got), cut)
	}
	// The last message is told whatever its length.
	huge := []Message{{ID: "a"}, {ID: "b", Content: strings.Repeat("x", 2*historyBytes)}}
	if got, cut := bounded(huge); len(got) != 1 || got[0].ID != "b" || !cut {
		t.Errorf("%d, %v", len(got), cut)
	}
	if got, cut := bounded(nil); len(got) != 0 || cut {
		t.Errorf("%d, %v", len(got), cut)
	}
}
