package actor

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/stoahub/stoa/internal/auth"
)

var (
	alice = &auth.Principal{Name: "alice", Scopes: auth.Scopes{"git*", "files"}, Via: auth.ViaToken, Rights: auth.Rights{auth.RightApprove, auth.RightRegister}}
	bob   = &auth.Principal{Name: "bob", Scopes: auth.Scopes{"github", "mail"}, Via: auth.ViaToken, Rights: auth.Rights{auth.RightApprove}}
	carol = &auth.Principal{Name: "carol", Scopes: auth.Scopes{"*"}, Via: auth.ViaToken}
	all   = []*auth.Principal{alice, bob, carol, auth.Owner, auth.Local}
)

// among looks principals up in a list.
func among(known []*auth.Principal) Lookup {
	return func(name string, via auth.Via) (*auth.Principal, error) {
		for _, p := range known {
			if p.Name == name && (via == "" || p.Via == via) {
				return p, nil
			}
		}
		return nil, nil
	}
}

func TestTheZeroActorMayDoNothing(t *testing.T) {
	var nobody Actor
	for name, a := range map[string]Actor{
		"nobody": nobody, "through a batch": nobody.By(ByBatch()), "through a model": nobody.By(ByModel("")),
		"behind a run": New(API, auth.Owner).By(ByRun("r", &nobody)), "behind an agent": New(HTTP, auth.Owner).By(ByAgent("x", "c", nobody)),
	} {
		if a.InScope("github") || a.Has(auth.RightApprove) {
			t.Errorf("%s: in scope %t, has %t", name, a.InScope("github"), a.Has(auth.RightApprove))
		}
		if _, err := Restore(a.Record(), "", among(all)); !errors.Is(err, ErrGone) {
			t.Errorf("%s is restored: %v", name, err)
		}
	}
	if nobody.Name() != "" || nobody.Principal() != nil || !nobody.Direct() || nobody.IsModel() || nobody.Tag() != "" {
		t.Errorf("%+v", nobody)
	}
}

// Two that grew from one do not share what they grew by.
func TestByLeavesTheReceiver(t *testing.T) {
	base := New(HTTP, alice)
	for range 5 { // a slice with room at its end would be shared
		base = base.By(ByBatch())
		before := base.Record()
		x, y := base.By(ByModel("x")), base.By(ByModel("y"))
		if m, _ := x.LastModel(); m != "x" {
			t.Fatalf("at depth %d the model is %q", base.Depth(), m)
		}
		if m, _ := y.LastModel(); m != "y" || base.IsModel() || x.Depth() != base.Depth()+1 {
			t.Fatalf("at depth %d: %q, %+v", base.Depth(), m, base)
		}
		if now, err := Restore(before, "", among(all)); err != nil || !now.Equal(base) {
			t.Fatalf("it is another: %+v, %v", base, err)
		}
	}
	chain := base.Chain()
	chain[0] = ByModel("inserted")
	_ = append(chain[:2], ByModel("appended"))
	if base.IsModel() {
		t.Error("who has the chain can change it")
	}
	caller := New(HTTP, bob)
	by := base.By(ByAgent("agent", "c1", caller))
	caller = caller.By(ByModel("later"))
	if by.IsModel() || !caller.IsModel() {
		t.Error("the caller of an agent changed after the fact")
	}
}

func TestRights(t *testing.T) {
	owner, ofBob := New(API, auth.Owner), New(HTTP, bob)
	model := New(HTTP, bob).By(ByModel("writer"))
	for name, tc := range map[string]struct {
		a    Actor
		want []auth.Right
	}{
		"the owner":                     {owner, []auth.Right{auth.RightApprove, auth.RightRegister, auth.RightShare, auth.RightLogs, auth.RightSessions, auth.RightSettings}},
		"without a token":               {New(HTTP, auth.Local), nil},
		"a token":                       {New(HTTP, alice), []auth.Right{auth.RightApprove, auth.RightRegister}},
		"a token without any":           {New(HTTP, carol), nil},
		"a run, a batch, a task":        {New(HTTP, alice).By(ByRun("r", nil)).By(ByBatch()).By(ByTask()), []auth.Right{auth.RightApprove, auth.RightRegister}},
		"a run of another's plan":       {New(HTTP, alice).By(ByRun("r", &ofBob)), []auth.Right{auth.RightApprove}},
		"a run of a model's plan":       {New(HTTP, alice).By(ByRun("r", &model)), nil},
		"a model":                       {owner.By(ByModel("")), nil},
		"a model, deep":                 {owner.By(ByRun("r", nil)).By(ByModel("x")).By(ByBatch()), nil},
		"an agent":                      {owner.By(ByAgent("x", "c", owner)), nil},
		"a server that samples":         {owner.By(BySampling("github")), nil},
		"somebody else's hand":          {owner.Steered(ofBob), nil},
		"a kind that nobody knows here": {owner.By(Delegate{Kind: "later"}), nil},
	} {
		for _, r := range []auth.Right{auth.RightApprove, auth.RightRegister, auth.RightShare, auth.RightLogs, auth.RightSessions, auth.RightSettings, "", "other"} {
			want := slices.Contains(tc.want, r) || name == "the owner" && (r == "" || r == "other")
			if got := tc.a.Has(r); got != want {
				t.Errorf("%s: Has(%q) = %t", name, r, got)
			}
		}
	}
}

