package peer

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stoahub/stoa/internal/hubtest/await"
)

func TestHTTPLegacySession(t *testing.T) {
	h := Serve(t, everything())
	w := newWire(t, h)
	call := callLine("count", `"_meta":{}`)
	if status, _ := w.post(call); status != http.StatusBadRequest {
		t.Errorf("without a session: %d", status)
	}
	w.initialize()
	if status, ms := w.post(call); status != http.StatusOK || toolText(t, ms[0].Result) != "1" {
		t.Errorf("count: %d %+v", status, ms)
	}
	for _, tc := range []struct {
		name   string
		extra  []string
		status int
	}{
		{"unknown session", []string{"Mcp-Session-Id", "none"}, 404},
		{"no session", []string{"Mcp-Session-Id", ""}, 400},
		{"other version", []string{"Mcp-Protocol-Version", "2025-06-18"}, 400},
		{"no version", []string{"Mcp-Protocol-Version", ""}, 400},
		{"no accept", []string{"Accept", "application/json"}, 406},
	} {
		if status, _ := w.post(call, tc.extra...); status != tc.status {
			t.Errorf("%s: %d, want %d", tc.name, status, tc.status)
		}
	}
	old := h.Sessions()
	h.Restart()
	w.client.CloseIdleConnections() // they broke, and a POST is not repeated
	if status, _ := w.post(call); status != http.StatusNotFound {
		t.Errorf("old session after a restart: %d", status)
	}
	w.header.Del("Mcp-Session-Id")
	w.header.Del("Mcp-Protocol-Version")
	w.initialize()
	if _, ms := w.post(call); toolText(t, ms[0].Result) != "1" || h.State().Starts != 2 {
		t.Errorf("the restarted peer remembers: %+v %+v", ms, h.State())
	}
	if now := h.Sessions(); len(old) != 1 || len(now) != 1 || old[0] == now[0] {
		t.Errorf("sessions %v, then %v", old, now)
	}
	resp, err := w.do(t.Context(), http.MethodDelete, "")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if len(h.Sessions()) != 0 {
		t.Errorf("sessions after DELETE: %v", h.Sessions())
	}
	if last := h.Requests()[len(h.Requests())-1]; last.Verb != http.MethodDelete || last.Header.Get("Mcp-Session-Id") == "" {
		t.Errorf("last request %+v", last)
	}
	h.Kill()
	if _, err := w.do(t.Context(), http.MethodPost, call); err == nil {
		t.Error("a killed peer answers")
	}
}

func TestHTTPForms(t *testing.T) {
	for _, opts := range []HTTP{{}, {JSON: true}, {Decorated: true}} {
		spec := everything()
		spec.HTTP = opts
		h := Serve(t, spec)
		w := newWire(t, h)
		w.initialize()
		_, ms := w.post(callLine("progress", `"_meta":{"progressToken":"p"}`))
		if got := methods(ms); got != "progress message progress message progress message " {
			t.Errorf("%+v: legacy order %q", opts, got)
		}
		w = newWire(t, h)
		_, ms = w.post(callLine("progress", modernMeta), modernHeaders("progress")...)
		if got := methods(ms); got != "progress message progress message progress message " {
			t.Errorf("%+v: modern order %q", opts, got)
		}
		resp, err := w.do(t.Context(), http.MethodPost, callLine("echo", modernMeta), modernHeaders("echo")...)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		want := "text/event-stream"
		if opts.JSON {
			want = "application/json"
		}
		if got := resp.Header.Get("Content-Type"); got != want {
			t.Errorf("%+v: content type %s", opts, got)
		}
	}
}

func TestHTTPLegacyStreams(t *testing.T) {
	h := Serve(t, everything())
	w := newWire(t, h)
	w.initialize()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	get, err := w.do(ctx, http.MethodGet, "")
	if err != nil {
		t.Fatal(err)
	}
	defer get.Body.Close()
	if h.OpenStreams() != 1 {
		t.Errorf("%d streams", h.OpenStreams())
	}
	if second, err := w.do(ctx, http.MethodGet, ""); err != nil || second.StatusCode != http.StatusConflict {
		t.Errorf("second GET: %+v %v", second, err)
	} else {
		second.Body.Close()
	}
	w.post(callLine("notify", `"_meta":{}`))
	if m, err := messages(t, get)(); err != nil || m.Method != "notifications/tools/list_changed" {
		t.Errorf("on the GET stream: %+v %v", m, err)
	}
	cancel()
	await.Until(t, "the stream is closed", func() bool { return h.OpenStreams() == 0 })

	// A question goes out on the stream of its call, the answer in a POST.
	post, err := w.do(t.Context(), http.MethodPost, callLine("elicit", `"_meta":{}`))
	if err != nil {
		t.Fatal(err)
	}
	defer post.Body.Close()
	next := messages(t, post)
	ask, err := next()
	if err != nil || ask.Method != "elicitation/create" {
		t.Fatalf("question: %+v %v", ask, err)
	}
	if status, _ := w.post(`{"jsonrpc":"2.0","id":` + string(ask.ID) + `,"result":{"action":"accept"}}`); status != http.StatusAccepted {
		t.Errorf("answer: %d", status)
	}
	if m, err := next(); err != nil || toolText(t, m.Result) != `{"action":"accept"}` {
		t.Errorf("after the answer: %+v %v", m, err)
	}
}

