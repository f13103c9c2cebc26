package chat

import (
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

func TestATurnWithTools(t *testing.T) {
	for name, st := range map[string]*store.Store{"memory": nil, "store": storetest.Open(t, store.Options{})} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, staged{store: st, script: "-- a --\nLet me look.\n```tool\n{\"tool\":\"srv__echo\",\"arguments\":{\"text\":\"hi\"}}\n```\n-- b --\nIt says hi.\n"})
			c := s.open("one")
			s.send(c, "what does it say?")
			s.turns(c, 1)
			got := describe(s.log(c))
			want := strings.Join([]string{
				`1 input i1 "what does it say?"`, `2 turn.started`, `3 context`, `4 text "Let me look.\n"`, `5 call c5 srv__echo {"text":"hi"}`, `6 answer calls`,
				`7 call.started c5 srv__echo {"text":"hi"}`, `8 call.done c5 ok "hi"`, `9 context`, `10 text "It says hi.\n"`, `11 answer done`, `12 turn.ended done`, ``}, "\n")
			if got = strings.ReplaceAll(got, " \n", "\n"); got != want {
				t.Fatalf("got:\n%s\nwant:\n%s", got, want)
			}
			var roles []string
			for _, m := range s.state(c).Messages {
				roles = append(roles, string(m.Role))
			}
			if got := strings.Join(roles, " "); got != "user assistant tool assistant" {
				t.Fatalf("roles: %s", got)
			}
		})
	}
}
