package chatws

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/chat"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

// reader reads a stream of events.
type reader struct {
	t *testing.T
	s *bufio.Scanner
	// id is the last one that was told.
	id string
	// comments counts lines that are for nobody.
	comments int
}

func read(t *testing.T, resp *http.Response) *reader {
	t.Helper()
	if got := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || got != "text/event-stream" {
		t.Fatalf("%s, %s: %s", resp.Status, got, body(t, resp))
	}
	r := &reader{t: t, s: bufio.NewScanner(resp.Body)}
	r.s.Buffer(nil, 64<<20)
	return r
}

// next returns the next frame; false at the end.
func (r *reader) next() (said, bool) {
	r.t.Helper()
	var f said
	for r.s.Scan() {
		line := r.s.Text()
		if id, ok := strings.CutPrefix(line, "id: "); ok {
			r.id = id
		} else if data, ok := strings.CutPrefix(line, "data: "); ok {
			f.raw = data
			if err := json.Unmarshal([]byte(data), &f); err != nil {
				r.t.Fatalf("%s: %v", data, err)
			}
		} else if strings.HasPrefix(line, ":") {
			r.comments++
		} else if line == "" && f.Type != "" {
			return f, true
		}
	}
	return f, false
}

// events reads a whole stream.
func events(t *testing.T, resp *http.Response) []said {
	t.Helper()
	var out []said
	r := read(t, resp)
	for f, ok := r.next(); ok; f, ok = r.next() {
		out = append(out, f)
	}
	return out
}

func TestPostStreams(t *testing.T) {
	b := open(t, Options{})
	resp := b.post("/api/chat", `{"text":"Search files"}`)
	b.says("I'll search")
	b.calls("search_files", `{"query":"files"}`)
	b.stops()
	b.says("Found file1.txt")
	b.stops()
	r := read(t, resp)
	hello, _ := r.next()
	if hello.Type != "connection" || hello.get("sessionId") == "" || resp.Header.Get("Stoa-Session") != hello.get("sessionId") || r.id != "" {
		t.Fatal(hello.raw)
	}
	var frames []said
	for f, ok := r.next(); ok; f, ok = r.next() {
		if frames = append(frames, f); f.Type != "text" && r.id != fmt.Sprint(f.Seq) {
			t.Errorf("id %s of %s", r.id, f.raw)
		}
	}
	want := []string{
		"text I'll search",
		`status processing search_files {"arguments":{"query":"files"}}`,
		`status complete search_files {"files":["file1.txt"]}`,
		"text Found file1.txt",
	}
	if diff := cmp.Diff(want, source(frames)); diff != "" {
		t.Error(diff)
	}
	if last := frames[len(frames)-1]; last.Type != "turn.ended" || frames[0].Type != "input" {
		t.Error(last.raw)
	}
}

// A stream that breaks off is taken up where it was, at any of its frames; the
// turn does not notice.
func TestPostResumes(t *testing.T) {
	b := open(t, Options{Connections: 1000, Rate: 1e6, Burst: 1e6})
	const message = `{"text":"Search","sessionId":"s","key":"k1"}`
	resp := b.post("/api/chat", message)
	r := read(t, resp)
	r.next()
	ref := newLedger()
	ref.at = place{}
	var ids []string
	var before []*ledger
	story(b, func() {
		for at := ref.at; ref.at == at && ref.err == nil; {
			f, ok := r.next()
			if !ok {
				t.Fatal("the stream ended")
			}
			ref.add(f)
			ids, before = append(ids, r.id), append(before, ref.clone())
			if r.id != ref.at.String() {
				t.Errorf("the id is %s at %v", r.id, ref.at)
			}
		}
	})
	for f, ok := r.next(); ok; f, ok = r.next() {
		ref.add(f)
	}
	if ref.err != nil || len(ids) < 10 {
		t.Fatal(ref.err, len(ids))
	}
	for i, id := range ids {
		for _, text := range []string{message, `{"sessionId":"s"}`} {
			l := before[i].clone()
			for _, f := range events(t, b.post("/api/chat", text, "Last-Event-ID", id)) {
				l.add(f)
			}
			if l.err != nil {
				t.Error(l.err)
			} else if diff := cmp.Diff(ref.events, l.events); diff != "" {
				t.Errorf("after %s: %s", id, diff)
			}
		}
	}
	// The whole again, by the key alone.
	l := newLedger()
	for _, f := range events(t, b.post("/api/chat", message)) {
		l.add(f)
	}
	if diff := cmp.Diff(ref.events, l.events); diff != "" || l.err != nil {
		t.Error(l.err, diff)
	}
}