func TestScopesIntersect(t *testing.T) {
	ofBob, ofCarol := New(HTTP, bob), New(HTTP, carol)
	nested := ofCarol.By(ByAgent("y", "c2", ofBob))
	for name, tc := range map[string]struct {
		a    Actor
		want []string
	}{
		"alone":               {New(HTTP, alice), []string{"github", "gitlab", "files"}},
		"a model":             {New(HTTP, alice).By(ByModel("x")), []string{"github", "gitlab", "files"}},
		"for another":         {New(HTTP, alice).By(ByAgent("x", "c1", ofBob)), []string{"github"}},
		"of another's plan":   {New(HTTP, alice).By(ByRun("r", &ofBob)), []string{"github"}},
		"for who may use all": {New(HTTP, alice).By(ByAgent("x", "c1", ofCarol)), []string{"github", "gitlab", "files"}},
		"who may use all":     {ofCarol.By(ByAgent("x", "c1", ofBob)), []string{"github", "mail"}},
		"of another's other":  {New(HTTP, alice).By(ByAgent("x", "c1", nested)), []string{"github"}},
	} {
		for _, server := range []string{"github", "gitlab", "files", "mail", "other", ""} {
			if got := tc.a.InScope(server); got != slices.Contains(tc.want, server) {
				t.Errorf("%s: InScope(%q) = %t", name, server, got)
			}
		}
	}
}

