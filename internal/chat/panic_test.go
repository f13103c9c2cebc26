package chat

import (
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/logbook"
	"github.com/stoahub/stoa/internal/mcp"
)

// A face that panics costs the call, is told with its stack, and the
// conversation goes on: also where calls run beside each other.
func TestPanicOfATool(t *testing.T) {
	log := &logbook.Book{}
	s := newStage(t, staged{model: &spoken{answers: []answer{says("", "srv__bad", "srv__bad", "srv__echo"), says("fine")}}, options: Options{Logger: slog.New(slog.NewJSONHandler(log, nil))}})
	s.shop.add("srv__bad", `{"readOnlyHint":true}`, func(context.Context, *mcp.Request, json.RawMessage) (string, error) { panic("oh dear") })
	c := s.open("one")
	s.send(c, "go")
	s.turns(c, 1)
	if got := describe(s.log(c)); s.state(c).Last.Reason != ReasonDone || strings.Count(got, "stumbled") < 2 || !strings.Contains(got, `text "fine"`) {
		t.Errorf("%s", got)
	}
	if got := log.String(); !strings.Contains(got, "oh dear") || !strings.Contains(got, "panic_test.go") {
		t.Errorf("it is not told with its stack: %s", got)
	}
}

// What panics before the turn has begun costs nobody the hub, and the next
// words are answered, those that were not first.
func TestPanicOfAConversation(t *testing.T) {
	log := &logbook.Book{}
	s := newStage(t, staged{model: &spoken{answers: []answer{says("one"), says("two")}}, options: Options{Logger: slog.New(slog.NewJSONHandler(log, nil))}})
	under, bad := s.e.opts.Models, atomic.Bool{}
	bad.Store(true)
	s.e.opts.Models = func(name string) (Model, error) {
		if bad.Swap(false) {
			panic("no model for you")
		}
		return under(name)
	}
	c := s.open("one")
	s.send(c, "go")
	await.Until(t, "the panic is told", func() bool {
		c.mu.Lock()
		idle := !c.looped
		c.mu.Unlock()
		return idle && strings.Contains(log.String(), "no model for you")
	})
	s.send(c, "again")
	s.turns(c, 2)
	if got := describe(s.log(c)); !strings.Contains(got, `text "one"`) || !strings.Contains(got, `text "two"`) {
		t.Errorf("%s", got)
	}
	if !strings.Contains(log.String(), "panic_test.go") {
		t.Errorf("no stack: %s", log.String())
	}
}
