package actor

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/auth"
)

// drawn is any actor, others behind it included.
func drawn(t *rapid.T, nested int) Actor {
	a := New(rapid.SampledFrom(Paths()).Draw(t, "path"), rapid.SampledFrom(all).Draw(t, "who"))
	for range rapid.IntRange(0, 4).Draw(t, "depth") {
		a = a.By(drawnDelegate(t, nested))
	}
	return a
}

func drawnDelegate(t *rapid.T, nested int) Delegate {
	d := Delegate{Kind: rapid.SampledFrom(Kinds()).Draw(t, "kind"), Name: rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "name"),
		Call: rapid.SampledFrom([]string{"", "c1", "c2"}).Draw(t, "call")}
	if nested > 0 && rapid.Bool().Draw(t, "for") {
		a := drawn(t, nested-1)
		d.For = &a
	}
	return d
}

func TestRecordsRestoreWhatTheyWereMadeOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := drawn(t, 3)
		text, err := json.Marshal(a.Record())
		if err != nil {
			t.Fatal(err)
		}
		var r Record
		if err := json.Unmarshal(text, &r); err != nil {
			t.Fatal(err)
		}
		b, err := Restore(&r, "somebody else", among(all))
		if err != nil || !b.Equal(a) || !a.Equal(b) || b.Path() != a.Path() || b.Tag() != a.Tag() || b.IsModel() != a.IsModel() || r.IsModel() != a.IsModel() || !reflect.DeepEqual(b.Record(), a.Record()) {
			t.Fatalf("%s became %+v, %v", text, b, err)
		}
		// Take away any that it rests on, and it is not there any more.
		gone := rapid.SampledFrom(slices.Collect(a.Principals)).Draw(t, "gone")
		left := slices.DeleteFunc(slices.Clone(all), func(p *auth.Principal) bool { return p == gone })
		if _, err := Restore(&r, "somebody else", among(left)); !errors.Is(err, ErrGone) {
			t.Fatalf("%s without %s: %v", text, gone.Name, err)
		}
		// Those that it does not rest on do not matter.
		if _, err := Restore(&r, "somebody else", among(slices.Collect(a.Principals))); err != nil {
			t.Fatalf("%s with its own alone: %v", text, err)
		}
	})
}

// However somebody acts through others, it never has more rights by that than it
// has itself, nor more than those others.
func TestDelegationAddsNothing(t *testing.T) {
	servers := []string{"github", "gitlab", "files", "mail", "other"}
	rights := []auth.Right{auth.RightApprove, auth.RightRegister, auth.RightShare, auth.RightLogs, auth.RightSessions, auth.RightSettings}
	rapid.Check(t, func(t *rapid.T) {
		a, d := drawn(t, 2), drawnDelegate(t, 2)
		before := a.Record()
		b := a.By(d)
		if !reflect.DeepEqual(a.Record(), before) || b.Depth() != a.Depth()+1 || !b.Extends(a) || a.Extends(b) || b.Equal(a) {
			t.Fatalf("%+v by %+v", a, d)
		}
		for _, s := range servers {
			want := a.InScope(s) && (d.For == nil || d.For.InScope(s))
			if b.InScope(s) != want {
				t.Fatalf("%+v: InScope(%s) = %t", b.Record(), s, !want)
			}
			everybody := true
			for p := range b.Principals {
				everybody = everybody && p.Scopes.Allows(s)
			}
			if b.InScope(s) != everybody {
				t.Fatalf("%+v: InScope(%s) is not that of all", b.Record(), s)
			}
		}
		person := d.Kind == Plan || d.Kind == Batch || d.Kind == Task
		for _, r := range rights {
			if b.Has(r) && (!a.Has(r) || !person || d.For != nil && (!slices.Collect(d.For.Principals)[0].Has(r) || d.For.IsModel())) {
				t.Fatalf("%+v has %s", b.Record(), r)
			}
			if a.Has(r) && person && d.For == nil && !b.Has(r) {
				t.Fatalf("%+v lost %s by a %s", a.Record(), r, d.Kind)
			}
		}
		if a.IsModel() && !b.IsModel() || d.Kind == Model && !b.IsModel() || d.For != nil && d.For.IsModel() && !b.IsModel() {
			t.Fatalf("%+v is no model", b.Record())
		}
	})
}

// Who moves on what another began bounds it, whoever the two are.
func TestSteeringBoundsBoth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawn(t, 1), drawn(t, 1)
		c := a.Steered(b)
		if !c.Extends(a) || !c.Steered(b).Equal(c) {
			t.Fatalf("%+v by %+v became %+v", a.Record(), b.Record(), c.Record())
		}
		for _, s := range []string{"github", "gitlab", "files", "mail"} {
			if c.InScope(s) && !(a.InScope(s) && b.InScope(s)) {
				t.Fatalf("%+v by %+v: InScope(%s)", a.Record(), b.Record(), s)
			}
		}
		for _, r := range []auth.Right{auth.RightApprove, auth.RightRegister, auth.RightSettings} {
			if c.Has(r) && !(a.Has(r) && b.Has(r)) {
				t.Fatalf("%+v by %+v has %s", a.Record(), b.Record(), r)
			}
		}
		if b.IsModel() && !c.IsModel() {
			t.Fatalf("%+v by the model %+v is none", a.Record(), b.Record())
		}
	})
}

// Tags are the same where those behind are, and tell models and people apart.
func TestTagsTellRightsApart(t *testing.T) {
	behind := func(a Actor) (people, models []string) {
		for p := range a.Principals {
			people = append(people, p.Name)
		}
		return people[1:], slices.Collect(a.Models)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawn(t, 2), drawn(t, 2)
		pa, ma := behind(a)
		pb, mb := behind(b)
		if same := slices.Equal(pa, pb) && slices.Equal(ma, mb); same != (a.Tag() == b.Tag()) {
			t.Fatalf("%q of %v %v, %q of %v %v", a.Tag(), pa, ma, b.Tag(), pb, mb)
		}
		if (a.Tag() == "") != (len(pa)+len(ma) == 0) {
			t.Fatalf("%q of %v %v", a.Tag(), pa, ma)
		}
	})
}
