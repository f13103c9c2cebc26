package policy

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/event"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

var (
	alice = &auth.Principal{Name: "alice", Via: auth.ViaToken, Rights: auth.Rights{auth.RightApprove}}
	bob   = &auth.Principal{Name: "bob", Via: auth.ViaToken, Rights: auth.Rights{auth.RightApprove}}
)

func desk(t *testing.T, st *store.Store, o DeskOptions) *Desk {
	t.Helper()
	d, err := OpenDesk(t.Context(), st, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

func wants(session, tool string) Approval {
	return Approval{Principal: "alice", Session: session, Tool: "fs__" + tool, Upstream: "fs", Ref: "fs:" + tool, Args: json.RawMessage(`{"path": "a"}`)}
}

// outcome is what came of a question.
type outcome struct {
	dec Decision
	err error
}

// ask asks in the background and returns the record as it was asked, with an
// empty id if nobody was.
func ask(ctx context.Context, d *Desk, a Approval) (Approval, <-chan outcome) {
	asked, done := make(chan Approval, 1), make(chan outcome, 1)
	go func() {
		dec, err := d.Ask(ctx, a, func(a Approval) { asked <- a })
		done <- outcome{dec, err}
	}()
	select {
	case a := <-asked:
		return a, done
	case out := <-done:
		done <- out
		return Approval{}, done
	}
}

func TestAPersonDecides(t *testing.T) {
	d := desk(t, nil, DeskOptions{})
	defer d.Attend("alice", "")()
	for name, tc := range map[string]struct {
		say  Decision
		want Decision
	}{
		"approve":        {Decision{Approve: true}, Decision{Approve: true, By: "alice", Remember: Once}},
		"deny":           {Decision{}, Decision{By: "alice", Remember: Once, Reason: ReasonDenied}},
		"deny in words":  {Decision{Reason: "use the other file"}, Decision{By: "alice", Remember: Once, Reason: "use the other file"}},
		"edit":           {Decision{Approve: true, Args: json.RawMessage(` {"path": "b" }`)}, Decision{Approve: true, By: "alice", Remember: Once, Args: json.RawMessage(` {"path": "b" }`)}},
		"by is not said": {Decision{Approve: true, By: "eve"}, Decision{Approve: true, By: "alice", Remember: Once}},
	} {
		a, done := ask(t.Context(), d, wants("s", "write"))
		if a.ID == "" || string(a.Args) != `{"path": "a"}` || a.Expires.Sub(a.Created) != 5*time.Minute || a.Kind != KindTool {
			t.Fatalf("%s: asked %+v", name, a)
		}
		if got := d.Pending("alice"); len(got) != 1 || got[0].ID != a.ID || len(d.Pending("bob")) != 0 {
			t.Errorf("%s: pending %+v", name, got)
		}
		if err := d.Decide(bob, a.ID, tc.say); !fault.Is(err, fault.ResourceNotFound) || !strings.Contains(err.Error(), "no such") {
			t.Errorf("%s: another principal: %v", name, err)
		}
		if err := d.Decide(alice, a.ID, tc.say); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out := <-done
		if out.dec.Time.IsZero() {
			t.Errorf("%s: no time", name)
		}
		out.dec.Time = time.Time{}
		if out.err != nil || out.dec.Approve != tc.want.Approve || out.dec.By != tc.want.By || out.dec.Reason != tc.want.Reason || string(out.dec.Args) != string(tc.want.Args) || out.dec.Remember != tc.want.Remember {
			t.Errorf("%s: %+v, want %+v", name, out, tc.want)
		}
		if err := d.Decide(alice, a.ID, Decision{Approve: true}); !fault.Is(err, fault.ResourceNotFound) || !strings.Contains(err.Error(), "already, by alice") {
			t.Errorf("%s: a second time: %v", name, err)
		}
		if err := d.Decide(bob, a.ID, Decision{Approve: true}); err == nil || strings.Contains(err.Error(), "already") {
			t.Errorf("%s: another principal afterwards: %v", name, err)
		}
	}
}

func TestWrongDecisionsDecideNothing(t *testing.T) {
	d := desk(t, nil, DeskOptions{})
	defer d.Attend("alice", "")()
	a, done := ask(t.Context(), d, wants("", "write"))
	for _, bad := range []Decision{
		{Approve: true, Args: json.RawMessage(`[]`)}, {Approve: true, Args: json.RawMessage(`"x"`)}, {Approve: true, Args: json.RawMessage(`{"a":1,"a":2}`)},
		{Approve: true, Args: json.RawMessage(`{`)}, {Approve: true, Args: json.RawMessage(``)}, {Approve: true, Remember: "always"},
		{Approve: true, Remember: ForSession}, // there is no Session
	} {
		if err := d.Decide(alice, a.ID, bad); !fault.Is(err, fault.InvalidParams) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if len(d.Pending("alice")) != 1 {
		t.Error("it does not wait any more")
	}
	if err := d.Decide(auth.Owner, a.ID, Decision{Approve: true}); err != nil {
		t.Errorf("the hub's owner: %v", err)
	}
	if out := <-done; !out.dec.Approve || out.dec.By != auth.LocalName {
		t.Errorf("%+v", out)
	}
}

// Who may not approve answers nothing, also of what is asked about its own
// calls; to who has another name it is not even there.
func TestApprovingNeedsTheRight(t *testing.T) {
	d := desk(t, nil, DeskOptions{})
	defer d.Attend("", "")()
	for name, tc := range map[string]struct {
		of   string
		who  *auth.Principal
		want fault.Kind // 0: it is taken
	}{
		"a token with the right":                     {"alice", alice, 0},
		"a token without":                            {"alice", alice.WithoutRights(), fault.Denied},
		"a token with other rights":                  {"alice", &auth.Principal{Name: "alice", Via: auth.ViaToken, Rights: auth.Rights{auth.RightRegister}}, fault.Denied},
		"another token with the right":               {"alice", bob, fault.ResourceNotFound},
		"somebody without a token":                   {"alice", auth.Local, fault.ResourceNotFound},
		"the owner":                                  {"alice", auth.Owner, 0},
		"the owner, of its own":                      {auth.LocalName, auth.Owner, 0},
		"somebody without a token, of the owner's":   {auth.LocalName, auth.Local, fault.Denied},
		"the owner without rights, of the owner's":   {auth.LocalName, auth.Owner.WithoutRights(), fault.Denied},
		"a token with the right, of the owner's own": {auth.LocalName, alice, fault.ResourceNotFound},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		want := wants("s", "write")
		want.Principal = tc.of
		a, done := ask(ctx, d, want)
		for _, dec := range []Decision{{Approve: false, Remember: ForUpstream}, {Approve: true}} {
			if tc.want == 0 && !dec.Approve {
				continue
			}
			err := d.Decide(tc.who, a.ID, dec)
			if tc.want == 0 && err != nil || tc.want != 0 && !fault.Is(err, tc.want) {
				t.Errorf("%s: %v, want %v", name, err, tc.want)
			}
		}
		if n := len(d.Pending("")); (n == 0) != (tc.want == 0) {
			t.Errorf("%s: %d wait", name, n)
		}
		cancel()
		if out := <-done; out.dec.Approve != (tc.want == 0) {
			t.Errorf("%s: %+v", name, out)
		}
	}
}

func TestTimeAndAbsenceDeny(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := desk(t, nil, DeskOptions{Expiry: time.Minute, Linger: 10 * time.Second})
		if a, done := ask(t.Context(), d, wants("s", "write")); a.ID != "" || (<-done).dec.Reason != ReasonNobody {
			t.Error("somebody was asked where nobody is")
		}
		// Somebody who looks after another Session does not count.
		other := d.Attend("alice", "other")
		if a, _ := ask(t.Context(), d, wants("s", "write")); a.ID != "" {
			t.Error("asked in the wrong Session")
		}
		other()
		leave := d.Attend("alice", "s")
		a, done := ask(t.Context(), d, wants("s", "write"))
		began := time.Now()
		if out := <-done; out.dec.Approve || out.dec.Reason != ReasonExpired || out.err != nil || time.Since(began) != time.Minute {
			t.Errorf("after %v: %+v", time.Since(began), out)
		}
		if err := d.Decide(alice, a.ID, Decision{Approve: true}); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("too late: %v", err)
		}
		// Who leaves and comes back is there; who stays away is not.
		_, done = ask(t.Context(), d, wants("s", "write"))
		leave()
		leave()
		<-time.After(9 * time.Second)
		back := d.Attend("alice", "s")
		<-time.After(20 * time.Second)
		if len(d.Pending("")) != 1 {
			t.Fatal("denied although somebody came back")
		}
		back()
		began = time.Now()
		if out := <-done; out.dec.Reason != ReasonNobody || time.Since(began) != 10*time.Second {
			t.Errorf("after %v: %+v", time.Since(began), out)
		}
		// The owner attends to everybody.
		defer d.Attend("", "")()
		ctx, cancel := context.WithCancelCause(t.Context())
		a, done = ask(ctx, d, wants("s", "write"))
		cancel(errors.New("enough"))
		if out := <-done; out.dec.Approve || out.dec.Reason != ReasonAborted || out.err == nil || out.err.Error() != "enough" {
			t.Errorf("aborted: %+v", out)
		}
		if len(d.Pending("")) != 0 || d.Decide(alice, a.ID, Decision{Approve: true}) == nil {
			t.Error("an aborted one still waits")
		}
	})
}