func TestExtends(t *testing.T) {
	base := New(HTTP, alice).By(ByModel("x"))
	for name, tc := range map[string]struct {
		a, b Actor
		want bool
	}{
		"itself":                  {base, base, true},
		"longer":                  {base.By(ByBatch()).By(ByTask()), base, true},
		"shorter":                 {New(HTTP, alice), base, false},
		"by another path":         {New(WebSocket, alice).By(ByModel("x")).By(ByTask()), base, true},
		"another model":           {New(HTTP, alice).By(ByModel("y")).By(ByTask()), base, false},
		"another order":           {New(HTTP, alice).By(ByTask()).By(ByModel("x")), base, false},
		"another principal":       {New(HTTP, bob).By(ByModel("x")), base, false},
		"come in another way":     {New(HTTP, auth.Local).By(ByTask()), New(HTTP, auth.Owner), false},
		"nobody":                  {Actor{}, base, false},
		"of nobody":               {base, Actor{}, false},
		"direct, of the same":     {base, New(HTTP, alice), true},
		"direct, of another":      {base, New(HTTP, bob), false},
		"for another":             {base.By(ByAgent("a", "c", New(HTTP, bob))), base.By(ByAgent("a", "c", New(HTTP, carol))), false},
		"for nobody":              {base.By(ByRun("r", nil)), base.By(ByRun("r", &Actor{})), false},
		"in another call":         {base.By(ByAgent("a", "c", New(HTTP, bob))), base.By(ByAgent("a", "d", New(HTTP, bob))), false},
		"for one that grew since": {base.By(ByAgent("a", "c", New(HTTP, bob).By(ByModel("")))), base.By(ByAgent("a", "c", New(HTTP, bob))), false},
	} {
		if got := tc.a.Extends(tc.b); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestSteered(t *testing.T) {
	run := New(API, alice).By(ByRun("r", nil))
	byBob := New(HTTP, bob)
	model := New(Chat, alice).By(ByModel(""))
	for name, tc := range map[string]struct {
		a, b Actor
		adds bool
	}{
		"by who began it":              {run, New(HTTP, alice), false},
		"by itself":                    {run, run, false},
		"by another":                   {run, byBob, true},
		"by a model of who began it":   {run, model, true},
		"a model's, by the person":     {model.By(ByRun("r", nil)), New(HTTP, alice), false},
		"by the same other again":      {run.Steered(byBob), byBob, false},
		"by one more":                  {run.Steered(byBob), New(HTTP, carol), true},
		"nobody's, by nobody":          {Actor{}.By(ByBatch()), Actor{}, true},
		"by the same other's model":    {run.Steered(byBob), byBob.By(ByModel("")), true},
		"the owner's, without a token": {New(API, auth.Owner).By(ByRun("r", nil)), New(HTTP, auth.Local), true},
		"by who began it after others": {run.Steered(byBob), New(HTTP, alice), false},
	} {
		got := tc.a.Steered(tc.b)
		if grown := got.Depth() != tc.a.Depth(); grown != tc.adds || !got.Extends(tc.a) {
			t.Errorf("%s: %+v", name, got)
		}
		if tc.b.IsModel() && !got.IsModel() || !tc.b.InScope("gitlab") && got.InScope("gitlab") {
			t.Errorf("%s: the scopes of who moved it on do not count", name)
		}
		if got.Has(auth.RightApprove) && !tc.b.Has(auth.RightApprove) {
			t.Errorf("%s: the rights of who moved it on do not count", name)
		}
	}
}

func TestTag(t *testing.T) {
	base := New(HTTP, alice)
	ofBob := New(HTTP, bob)
	for name, a := range map[string]Actor{
		"direct": base, "of another": ofBob, "a batch in a run": base.By(ByRun("r", nil)).By(ByBatch()), "a task": base.By(ByTask()),
	} {
		if got := a.Tag(); got != "" {
			t.Errorf("%s: %q", name, got)
		}
	}
	seen := map[string]string{}
	different := map[string]Actor{
		"the chat host":            base.By(ByModel("")),
		"a model":                  base.By(ByModel("x")),
		"another":                  base.By(ByModel("y")),
		"both":                     base.By(ByModel("x")).By(ByModel("y")),
		"one whose name is theirs": base.By(ByModel("xm1:y")),
		"for bob":                  base.By(ByAgent("a", "c", ofBob)),
		"for bob's model":          base.By(ByAgent("a", "c", ofBob.By(ByModel("x")))),
		"for carol":                base.By(ByAgent("a", "c", New(HTTP, carol))),
		"for bob and carol":        base.By(ByAgent("a", "c", ofBob)).By(ByAgent("a", "c", New(HTTP, carol))),
		"one named bob":            base.By(ByModel("bob")),
	}
	for _, name := range slices.Sorted(maps.Keys(different)) {
		tag := different[name].Tag()
		if other, was := seen[tag]; was || tag == "" {
			t.Errorf("%s has the tag %q of %q", name, tag, other)
		}
		seen[tag] = name
		again, err := Restore(different[name].Record(), "", among(all))
		if err != nil || again.Tag() != tag || different[name].By(ByTask()).Tag() != tag {
			t.Errorf("%s: tag %q, then %q, as a task %q, %v", name, tag, again.Tag(), different[name].By(ByTask()).Tag(), err)
		}
	}
}

func TestWithoutARecordItIsAModel(t *testing.T) {
	a, err := Restore(nil, "alice", among(all))
	if err != nil || !a.IsModel() || a.Principal() != alice || a.Has(auth.RightApprove) || !a.InScope("files") || !a.Equal(Unknown(alice)) {
		t.Errorf("%+v, %v", a, err)
	}
	if m, ok := a.LastModel(); m != "" || !ok {
		t.Errorf("the model of %q, %t", m, ok)
	}
	if _, err := Restore(nil, "gone", among(all)); !errors.Is(err, ErrGone) {
		t.Errorf("of somebody who is gone: %v", err)
	}
}

func TestRestoreIsBounded(t *testing.T) {
	long, deep := New(HTTP, alice), New(HTTP, alice)
	for range MaxDepth {
		long = long.By(ByBatch())
	}
	for range maxNested - 1 {
		deep = New(HTTP, alice).By(ByAgent("x", "c", deep))
	}
	for name, a := range map[string]Actor{"long": long, "deep": deep} {
		if got, err := Restore(a.Record(), "", among(all)); err != nil || !got.Equal(a) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, a := range map[string]Actor{"long": long.By(ByBatch()), "deep": New(HTTP, alice).By(ByAgent("x", "c", deep))} {
		if _, err := Restore(a.Record(), "", among(all)); err == nil {
			t.Errorf("too %s, and restored", name)
		}
	}
}

func TestCalled(t *testing.T) {
	a := New(HTTP, alice).By(ByModel("")).By(ByAgent("x", "c1", New(HTTP, bob))).By(ByBatch())
	if !a.Called("c1") || a.Called("c2") || a.Called("") {
		t.Error("which calls it was given its task in")
	}
}