func TestPostSurvivesItsClient(t *testing.T) {
	b := open(t, Options{})
	resp := b.post("/api/chat", `{"text":"Hi","sessionId":"s"}`)
	b.says("One ")
	resp.Body.Close()
	b.says("two.")
	b.stops()
	await.Until(t, "the turn is over", func() bool {
		return strings.Contains(body(t, b.get("/api/chat/s")), `"content":"One two."`)
	})
}

func TestPostAnswersInJSON(t *testing.T) {
	b := open(t, Options{})
	answers := make(chan *http.Response)
	go func() {
		answers <- b.post("/api/chat", `{"text":"Search files","sessionId":"s","key":"k"}`, "Accept", "application/json")
	}()
	b.says("I'll search")
	b.calls("search_files", `{"query":"files"}`)
	b.stops()
	b.says("Found file1.txt")
	b.stops()
	check := func(resp *http.Response) {
		t.Helper()
		var got outcome
		if err := json.Unmarshal([]byte(body(t, resp)), &got); err != nil || resp.StatusCode != http.StatusOK {
			t.Fatal(resp.Status, err)
		}
		var have []string
		for _, m := range got.Messages {
			have = append(have, strings.TrimSpace(m.Role+" "+m.Kind+" "+m.ToolName+" "+m.Content+string(m.Data)))
		}
		want := []string{"user   Search files", "assistant   I'll search", `assistant start search_files {"arguments":{"query":"files"}}`,
			`tool complete search_files {"files":["file1.txt"]}`, "assistant   Found file1.txt"}
		if diff := cmp.Diff(want, have); diff != "" {
			t.Error(diff)
		}
		if got.Session != "s" || got.Text != "Found file1.txt" || got.End.Reason != chat.ReasonDone || got.Turn == "" {
			t.Errorf("%+v", got)
		}
	}
	check(<-answers)
	check(b.post("/api/chat", `{"text":"Search files","sessionId":"s","key":"k"}`, "Accept", "application/json"))
}

// The stream of a message that waits tells of its own turn only.
func TestPostWaitsForItsTurn(t *testing.T) {
	b := open(t, Options{})
	one := read(t, b.post("/api/chat", `{"text":"one","sessionId":"s"}`))
	b.says("First.")
	two := b.post("/api/chat", `{"text":"two","sessionId":"s"}`)
	b.stops()
	b.says("Second.")
	b.stops()
	var frames []said
	for f, ok := one.next(); ok; f, ok = one.next() {
		frames = append(frames, f)
	}
	if got := source(frames); !cmp.Equal(got, []string{"text First."}) {
		t.Error(got)
	}
	if got := source(events(t, two)); !cmp.Equal(got, []string{"text Second."}) {
		t.Error(got)
	}
}

func TestPostRefuses(t *testing.T) {
	b := open(t, Options{MessageBytes: 2000})
	for _, tc := range []struct {
		path, body, last string
		status           int
		say              string
	}{
		{"/api/chat", `nonsense`, "", 400, "not JSON"},
		{"/api/chat", `{}`, "", 400, "/text"},
		{"/api/chat", `{"text":"hi","session":"s"}`, "", 400, "sessionId"},
		{"/api/chat", `{"text":"hi","agent":"nobody"}`, "", 400, "nobody"},
		{"/api/chat", `{"text":"` + strings.Repeat("x", 2000) + `"}`, "", 400, "2000 bytes"},
		{"/api/chat", `{"text":"hi","sessionId":"s"}`, "3", 400, "/key"},
		{"/api/chat", `{}`, "3", 400, "/sessionId"},
		{"/api/chat", `{"sessionId":"s"}`, "three", 400, "Last-Event-ID"},
		{"/api/chat/approve", `{"id":"a_x","decision":"approve"}`, "", 400, "a_x"},
		{"/api/chat/approve", `{"id":"a_x","decision":"maybe"}`, "", 400, "approve, deny, edit"},
		{"/api/chat/abort", `{}`, "", 400, "/sessionId"},
	} {
		var header []string
		if tc.last != "" {
			header = []string{"Last-Event-ID", tc.last}
		}
		resp := b.post(tc.path, tc.body, header...)
		if text := body(t, resp); resp.StatusCode != tc.status || !strings.Contains(text, tc.say) {
			t.Errorf("%s %s: %s %s", tc.path, clip(tc.body), resp.Status, text)
		}
	}
	if resp := b.get("/api/chat/none"); resp.StatusCode != 400 || !strings.Contains(body(t, resp), "no conversation") {
		t.Error(resp.Status)
	}
}