func TestPendingIsBounded(t *testing.T) {
	d := desk(t, nil, DeskOptions{Max: 3})
	defer d.Attend("", "")()
	ctx, cancel := context.WithCancel(t.Context())
	var all []<-chan outcome
	for range 3 {
		_, done := ask(ctx, d, wants("s", "write"))
		all = append(all, done)
	}
	if dec, err := d.Ask(ctx, wants("s", "write"), nil); !fault.Is(err, fault.Limit) || dec.Approve {
		t.Errorf("a fourth: %+v, %v", dec, err)
	}
	other := wants("s", "write")
	other.Principal = "bob"
	if a, done := ask(ctx, d, other); a.ID == "" {
		t.Errorf("of another principal: %+v", <-done)
	} else {
		all = append(all, done)
	}
	cancel()
	for _, done := range all {
		<-done
	}
}

func TestDecisionsAreRemembered(t *testing.T) {
	storetest.Each(t, func(t *testing.T, st *store.Store) {
		cover := map[Remember]map[string]bool{ // which later calls are covered
			Once:        {},
			ForSession:  {"s/write": true},
			ForTool:     {"s/write": true, "t/write": true},
			ForUpstream: {"s/write": true, "t/write": true, "s/read": true, "t/read": true},
		}
		for scope, covered := range cover {
			for _, approve := range []bool{true, false} {
				d := desk(t, st, DeskOptions{})
				leave := d.Attend("alice", "")
				a, done := ask(t.Context(), d, wants("s", "write"))
				if err := d.Decide(alice, a.ID, Decision{Approve: approve, Remember: scope}); err != nil {
					t.Fatal(err)
				}
				<-done
				leave()
				d.Close()
				again := desk(t, st, DeskOptions{}) // after a restart, where nobody attends
				for _, session := range []string{"s", "t"} {
					for _, tool := range []string{"write", "read"} {
						dec, err := again.Ask(t.Context(), wants(session, tool), func(Approval) { t.Error("asked") })
						want := Decision{Reason: ReasonNobody}
						if covered[session+"/"+tool] {
							want = Decision{Approve: approve, Reason: ReasonRemembered, By: "alice", Remember: scope}
						}
						dec.Time = time.Time{}
						if err != nil || dec.Approve != want.Approve || dec.Reason != want.Reason || dec.By != want.By || dec.Remember != want.Remember {
							t.Errorf("%s, %s/%s: %+v, %v, want %+v", scope, session, tool, dec, err, want)
						}
					}
				}
				of := wants("s", "write")
				of.Principal = "bob"
				if dec, _ := again.Ask(t.Context(), of, nil); dec.Reason != ReasonNobody {
					t.Errorf("%s holds for another principal: %+v", scope, dec)
				}
				of = wants("s", "write")
				of.Kind = KindSampling
				if dec, _ := again.Ask(t.Context(), of, nil); dec.Reason != ReasonNobody {
					t.Errorf("%s holds for sampling: %+v", scope, dec)
				}
				forgetAll(t, again, scope != Once)
				again.Close()
			}
		}
	})
}

