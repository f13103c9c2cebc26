package published_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/plan"
	"github.com/stoahub/stoa/internal/plan/published"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

func TestMain(m *testing.M) {
	storetest.Child()
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, st *store.Store) *published.Plans {
	t.Helper()
	p, err := published.Open(t.Context(), st, published.Options{Check: func(p published.Plan) error {
		if p.Plan.Title == "wrong" {
			return errors.New("it is wrong")
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// shown are the plans with the titles that they have.
func shown(p *published.Plans) string {
	all, _ := p.List()
	var out []string
	for i := range all {
		out = append(out, fmt.Sprintf("%s=%s/%v", all[i].Tool(), all[i].Plan.Title, all[i].Shared))
	}
	return strings.Join(out, " ")
}

func put(t *testing.T, p *published.Plans, one published.Plan) {
	t.Helper()
	if err := p.Change(t.Context(), one.Tool(), func(*published.Plan) (*published.Plan, error) { return &one, nil }); err != nil {
		t.Fatal(err)
	}
}

func local(name, title string) published.Plan {
	return published.Plan{Name: name, Owner: auth.LocalName, Plan: plan.Plan{Title: title}}
}

// What is published, shared, changed and taken back at one hub is so at the
// other, and after a restart.
func TestHubsShareThem(t *testing.T) {
	srv := storetest.StartServer(t)
	hub := func() *published.Plans { return open(t, storetest.Open(t, store.Options{URL: srv.URL})) }
	a, b := hub(), hub()
	both := func(want string) {
		t.Helper()
		for _, p := range []*published.Plans{a, b} {
			await.NoError(t, "it is known", func() error {
				if got := shown(p); got != want {
					return fmt.Errorf("%q, want %q", got, want)
				}
				return nil
			})
		}
		if got := shown(hub()); got != want {
			t.Errorf("after a restart: %q, want %q", got, want)
		}
	}
	_, none := a.List()
	put(t, a, local("x", "one"))
	both("plan__x=one/false")
	_, first := b.List()
	put(t, b, local("x", "two"))
	both("plan__x=two/false")
	if _, second := b.List(); first == none || second == first {
		t.Errorf("revisions of other lists: %q, %q, %q", none, first, second)
	}
	if err := a.Change(t.Context(), "plan__x", func(old *published.Plan) (*published.Plan, error) {
		next := *old
		next.Shared = true
		return &next, nil
	}); err != nil {
		t.Fatal(err)
	}
	both("plan__x=two/true")
	if err := b.Change(t.Context(), "plan__x", func(*published.Plan) (*published.Plan, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	both("")
}

// Where both hubs change the same plan at once, each decides on what the other
// has made of it.
func TestNoneOverwritesUnseen(t *testing.T) {
	srv := storetest.StartServer(t)
	var hubs []*published.Plans
	for range 2 {
		hubs = append(hubs, open(t, storetest.Open(t, store.Options{URL: srv.URL})))
	}
	const each = 10
	var wg sync.WaitGroup
	for i, p := range hubs {
		wg.Go(func() {
			for range each {
				err := p.Change(t.Context(), "plan__n", func(old *published.Plan) (*published.Plan, error) {
					next := local("n", "")
					if old != nil {
						next.Plan.Title = old.Plan.Title
					}
					next.Plan.Title += string("ab"[i])
					return &next, nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := hubs[0].CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := shown(hubs[0]); len(got) != len("plan__n=/false")+2*each {
		t.Errorf("%s: want %d letters", got, 2*each)
	}
}

// Plans of earlier versions are there, by the names under which those kept them;
// what cannot be offered is not, and can be replaced.
func TestOfEarlierVersions(t *testing.T) {
	storetest.Each(t, func(t *testing.T, st *store.Store) {
		b, err := st.Bucket(t.Context(), store.BucketOptions{Name: "plans"})
		if err != nil {
			t.Fatal(err)
		}
		for key, one := range map[string]published.Plan{"x": {Name: "x", Owner: "ann", Plan: plan.Plan{Title: "hers"}}, "bad": local("bad", "wrong"), "gone": local("gone", "gone")} {
			data, err := json.Marshal(one)
			if err == nil {
				_, err = b.Put(t.Context(), key, data, 0)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Delete(context.Background(), "gone", 0); err != nil {
			t.Fatal(err)
		}
		p := open(t, st)
		her := (&published.Plan{Name: "x", Owner: "ann"}).Tool()
		if got := shown(p); got != her+"=hers/false" {
			t.Fatalf("read: %s", got)
		}
		put(t, p, local("x", "mine"))
		put(t, p, local("bad", "good"))
		put(t, p, published.Plan{Name: "x", Owner: "ann", Plan: plan.Plan{Title: "new"}})
		want := "plan__bad=good/false plan__x=mine/false " + her + "=new/false"
		if got := shown(p); got != want {
			t.Errorf("published: %s, want %s", got, want)
		}
		if got := shown(open(t, st)); got != want {
			t.Errorf("opened again: %s, want %s", got, want)
		}
	})
}
