package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// part is what one event stream of a call brings before the server ends it.
type part struct {
	status int    // 0 means 200
	text   string // of the stream
	cut    bool   // it ends in the middle of things
}

func (p part) play(w http.ResponseWriter) {
	if p.status != 0 {
		w.WriteHeader(p.status)
		return
	}
	w.Header().Set("Content-Type", sseAnswer)
	fmt.Fprint(w, p.text)
	w.(http.Flusher).Flush()
	if p.cut {
		panic(http.ErrAbortHandler)
	}
}

// A server may end the stream of a call before the response; what follows is
// asked for where it was left, when the server wants it, and in order.
func TestHTTPConnResumes(t *testing.T) {
	const end = `{"jsonrpc":"2.0","id":2,"result":{"ok":true}}`
	step := func(id, n int) string {
		return fmt.Sprintf("id: e%d\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{\"progressToken\":2,\"progress\":%d}}\n\n", id, n)
	}
	prime := "id: e0\nretry: 700\ndata: \n\n"
	response := "id: e9\ndata: " + end + "\n\n"
	for name, tc := range map[string]struct {
		post  part
		gets  []part
		asked []string // the GETs: after which event, and after how long
		steps int
		err   string // a part of what the caller is told; empty if it gets the result
	}{
		"once":                 {post: part{text: prime}, gets: []part{{text: response}}, asked: []string{"e0 700ms"}},
		"polled":               {post: part{text: prime + step(1, 1)}, gets: []part{{text: step(2, 2)}, {text: ""}, {text: step(3, 3) + "retry: 100\n\n"}, {text: response}}, steps: 3, asked: []string{"e1 700ms", "e2 700ms", "e2 700ms", "e3 100ms"}},
		"cut":                  {post: part{text: step(1, 1) + "id: e2\ndata: {", cut: true}, gets: []part{{text: step(2, 2) + response}}, steps: 2, asked: []string{"e1 1s"}},
		"without a time":       {post: part{text: step(1, 1)}, gets: []part{{text: response}}, steps: 1, asked: []string{"e1 1s"}},
		"in no time":           {post: part{text: "id: a\nretry: 0\ndata:\n\n"}, gets: []part{{}, {text: response}}, asked: []string{"a 50ms", "a 50ms"}},
		"id without data":      {post: part{text: "id: a\n\n"}, gets: []part{{text: response}}, asked: []string{"a 1s"}},
		"after a failure":      {post: part{text: prime}, gets: []part{{status: 502}, {status: 409}, {text: response}}, asked: []string{"e0 700ms", "e0 1s", "e0 2s"}},
		"failures":             {post: part{text: prime}, gets: []part{{status: 502}, {status: 503}, {status: 500}}, asked: []string{"e0 700ms", "e0 1s", "e0 2s"}, err: "could not be resumed in 3 attempts"},
		"not offered":          {post: part{text: prime + step(1, 1)}, gets: []part{{status: 405}}, steps: 1, asked: []string{"e1 700ms"}, err: "the event stream ended before the response: the server does not let it be resumed: HTTP status 405"},
		"unknown":              {post: part{text: prime}, gets: []part{{status: 404}}, asked: []string{"e0 700ms"}, err: "HTTP status 404"},
		"no ids":               {post: part{text: "retry: 5\ndata:\n\n"}, err: "the event stream ended before the response"},
		"an id no header has":  {post: part{text: "id: a\tb\ndata:\n\n"}, err: "the event stream ended before the response"},
		"lost while it waited": {post: part{text: prime}, gets: []part{{text: "", cut: true}, {status: 400}}, asked: []string{"e0 700ms", "e0 700ms"}, err: "HTTP status 400"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []string
				last := time.Now()
				s := &sessionServer{
					get: func(n int, w http.ResponseWriter, r *http.Request) {
						asked = append(asked, fmt.Sprint(r.Header.Get("Last-Event-ID"), " ", time.Since(last)))
						if r.Header.Get("Mcp-Session-Id") != "s1" || r.Header.Get("Accept") != sseAnswer || n > len(tc.gets) {
							t.Errorf("GET %d with %v", n, r.Header)
							w.WriteHeader(http.StatusTeapot)
							return
						}
						defer func() { last = time.Now() }()
						tc.gets[n-1].play(w)
					},
					post: func(w http.ResponseWriter, _ *http.Request, _ string) { tc.post.play(w) },
				}
				c, stop := hearing(t, s, ConnOptions{MessageBytes: 2000})
				rec := &recorder{}
				resp, err := c.Call(t.Context(), &Outgoing{Method: "tools/call", Token: []byte("7"), Stream: rec})
				switch {
				case tc.err == "" && (err != nil || string(resp.Result) != `{"ok":true}`):
					t.Errorf("got %s, %v", resp.Result, err)
				case tc.err != "" && (err == nil || !isLost(err) || isNotSent(err) || !strings.Contains(err.Error(), tc.err)):
					t.Errorf("error %v", err)
				}
				resp.Release()
				var steps []string
				for n := range tc.steps {
					steps = append(steps, fmt.Sprintf(`notifications/progress {"progressToken":7,"progress":%d}`, n+1))
				}
				if diff := cmp.Diff(steps, rec.heard()); diff != "" {
					t.Errorf("notifications: %s", diff)
				}
				if diff := cmp.Diff(tc.asked, asked); diff != "" {
					t.Errorf("GETs: %s", diff)
				}
				select {
				case <-c.Done():
					t.Errorf("the session ended: %v", c.Err())
				default:
				}
				stop()
			})
		})
	}
}