// What was said of the model of one agent is no yes for what it does for another
// model, and a no for both.
func TestEachModelOfAChainCounts(t *testing.T) {
	d := desk(t, storetest.Open(t, store.Options{}), DeskOptions{})
	leave := d.Attend("alice", "")
	by := func(agents ...string) Approval {
		a := wants("s", "write")
		a.Agent = agents[len(agents)-1]
		if len(agents) > 1 {
			a.Agents = agents
		}
		return a
	}
	remember := func(a Approval, approve bool) {
		t.Helper()
		asked, done := ask(t.Context(), d, a)
		if err := d.Decide(alice, asked.ID, Decision{Approve: approve, Remember: ForTool}); err != nil {
			t.Fatal(err)
		}
		<-done
	}
	remember(by("writer"), true)
	remember(by("other", "reader"), true)
	remember(by("third"), false)
	leave() // nobody is asked from here on
	for _, tc := range []struct {
		agents []string
		known  bool
		yes    bool
	}{
		{[]string{"writer"}, true, true},
		{[]string{"chat", "writer"}, false, false},
		{[]string{"writer", "chat"}, false, false},
		{[]string{"other", "reader"}, true, true},
		{[]string{"reader"}, false, false},
		{[]string{"third", "writer"}, true, false},
		{[]string{"writer", "third"}, true, false},
	} {
		dec, err := d.Ask(t.Context(), by(tc.agents...), nil)
		if err != nil || (dec.Reason == ReasonRemembered) != tc.known || dec.Approve != tc.yes {
			t.Errorf("%v: %+v, %v", tc.agents, dec, err)
		}
	}
}