func TestPostRateLimit(t *testing.T) {
	b := open(t, Options{Rate: 0.001, Burst: 1}, func(s *chat.Settings) { s.Texts.RateLimited = "Too busy." })
	one := b.post("/api/chat", `{"text":"hi","sessionId":"s"}`)
	resp := b.post("/api/chat", `{"text":"hi","sessionId":"s"}`)
	if text := body(t, resp); resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "" || !strings.Contains(text, "Too busy.") {
		t.Error(resp.Status, text)
	}
	// Stopping is not held back.
	resp = b.post("/api/chat/abort", `{"sessionId":"s"}`)
	if text := body(t, resp); !strings.Contains(text, `"aborted":true`) {
		t.Error(resp.Status, text)
	}
	if frames := events(t, one); !strings.Contains(frames[len(frames)-1].raw, `"reason":"aborted"`) {
		t.Error(frames[len(frames)-1].raw)
	}
}

func TestApproveByPost(t *testing.T) {
	b := open(t, Options{})
	r := read(t, b.post("/api/chat", `{"text":"Write","sessionId":"s"}`, "Authorization", "Bearer "+owner))
	b.calls("write_file", `{"path":"a"}`)
	b.stops()
	var f said
	for ok := true; f.Type != "approval.asked"; f, ok = r.next() {
		if !ok {
			t.Fatal("nobody was asked")
		}
	}
	var p struct {
		Approval struct{ ID string }
	}
	if err := json.Unmarshal(f.Payload, &p); err != nil {
		t.Fatal(err)
	}
	if text := body(t, b.get("/api/chat/s")); !strings.Contains(text, p.Approval.ID) {
		t.Error(text)
	}
	resp := b.post("/api/chat/approve", `{"id":"`+p.Approval.ID+`","decision":"edit","args":{"path":"b"},"remember":"session"}`, "Authorization", "Bearer "+owner)
	if resp.StatusCode != http.StatusOK {
		t.Fatal(body(t, resp))
	}
	b.says("ok")
	b.stops()
	done := ""
	for f, ok := r.next(); ok; f, ok = r.next() {
		if f.Type == "status" {
			done = f.raw
		}
	}
	if !strings.Contains(done, `written: {\"path\":\"b\"}`) && !strings.Contains(done, `written: {\\\"path\\\":\\\"b\\\"}`) {
		t.Error(done)
	}
}

// GET is what an EventSource uses: it follows, and comes back by itself.
func TestFollow(t *testing.T) {
	b := open(t, Options{})
	c := b.dial("sessionId=s", "")
	c.find("connection")
	c.message("one")
	b.says("First.")
	b.stops()
	c.find("turn.ended")
	r := read(t, b.get("/api/chat/s", "Accept", "text/event-stream"))
	if f, _ := r.next(); f.get("state") != "reconnected" {
		t.Fatal(f.raw)
	}
	c.message("two")
	b.says("Second.")
	b.stops()
	var frames []said
	for f, _ := r.next(); ; f, _ = r.next() {
		if frames = append(frames, f); f.Type == "turn.ended" {
			break
		}
	}
	if got := source(frames); !cmp.Equal(got, []string{"text Second."}) {
		t.Error(got)
	}
	// From the beginning.
	r = read(t, b.get("/api/chat/s?after_seq=0", "Accept", "text/event-stream"))
	l := newLedger()
	for ends := 0; ends < 2; {
		f, ok := r.next()
		if !ok {
			t.Fatal("the stream ended")
		}
		if l.add(f); f.Type == "turn.ended" {
			ends++
		}
	}
	if l.err != nil || l.at.Seq != frames[len(frames)-1].Seq {
		t.Error(l.err, l.at)
	}
	// The hub stops: the stream says so and ends.
	b.host.Close()
	f, ok := r.next()
	if !ok || f.get("state") != "reconnecting" || f.get("message") != chat.DefaultTexts.Maintenance {
		t.Error(f.raw)
	}
	if _, ok := r.next(); ok {
		t.Error("the stream goes on")
	}
}
