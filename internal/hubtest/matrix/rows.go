package matrix

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
)

// Row is one behaviour, and for each cell why it cannot be there: client's era
// first, then the server's.
type Row struct {
	Name                                                   string
	LegacyLegacy, LegacyModern, ModernLegacy, ModernModern string
	Test                                                   func(t *testing.T, c Column)
	// Instead is what holds in a cell that cannot have the behaviour.
	Instead func(t *testing.T, c Column)
}

const (
	works   = ""
	noCode  = "the modern era has no such error: a server answers input_required, as in the row above"
	noRoots = "a legacy server learns at initialize whether there are roots, and a modern client has no connection of its own to say so on (docs/rough_edges.md)"
)

var leaving = Row{"cancellation", works, works, works, works, cancels, nil}

// Rows is the matrix. Each runs it for each transport of the server.
var Rows = []Row{
	// client/server: legacy/legacy, legacy/modern, modern/legacy, modern/modern
	{"call", works, works, works, works, calls, nil},
	{"progress", works, works, works, works, progresses, nil},
	leaving,
	{"elicitation in three rounds", works, works, works, works, elicits, nil},
	{"URL elicitation", works, works, works, works, visits, nil},
	{"URL elicitation by an error", works, noCode, works, noCode, gates, nil},
	{"sampling", works, works, works, works, samples, nil},
	{"roots", works, works, noRoots, works, roots, rootless},
	{"list changed", works, works, works, works, listChanges, nil},
	{"resource update", works, works, works, works, updates, nil},
	{"logging level", works, works, works, works, levels, nil},
	{"error with data", works, works, works, works, errs, nil},
}

func (r Row) why(client, server hubtest.Era) string {
	if client == hubtest.Legacy {
		return map[hubtest.Era]string{hubtest.Legacy: r.LegacyLegacy, hubtest.Modern: r.LegacyModern}[server]
	}
	return map[hubtest.Era]string{hubtest.Legacy: r.ModernLegacy, hubtest.Modern: r.ModernModern}[server]
}

// Spec is the peer of the matrix. Servers of other makes have the same tools.
func Spec(era hubtest.Era, state, uri string) peer.Spec {
	return peer.Spec{Era: peer.Era(era), StatePath: state, Resources: []peer.Resource{{URI: uri, Text: "a"}}, Tools: []peer.Tool{
		{Name: "echo"},
		{Name: "steps", Behaviour: peer.Behaviour{Kind: peer.Progress, N: 3}},
		{Name: "paced", Behaviour: peer.Behaviour{Kind: peer.Progress, N: 3, For: 10 * time.Millisecond}},
		{Name: "slow", Behaviour: peer.Behaviour{Kind: peer.Slow, For: 2 * await.Patience}},
		{Name: "multi", Behaviour: peer.Do(peer.Multi)},
		{Name: "visit", Behaviour: peer.Do(peer.Visit)},
		{Name: "gate", Behaviour: peer.Do(peer.Gate)},
		{Name: "sample", Behaviour: peer.Do(peer.Sample)},
		{Name: "roots", Behaviour: peer.Do(peer.Roots)},
		{Name: "grow", Behaviour: peer.Do(peer.Notify)},
		{Name: "touch", Behaviour: peer.Behaviour{Kind: peer.Touch, URI: uri}},
		{Name: "rude", Behaviour: peer.Behaviour{Kind: peer.Error, Raw: `{"code":-31999,"message":"no","data":` + rudeData + `}`}},
	}}
}

// rudeData goes with the error of the tool rude.
const rudeData = `{"n":7,"x":["a",null]}`

func calls(t *testing.T, c Column) {
	const args = `{"a":"é","n":[1,{"b":null}]}`
	if o := c.call(t, "echo", args); !sameJSON(o.Text, args) || o.IsError {
		t.Errorf("got %+v, want %s", o, args)
	}
}

func progresses(t *testing.T, c Column) {
	all := []float64{1, 2, 3}
	once := func() []float64 {
		o := c.settled(t, "paced", "{}", func(o Outcome) bool { return c.Make.Drops || len(o.Progress) == len(all) })
		if o.Text != "done" || len(o.Progress) > len(all) || !slices.Equal(o.Progress, all[:len(o.Progress)]) {
			t.Fatalf("got %+v, want progress %v", o, all)
		}
		return o.Progress
	}
	if c.Make.Drops {
		await.Until(t, "progress comes", func() bool { return len(once()) >= len(all)-1 })
	} else if got := once(); len(got) != len(all) {
		t.Errorf("got progress %v, want %v", got, all)
	}
}

func cancels(t *testing.T, c Column) {
	before := c.Server.happened(t)
	leave := c.Client.Begin(t, c.Name("slow"))
	await.Until(t, "the server is at work", func() bool { return count(c.Server.happened(t).Called) > count(before.Called) })
	leave()
	await.Until(t, "the server knows that nobody waits", func() bool {
		return count(c.Server.happened(t).Cancelled) > count(before.Cancelled)
	})
	if o := c.call(t, "echo", `{"a":1}`); !sameJSON(o.Text, `{"a":1}`) {
		t.Errorf("afterwards: %+v", o)
	}
}

func count(names []string) (n int) {
	for _, name := range names {
		if name == "slow" {
			n++
		}
	}
	return n
}