func forgetAll(t *testing.T, d *Desk, one bool) {
	t.Helper()
	all, err := d.Remembered(t.Context(), "alice")
	if err != nil || (len(all) == 1) != one {
		t.Fatalf("remembered %+v, %v", all, err)
	}
	if other, err := d.Remembered(t.Context(), "bob"); err != nil || len(other) != 0 {
		t.Errorf("of bob: %+v, %v", other, err)
	}
	if !one {
		return
	}
	if gone, err := d.Forget(t.Context(), "bob", all[0].ID); err != nil || len(gone) != 0 {
		t.Errorf("bob forgot %+v, %v", gone, err)
	}
	if gone, err := d.Forget(t.Context(), "alice", all[0].ID); err != nil || len(gone) != 1 {
		t.Errorf("forgot %+v, %v", gone, err)
	}
	if left, err := d.Remembered(t.Context(), ""); err != nil || len(left) != 0 {
		t.Errorf("left %+v, %v", left, err)
	}
	if dec, _ := d.Ask(t.Context(), wants("s", "write"), nil); dec.Reason != ReasonNobody {
		t.Errorf("what was forgotten holds: %+v", dec)
	}
}

func TestASessionTakesItsDecisionsAlong(t *testing.T) {
	d := desk(t, storetest.Open(t, store.Options{}), DeskOptions{})
	defer d.Attend("alice", "")()
	for _, session := range []string{"s", "t"} {
		a, done := ask(t.Context(), d, wants(session, "write"))
		if err := d.Decide(alice, a.ID, Decision{Approve: true, Remember: ForSession}); err != nil {
			t.Fatal(err)
		}
		<-done
	}
	if err := d.EndSession(t.Context(), "alice", "s"); err != nil {
		t.Fatal(err)
	}
	all, err := d.Remembered(t.Context(), "")
	if err != nil || len(all) != 1 || all[0].Session != "t" {
		t.Errorf("left %+v, %v", all, err)
	}
}