func TestHTTPCancel(t *testing.T) {
	h := Serve(t, everything())
	w := newWire(t, h)
	type ending struct {
		resp *http.Response
		err  error
	}
	ended := make(chan ending, 1)
	post := func(ctx context.Context, meta string, headers ...string) {
		resp, err := w.do(ctx, http.MethodPost, callLine("slow", meta), headers...)
		ended <- ending{resp, err}
	}
	// Modern: the end of the stream is the cancellation.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go post(ctx, modernMeta, modernHeaders("slow")...)
	await.Until(t, "slow runs", func() bool { return len(h.State().Called) == 1 })
	cancel()
	if e := <-ended; e.err == nil {
		e.resp.Body.Close()
		t.Error("a cancelled request was answered")
	}
	await.Until(t, "modern slow is cancelled", func() bool { return len(h.State().Cancelled) == 1 })
	// Legacy: a notification is.
	w.initialize()
	go post(t.Context(), `"_meta":{}`)
	await.Until(t, "slow runs again", func() bool { return len(h.State().Called) == 2 })
	w.post(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
	e := <-ended
	if e.err != nil {
		t.Fatal(e.err)
	}
	defer e.resp.Body.Close()
	if m, err := messages(t, e.resp)(); !errors.Is(err, io.EOF) || len(h.State().Cancelled) != 2 {
		t.Errorf("after the cancellation: %+v %v, state %+v", m, err, h.State())
	}
}

func TestHTTPModernRefusals(t *testing.T) {
	spec := everything()
	spec.Tools = append(spec.Tools, Tool{Name: "größe", RawDefinition: `{"name":"größe","inputSchema":{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}`})
	h := Serve(t, spec)
	for _, tc := range []struct {
		name, body string
		headers    []string
		status     int
		code       int
	}{
		{"good", callLine("echo", modernMeta), modernHeaders("echo"), 200, 0},
		{"no version header", callLine("echo", modernMeta), modernHeaders("echo")[2:], 400, codeHeaderMismatch},
		{"other version header", callLine("echo", modernMeta), append(modernHeaders("echo"), "Mcp-Protocol-Version", Legacy), 400, codeHeaderMismatch},
		{"no method", callLine("echo", modernMeta), append(modernHeaders("echo"), "Mcp-Method", ""), 400, codeHeaderMismatch},
		{"other name", callLine("echo", modernMeta), modernHeaders("raw"), 400, codeHeaderMismatch},
		{"encoded name", callLine("echo", modernMeta), modernHeaders("=?base64?ZWNobw==?="), 200, 0},
		{"param not mirrored", callLine("größe", `"arguments":{"region":"eu"},`+modernMeta), modernHeaders("=?base64?Z3LDtsOfZQ==?="), 400, codeHeaderMismatch},
		{"param mirrored", callLine("größe", `"arguments":{"region":"eu"},`+modernMeta), append(modernHeaders("=?base64?Z3LDtsOfZQ==?="), "Mcp-Param-Region", "eu"), 200, 0},
		{"no meta", callLine("echo", `"_meta":{}`), modernHeaders("echo"), 400, codeInvalidParams},
		{"unknown version", callLine("echo", strings.Replace(modernMeta, Modern, "2099-01-01", 1)), append(modernHeaders("echo"), "Mcp-Protocol-Version", "2099-01-01"), 400, codeVersion},
		{"unknown method", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{` + modernMeta + `}}`, append(modernHeaders("x"), "Mcp-Method", "ping"), 404, codeUnknownMethod},
		{"unknown tool", callLine("none", modernMeta), modernHeaders("none"), 400, codeInvalidParams},
		{"literal error", callLine("error", modernMeta), modernHeaders("error"), 200, -31999},
	} {
		status, ms := newWire(t, h).post(tc.body, tc.headers...)
		if len(ms) != 1 || status != tc.status || (reply{err: ms[0].Error}).code() != tc.code {
			t.Errorf("%s: %d %+v, want %d and code %d", tc.name, status, ms, tc.status, tc.code)
		}
	}
}

func TestHTTPEras(t *testing.T) {
	legacy, modern := everything(), everything()
	legacy.Era, modern.Era = EraLegacy, EraModern
	modern.HTTP.JSON = true
	hl, hm := Serve(t, legacy), Serve(t, modern)
	if status, ms := newWire(t, hl).post(callLine("echo", modernMeta), modernHeaders("echo")...); status != 400 || (reply{err: ms[0].Error}).code() != codeServer {
		t.Errorf("modern request to a legacy peer: %d %+v", status, ms)
	}
	if status, ms := newWire(t, hm).post(initLine); status != 400 || (reply{err: ms[0].Error}).code() != codeVersion {
		t.Errorf("initialize at a modern peer: %d %+v", status, ms)
	}
	get, err := newWire(t, hm).do(t.Context(), http.MethodGet, "")
	if err != nil || get.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET at a modern peer: %+v %v", get, err)
	}
	get.Body.Close()
	legacy.HTTP = HTTP{Sessionless: true, PlainErrors: true, Token: "t0"}
	w := newWire(t, Serve(t, legacy))
	if status, _ := postStatus(w, initLine); status != http.StatusUnauthorized {
		t.Errorf("without a token: %d", status)
	}
	w.header.Set("Authorization", "Bearer t0")
	if status, body := postStatus(w, callLine("echo", modernMeta), modernHeaders("echo")...); status != 400 || strings.HasPrefix(body, "{") {
		t.Errorf("plain refusal: %d %s", status, body)
	}
	if status, ms := w.post(callLine("count", `"_meta":{}`)); status != 200 || toolText(t, ms[0].Result) != "1" {
		t.Errorf("sessionless: %d %+v", status, ms)
	}
}

func TestHTTPModernListen(t *testing.T) {
	h := Serve(t, everything())
	w := newWire(t, h)
	listen, err := w.do(t.Context(), http.MethodPost, `{"jsonrpc":"2.0","id":9,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["mem://a"]},`+modernMeta+`}}`,
		"Mcp-Protocol-Version", Modern, "Mcp-Method", "subscriptions/listen")
	if err != nil {
		t.Fatal(err)
	}
	defer listen.Body.Close()
	next := messages(t, listen)
	var got []string
	read := func() {
		m, err := next()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Method+" "+string(m.Params)+string(m.Result))
	}
	read()
	w.post(callLine("notify", modernMeta), modernHeaders("notify")...) // not asked for
	w.post(callLine("touch", modernMeta), modernHeaders("touch")...)
	read()
	h.EndStreams()
	read()
	const tag = `"_meta":{"io.modelcontextprotocol/subscriptionId":9}`
	want := []string{
		`notifications/subscriptions/acknowledged {` + tag + `,"notifications":{"resourceSubscriptions":["mem://a"]}}`,
		`notifications/resources/updated {` + tag + `,"uri":"mem://a"}`,
		` {` + tag + `,"resultType":"complete"}`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestHTTPBrokenAnswers(t *testing.T) {
	for _, opts := range []HTTP{{}, {JSON: true}} {
		spec := everything()
		spec.HTTP = opts
		h := Serve(t, spec)
		w := newWire(t, h)
		if _, err := w.do(t.Context(), http.MethodPost, callLine("crash", modernMeta), modernHeaders("crash")...); err == nil {
			t.Error("crash was answered")
		}
		resp, err := w.do(t.Context(), http.MethodPost, callLine("partial", modernMeta), modernHeaders("partial")...)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(resp.Body); err == nil || len(b) == 0 {
			t.Errorf("%+v: not half an answer: %q", opts, b)
		}
		resp.Body.Close()
	}
}

func TestHTTPKillEndsHang(t *testing.T) {
	h := Serve(t, everything())
	w := newWire(t, h)
	w.initialize()
	failed := make(chan error, 1)
	go func() {
		resp, err := w.do(context.Background(), http.MethodPost, callLine("hang", `"_meta":{}`))
		if err == nil {
			_, err = io.ReadAll(resp.Body)
			resp.Body.Close()
		}
		failed <- err
	}()
	await.Until(t, "hang runs", func() bool { return slices.Contains(h.State().Called, "hang") })
	h.Kill()
	if err := <-failed; err == nil {
		t.Error("a killed peer answered")
	}
	if len(h.State().Cancelled) != 0 {
		t.Errorf("a kill was taken for a cancellation: %+v", h.State())
	}
}