func elicits(t *testing.T, c Column) {
	o := c.call(t, "multi", `{"message":"Who?"}`)
	q := Question{Method: "elicitation/create", Message: "Who?"}
	asked(t, o, q, q, q)
	var got []struct {
		Action  string
		Content struct{ Name string }
	}
	if err := json.Unmarshal([]byte(o.Text), &got); err != nil || len(got) != 3 {
		t.Fatalf("the server was told %+v (%v)", o, err)
	}
	for i, g := range got {
		if want := fmt.Sprintf("Ada %d", i+1); g.Action != "accept" || g.Content.Name != want {
			t.Errorf("in round %d the server was told %+v, want %s", i+1, g, want)
		}
	}
}

// asked wants exactly these questions. The mode of a form may be left out.
func asked(t *testing.T, o Outcome, want ...Question) {
	t.Helper()
	got := slices.Clone(o.Asked)
	for i := range got {
		if got[i].Mode == "form" {
			got[i].Mode = ""
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("the client was asked (-want +got):\n%s%+v", diff, o)
	}
}

var goThere = Question{Method: "elicitation/create", Mode: "url", URL: "https://login.example/", Message: "Please log in"}

func visits(t *testing.T, c Column) {
	o := c.call(t, "visit", "{}")
	asked(t, o, goThere)
	if !sameJSON(o.Text, `{"action":"accept"}`) {
		t.Errorf("the server was told %+v", o)
	}
}

// gates: a legacy client is told by the error itself and comes again when it
// wants to, a modern one is asked and sends its call again.
func gates(t *testing.T, c Column) {
	args := fmt.Sprintf(`{"who":%q}`, t.Name())
	o := c.call(t, "gate", args)
	if c.Client.Era() == hubtest.Legacy {
		var data struct{ Elicitations []Question }
		if json.Unmarshal([]byte(o.Data), &data) != nil || o.Code != -32042 || len(data.Elicitations) != 1 ||
			data.Elicitations[0].URL != goThere.URL || data.Elicitations[0].Mode != "url" {
			t.Fatalf("at first: %+v", o)
		}
		o = c.call(t, "gate", args)
	} else {
		asked(t, o, goThere)
	}
	if o.Text != "welcome" {
		t.Errorf("in the end: %+v", o)
	}
}

func samples(t *testing.T, c Column) {
	o := c.call(t, "sample", "{}")
	asked(t, o, Question{Method: "sampling/createMessage"})
	if !strings.Contains(o.Text, Sampled) || o.IsError {
		t.Errorf("the server was told %+v", o)
	}
}

func roots(t *testing.T, c Column) {
	// Some SDKs do not show that they were asked; then what they said does.
	o := c.Own.Client.Call(t, c.Own.Name("roots"), "{}")
	if !strings.Contains(o.Text, Root) || o.IsError {
		t.Errorf("the server was told %+v", o)
	}
}

// rootless: the server is told that there are none, and the client not asked.
// A server that asks all the same is told those of the one that calls.
func rootless(t *testing.T, c Column) {
	if c.Server.Presumes {
		roots(t, c)
		return
	}
	o := c.Own.Client.Call(t, c.Own.Name("roots"), "{}")
	asked(t, o)
	if !o.IsError && o.Code == 0 {
		t.Errorf("the server was told %+v", o)
	}
}

func listChanges(t *testing.T, c Column) {
	const method = "notifications/tools/list_changed"
	heard := c.Client.Listen(t, c.Server.URI)
	await.Until(t, "the hub hears of changes, tells and lists them", func() bool {
		// When the hub listens to the server cannot be seen from outside.
		before := heard(method)
		name := c.Name(c.call(t, "grow", "{}").Text)
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); {
			if heard(method) > before && slices.Contains(c.Client.Tools(t), name) {
				return true
			}
		}
		return false
	})
}

func updates(t *testing.T, c Column) {
	heard := c.Client.Listen(t, c.Server.URI)
	before := heard("notifications/resources/updated")
	await.Until(t, "an update is told", func() bool {
		// When the server has the subscription cannot be seen from outside.
		if o := c.call(t, "touch", fmt.Sprintf(`{"uri":%q}`, c.Server.URI)); !strings.HasPrefix(o.Text, "version") {
			t.Fatalf("touch: %+v", o)
		}
		return heard("notifications/resources/updated") > before
	})
}

func levels(t *testing.T, c Column) {
	for _, l := range []struct {
		level string
		want  []string
	}{{"info", []string{"step 1 of 3", "step 2 of 3", "step 3 of 3"}}, {"error", nil}, {"debug", []string{"step 1 of 3", "step 2 of 3", "step 3 of 3"}}} {
		c.Client.Level(t, l.level)
		o := c.settled(t, "steps", "{}", func(o Outcome) bool { return len(o.Logs) >= len(l.want) })
		if !slices.Equal(o.Logs, l.want) || o.Text != "done" {
			t.Errorf("level %s: got %+v, want messages %q", l.level, o, l.want)
		}
	}
}

func errs(t *testing.T, c Column) {
	if o := c.call(t, "rude", "{}"); o.Code != -31999 || !sameJSON(o.Data, rudeData) {
		t.Errorf("got %+v, want the code -31999 with data %s", o, rudeData)
	}
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && cmp.Equal(x, y)
}