// Of what waits, all that a remembered decision covers is decided with it.
func TestOneAnswerForAllThatWait(t *testing.T) {
	d := desk(t, nil, DeskOptions{})
	defer d.Attend("alice", "")()
	first, one := ask(t.Context(), d, wants("s", "write"))
	_, same := ask(t.Context(), d, wants("s", "write"))
	other, another := ask(t.Context(), d, wants("s", "wipe"))
	if err := d.Decide(alice, first.ID, Decision{Approve: true, Remember: ForTool, Args: json.RawMessage(`{}`)}); err != nil {
		t.Fatal(err)
	}
	if out := <-one; !out.dec.Approve || string(out.dec.Args) != `{}` {
		t.Errorf("%+v", out)
	}
	if out := <-same; !out.dec.Approve || out.dec.Reason != ReasonRemembered || out.dec.Args != nil {
		t.Errorf("the same tool: %+v", out)
	}
	if got := d.Pending("alice"); len(got) != 1 || got[0].ID != other.ID {
		t.Errorf("pending %+v", got)
	}
	d.Close()
	if out := <-another; out.dec.Approve || out.dec.Reason != ReasonAborted {
		t.Errorf("when the desk closed: %+v", out)
	}
	if dec, err := d.Ask(t.Context(), wants("s", "wipe"), nil); err == nil || dec.Approve {
		t.Errorf("afterwards: %+v, %v", dec, err)
	}
}

// A store that cannot be used allows nothing. It is one that others write, too:
// what is remembered in a folder is known without asking it.
func TestStoreTroubleDenies(t *testing.T) {
	st, err := store.Open(t.Context(), store.Options{URL: storetest.StartServer(t).URL})
	if err != nil {
		t.Fatal(err)
	}
	d := desk(t, st, DeskOptions{})
	defer d.Attend("alice", "")()
	a, done := ask(t.Context(), d, wants("s", "write"))
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Decide(alice, a.ID, Decision{Approve: true, Remember: ForTool}); !fault.Is(err, fault.Storage) {
		t.Errorf("a decision that cannot be kept: %v", err)
	}
	if len(d.Pending("alice")) != 1 {
		t.Error("it was decided all the same")
	}
	if dec, err := d.Ask(t.Context(), wants("s", "write"), nil); err == nil || dec.Approve || !fault.Is(err, fault.Storage) {
		t.Errorf("a question that cannot be looked up: %+v, %v", dec, err)
	}
	if err := d.Decide(alice, a.ID, Decision{Approve: true}); err != nil {
		t.Errorf("for this call alone: %v", err)
	}
	if out := <-done; !out.dec.Approve {
		t.Errorf("%+v", out)
	}
}

// Records tell what was asked, and nothing of what would have passed.
func TestRecordsAreDiscreet(t *testing.T) {
	bus := event.New(0)
	d := desk(t, nil, DeskOptions{Events: bus})
	defer d.Attend("alice", "")()
	secret := wants("s", "write")
	secret.Args = json.RawMessage(`{"text":"hush-hush"}`)
	a, done := ask(t.Context(), d, secret)
	if err := d.Decide(alice, a.ID, Decision{Approve: true, Args: json.RawMessage(`{"text":"hush"}`), Reason: "hush, it is fine"}); err != nil {
		t.Fatal(err)
	}
	<-done
	records, _, _ := bus.After(0, 10)
	raw, err := json.Marshal(records)
	if err != nil || len(records) != 2 || records[0].Type != event.PolicyAsked || records[1].Type != event.PolicyDecided {
		t.Fatalf("%s, %v", raw, err)
	}
	if strings.Contains(string(raw), "hush") || !strings.Contains(string(raw), `"outcome":"approved"`) || !strings.Contains(string(raw), `"edited":true`) || !strings.Contains(string(raw), `"tool":"fs__write"`) {
		t.Errorf("%s", raw)
	}
}
