package main

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A watcher opens as many sockets as it is told, with its token, and holds them
// until its stdin ends. Those that are stalled say nothing; hostile ones do,
// and come again when they are thrown out.
func TestWatcher(t *testing.T) {
	for _, kind := range []watchKind{watchStalled, watchHostile, watchFlooding} {
		t.Run(string(kind), func(t *testing.T) {
			var opened, left, said atomic.Int64
			address := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/api/v1/events/ws" || r.Header.Get("Authorization") != "Bearer secret" || r.Header.Get("Upgrade") != "websocket" {
					w.WriteHeader(http.StatusForbidden)
					return
				}
				conn, in, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				opened.Add(1) // first: whoever is answered counts
				_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
				n, _ := in.Read(make([]byte, 16)) // whoever speaks is thrown out
				said.Add(int64(n))
				left.Add(1)
			}))
			order, err := json.Marshal(watch{Address: address, Token: "secret", Kind: kind, Count: 3})
			if err != nil {
				t.Fatal(err)
			}
			stdin, tell := io.Pipe()
			answer, stdout := io.Pipe()
			done := make(chan error, 1)
			go func() { done <- runWatcher(stdin, stdout) }()
			if _, err := tell.Write(append(order, '\n')); err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(io.LimitReader(answer, 2)); err != nil || string(got) != "3\n" {
				t.Fatalf("it said %q: %v", got, err)
			}
			if kind != watchStalled {
				tick := time.NewTicker(10 * time.Millisecond)
				defer tick.Stop()
				for end := time.Now().Add(20 * time.Second); opened.Load() < 6; <-tick.C {
					if time.Now().After(end) {
						t.Fatalf("%d came and %d left", opened.Load(), left.Load())
					}
				}
			} else if opened.Load() != 3 || said.Load() != 0 || left.Load() != 0 {
				t.Errorf("%d came, %d left, %d bytes were said", opened.Load(), left.Load(), said.Load())
			}
			tell.Close()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWatcherIsRefused(t *testing.T) {
	address := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }))
	err := runWatcher(strings.NewReader(`{"address":"`+address+`","kind":"stalled","count":1}`+"\n"), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("error %v, want the status", err)
	}
}

func TestMarkdownViewers(t *testing.T) {
	at := func(micros ...int) map[int]sample {
		out := rounds(make([]int, len(micros))...)
		for i, us := range micros {
			s := out[i]
			s.CPU, s.P99 = 60*time.Millisecond, time.Duration(us)*time.Microsecond
			out[i] = s
		}
		return out
	}
	r := &report{Settings: settings{ViewerRounds: 3, Window: time.Second}, Viewers: []*viewerRow{
		{Kind: watchNone, Samples: at(1000, 2000, 1000)}, {Kind: watchStalled, Samples: at(1050, 2000, 4000)}, {Kind: watchHostile, Samples: at(1500, 1500)}}}
	var b strings.Builder
	r.markdownViewers(&b)
	for _, want := range []string{
		"| stalled | 2000 | 120 | 2000 [1050..4000] | 1.05 [1.00..4.00] | 60.0 [60.0..60.0] | 1.00 [1.00..1.00] | 15.0 [15.0..15.0] |",
		"| hostile | 1500 | 1500 | – |",
		"50 stalled viewers against none: median of the rounds' ratios 1.05, at most 1.10: PASS",
		"50 hostile viewers against none: median of the rounds' ratios 1.12, at most 1.10: FAIL",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no line %s in\n%s", want, &b)
		}
	}
}

func TestSelectedViewers(t *testing.T) {
	for only, want := range map[string]int{"": 5, "viewers": 5, "viewers/stalled": 2, "^idle/": 0, "viewers/nobody": 0} {
		o := options{}
		if only != "" {
			o.only = regexp.MustCompile(only)
		}
		if got := o.selectedViewers(); len(got) != want || want > 0 && got[0] != watchNone {
			t.Errorf("%q selects %v, want %d", only, got, want)
		}
	}
	if got := (options{quick: true}).selectedViewers(); got != nil {
		t.Errorf("-quick selects %v", got)
	}
}