// Who waits for a stream to be resumed can give up, and so can the hub.
func TestHTTPConnResumingEnds(t *testing.T) {
	poll := func(_ int, w http.ResponseWriter, _ *http.Request) { part{text: "id: b\ndata:\n\n"}.play(w) }
	begin := func(w http.ResponseWriter, _ *http.Request, _ string) {
		part{text: "id: a\nretry: 60000\ndata:\n\n"}.play(w)
	}
	t.Run("caller", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := &sessionServer{get: poll, post: begin}
			c, stop := hearing(t, s, ConnOptions{})
			ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Minute+time.Second, errors.New("enough"))
			defer cancel()
			if _, err := c.Call(ctx, &Outgoing{Method: "tools/call"}); err == nil || err.Error() != "enough" || s.gets.Load() != 10 {
				t.Errorf("%v after %d streams", err, s.gets.Load())
			}
			stop()
		})
	})
	t.Run("connection", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c, stop := hearing(t, &sessionServer{get: poll, post: begin}, ConnOptions{})
			call := start(t.Context(), c, &Outgoing{Method: "tools/call"})
			synctest.Wait()
			c.Close()
			call.wantErr(t, isLost)
			stop()
		})
	})
}

// A modern server's streams cannot be resumed, whatever they look like.
func TestHTTPConnResumesNothingModern(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sessionServer{
			get:  func(_ int, w http.ResponseWriter, _ *http.Request) { t.Error("there was a GET") },
			post: func(w http.ResponseWriter, _ *http.Request, _ string) { part{text: "id: a\ndata:\n\n"}.play(w) },
		}
		rt, stop := serveMem(t, s)
		c := HTTPTo(memURL, nil, rt, ConnOptions{})
		c.agree(Modern, ModernVersion)
		if _, err := c.Call(t.Context(), request("tools/call", `{}`)); !isLost(err) {
			t.Error(err)
		}
		c.Close()
		stop()
	})
}

// The stream of the session goes on where it was left, not before the server
// wants it, and from the beginning where the server does not know the place.
func TestHearResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		last := time.Now()
		s := &sessionServer{get: func(n int, w http.ResponseWriter, r *http.Request) {
			asked = append(asked, fmt.Sprint(r.Header.Get("Last-Event-ID"), " ", time.Since(last)))
			last = time.Now()
			switch n {
			case 1:
				part{text: "id: a\nretry: 5000\ndata:\n\n"}.play(w)
			case 2:
				w.WriteHeader(http.StatusBadRequest)
			default:
				part{}.play(w)
				<-r.Context().Done()
			}
		}}
		c, stop := hearing(t, s, ConnOptions{})
		c.Hear(func(int) time.Duration { return time.Second }, func() {})
		<-time.After(time.Minute)
		synctest.Wait()
		if diff := cmp.Diff([]string{" 0s", "a 5s", " 5s"}, asked); diff != "" {
			t.Error(diff)
		}
		stop()
	})
}
