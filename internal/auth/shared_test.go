package auth

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/lease"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
	"github.com/stoahub/stoa/internal/vault"
)

const clusterSecret = "the cluster key of these tests, 0123456789"

// counted counts how often the end of a log is asked for.
type counted struct {
	journal.Log
	n *atomic.Int64
}

func (c counted) Last(ctx context.Context, filter string) (journal.Entry, error) {
	c.n.Add(1)
	return c.Log.Last(ctx, filter)
}

// sharing is what another hub on a server would open, and how often it has asked.
func sharing(t *testing.T, s *storetest.Server) (Shared, *atomic.Int64) {
	t.Helper()
	st := storetest.Open(t, store.Options{URL: s.URL})
	key, err := vault.NewKey(clusterSecret)
	if err != nil {
		t.Fatal(err)
	}
	leases, err := lease.Open(t.Context(), st, lease.Options{Bucket: "authlease", Hub: newID("h_"), Life: await.Patience})
	if err != nil {
		t.Fatal(err)
	}
	n := &atomic.Int64{}
	return Shared{Key: key.Derive("names"), Alone: leases.Do, Log: func(ctx context.Context, name string) (journal.Log, string, error) {
		inner, subjects, err := st.ValuesLog(ctx, store.BucketOptions{Name: name})
		return counted{key.Log(inner), n}, subjects, err
	}}, n
}

func sharedTokensOf(t *testing.T, in Shared) *Tokens {
	t.Helper()
	tokens, err := OpenSharedTokens(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tokens.Close)
	return tokens
}

// another is one more hub's.
func another(t *testing.T, s *storetest.Server) *Tokens {
	t.Helper()
	in, _ := sharing(t, s)
	return sharedTokensOf(t, in)
}

// refusedBy waits until a hub knows that a token is no good.
func refusedBy(t *testing.T, tokens *Tokens, what, secret string) {
	t.Helper()
	await.Until(t, what, func() bool {
		_, err := tokens.Verify(t.Context(), secret)
		return errors.Is(err, ErrBadToken)
	})
}

// What is made or revoked at one hub counts or stops counting at the others, and
// after a restart of any of them.
func TestHubsShareTokens(t *testing.T) {
	s := storetest.StartServer(t)
	a, b := another(t, s), another(t, s)
	made, secret, err := a.Create("alice", Scopes{"git*"}, time.Hour, RightApprove)
	if err != nil {
		t.Fatal(err)
	}
	for what, tokens := range map[string]*Tokens{"there": b, "here": a, "after a restart": another(t, s)} {
		who, err := tokens.Verify(t.Context(), secret)
		if err != nil || who.Name != "alice" || who.Token != made.ID || !who.Has(RightApprove) || !who.Scopes.Allows("github") || who.Scopes.Allows("files") {
			t.Errorf("%s: %+v, %v", what, who, err)
		}
		if who, err := tokens.Named("alice"); err != nil || who == nil || who.Token != made.ID {
			t.Errorf("%s: by its name: %+v, %v", what, who, err)
		}
		if who, err := tokens.WithID(made.ID); err != nil || who == nil || who.Name != "alice" {
			t.Errorf("%s: by its id: %+v, %v", what, who, err)
		}
	}
	if _, _, err := b.Create("alice", Scopes{"*"}, 0); err == nil || !strings.Contains(err.Error(), "one of that name") {
		t.Errorf("the name is taken: %v", err)
	}
	_, other := create(t, b, "bob", "*")
	if all, err := a.List(); err != nil || len(all) != 2 || !slices.ContainsFunc(all, func(one Token) bool { return one.ID == made.ID && one.Expires.Equal(made.Expires) }) {
		t.Errorf("listed: %+v, %v", all, err)
	}
	if gone, err := b.Revoke(made.ID); err != nil || gone.Name != "alice" {
		t.Fatalf("%+v, %v", gone, err)
	}
	refusedBy(t, b, "it is revoked there", secret)
	refusedBy(t, a, "it is revoked here", secret)
	if _, err := a.Revoke("alice"); !errors.Is(err, ErrNoToken) {
		t.Errorf("revoked again: %v", err)
	}
	again := another(t, s)
	refusedBy(t, again, "it is revoked after a restart", secret)
	if who, err := again.Verify(t.Context(), other); err != nil || who.Name != "bob" {
		t.Errorf("the other one: %+v, %v", who, err)
	}
	if who, err := a.WithID(made.ID); err != nil || who != nil {
		t.Errorf("by the id of one that is gone: %+v, %v", who, err)
	}
	_, anew, err := again.Create("alice", Scopes{"*"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if who, err := b.Verify(t.Context(), anew); err != nil || who.Token == made.ID {
		t.Errorf("one of that name: %+v, %v", who, err)
	}
	refusedBy(t, b, "the name does not bring it back", secret)
	hash := sha256.Sum256([]byte(anew))
	raw := string(storetest.Raw(t, s.URL))
	for what, text := range map[string]string{"the token": anew, "its hash": hex.EncodeToString(hash[:]), "a name": "alice", "an id": made.ID, "the cluster key": clusterSecret} {
		if strings.Contains(raw, text) {
			t.Errorf("the store tells %s", what)
		}
	}
}

// Of hubs that make a token of the same name at once, one does.
func TestOneTokenOfAName(t *testing.T) {
	s := storetest.StartServer(t)
	hubs := []*Tokens{another(t, s), another(t, s)}
	var made atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if _, _, err := hubs[i%2].Create("alice", Scopes{"*"}, 0); err == nil {
				made.Add(1)
			}
		})
	}
	wg.Wait()
	if all, err := another(t, s).List(); err != nil || len(all) != 1 || made.Load() != 1 {
		t.Errorf("%d were made, and there are %v, %v", made.Load(), all, err)
	}
}

// What a name had is removed once, at whichever hub its new token is used first,
// and nobody gets in before.
func TestFirstUseOverHubs(t *testing.T) {
	s := storetest.StartServer(t)
	a, b := another(t, s), another(t, s)
	_, secret := create(t, a, "bob", "*")
	a.OnFirstUse(func(context.Context, string) error { return errors.New("the disk is full") })
	if who, err := a.Verify(t.Context(), secret); err == nil || errors.Is(err, ErrBadToken) {
		t.Errorf("let in before what was there is removed: %v, %v", who, err)
	}
	var removed, letIn atomic.Int32
	for _, tokens := range []*Tokens{a, b} {
		tokens.OnFirstUse(func(ctx context.Context, name string) error {
			if who, err := tokens.Named(name); who != nil || err != nil {
				t.Errorf("%s is there already: %v, %v", name, who, err)
			}
			if letIn.Load() > 0 {
				t.Error("somebody was let in before")
			}
			removed.Add(1)
			return nil
		})
	}
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if who, err := []*Tokens{a, b}[i%2].Verify(t.Context(), secret); err != nil || who.Name != "bob" {
				t.Errorf("%v, %v", who, err)
			}
			letIn.Add(1)
		})
	}
	wg.Wait()
	again := another(t, s)
	again.OnFirstUse(func(context.Context, string) error { removed.Add(1); return nil })
	if _, err := again.Verify(t.Context(), secret); err != nil || removed.Load() != 1 {
		t.Errorf("removed %d times: %v", removed.Load(), err)
	}
}

// While the store does not answer, a token that is known goes on for a while and
// what it opened with it; one that is not known is refused, though nobody says
// that it is bad.
func TestTokensWhileTheStoreIsAway(t *testing.T) {
	s := storetest.StartServer(t)
	a := another(t, s)
	var late atomic.Int64
	a.now = func() time.Time { return time.Now().Add(time.Duration(late.Load())) }
	_, known := create(t, a, "alice", "*")
	_, revoked := create(t, a, "bob", "*")
	for _, secret := range []string{known, revoked} {
		if _, err := a.Verify(t.Context(), secret); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Revoke("bob"); err != nil {
		t.Fatal(err)
	}
	g := newGuard(t, Options{Loopback: true, Verifier: a})
	web := httptest.NewServer(g.Require(func(w http.ResponseWriter, r *http.Request, _ *Principal) {
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/stream" {
			<-r.Context().Done()
		}
	}))
	defer web.Close()
	get := func(path, secret string) *http.Response {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, web.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+secret)
		resp, err := web.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	stream := get("/stream", known)
	defer stream.Body.Close()
	s.Kill()
	for range 3 {
		if who, err := a.Verify(t.Context(), known); err != nil || who.Name != "alice" {
			t.Errorf("one that is known: %v, %v", who, err)
		}
	}
	for what, secret := range map[string]string{"unknown": newSecret(TokenPrefix), "revoked before": revoked} {
		if _, err := a.Verify(t.Context(), secret); !fault.Is(err, fault.Storage) || errors.Is(err, ErrBadToken) {
			t.Errorf("one that is %s: %v", what, err)
		}
	}
	if _, _, err := a.Create("carol", Scopes{"*"}, 0); err == nil {
		t.Error("one was made")
	}
	if _, err := a.Revoke("alice"); err == nil || errors.Is(err, ErrNoToken) {
		t.Errorf("revoked: %v", err)
	}
	late.Store(int64(Trusted + time.Second))
	if _, err := a.Verify(t.Context(), known); !fault.Is(err, fault.Storage) || errors.Is(err, ErrBadToken) {
		t.Errorf("one that was known too long ago: %v", err)
	}
	refused := get("/", known)
	refused.Body.Close()
	if refused.StatusCode != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" {
		t.Errorf("a request: %s", refused.Status)
	}
	buf := make([]byte, 1)
	if _, err := stream.Body.Read(buf); err == nil { // which waits for its end
		t.Error("the stream has more to say")
	}
	s.Restart(t)
	await.Until(t, "it is let in again", func() bool {
		_, err := a.Verify(t.Context(), known)
		return err == nil
	})
	refusedBy(t, a, "what was revoked stays so", revoked)
}

// However many tokens are shown, the store is asked once in a while.
func TestStoreIsAskedNowAndThen(t *testing.T) {
	s := storetest.StartServer(t)
	in, asked := sharing(t, s)
	a := sharedTokensOf(t, in)
	_, secret := create(t, a, "alice", "*")
	for what, shown := range map[string]func() string{
		"one that is known":      func() string { return secret },
		"those that are guessed": func() string { return newSecret(TokenPrefix) },
	} {
		before, began := asked.Load(), time.Now()
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					_, _ = a.Verify(t.Context(), shown())
				}
			})
		}
		wg.Wait()
		n, most := asked.Load()-before, int64(time.Since(began)/recheck)+2
		if n > most {
			t.Errorf("%s: asked %d times, and at most %d were due", what, n, most)
		}
	}
}

// The tokens of a file are put into the store once: what was revoked there does
// not come back from a file that is found again.
func TestImport(t *testing.T) {
	s := storetest.StartServer(t)
	path := filepath.Join(t.TempDir(), "tokens.json")
	file := tokensAt(t, path)
	bob, bobs := create(t, file, "bob", "*")
	_, carols := create(t, file, "carol", "git*")
	file.OnFirstUse(func(context.Context, string) error { return nil })
	if _, err := file.Verify(t.Context(), carols); err != nil { // now it is used
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	again := func() { // as if the hub had died before it was renamed
		t.Helper()
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hubs := []*Tokens{another(t, s), another(t, s)}
	var fresh []string
	var mu sync.Mutex
	var wg sync.WaitGroup
	for _, tokens := range hubs {
		tokens.OnFirstUse(func(_ context.Context, name string) error {
			mu.Lock()
			defer mu.Unlock()
			fresh = append(fresh, name)
			return nil
		})
		wg.Go(func() {
			if _, err := tokens.Import(path); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, err := os.Stat(path); err == nil {
		t.Error("the file is still there")
	}
	for i, tokens := range hubs {
		for name, secret := range map[string]string{"bob": bobs, "carol": carols} {
			if who, err := tokens.Verify(t.Context(), secret); err != nil || who.Name != name {
				t.Errorf("hub %d: %s is %v, %v", i, name, who, err)
			}
		}
	}
	if len(fresh) != 1 || fresh[0] != "bob" {
		t.Errorf("used for the first time: %q, want bob alone, once", fresh)
	}
	if _, err := hubs[0].Revoke("bob"); err != nil {
		t.Fatal(err)
	}
	again()
	later := another(t, s)
	if _, err := later.Import(path); err != nil {
		t.Fatal(err)
	}
	if _, err := later.Verify(t.Context(), bobs); !errors.Is(err, ErrBadToken) {
		t.Errorf("a revoked token is back: %v", err)
	}
	// Nor if its name was given away meanwhile, and that was revoked too.
	_, anew := create(t, later, "bob", "*")
	again()
	if _, err := hubs[1].Import(path); err != nil {
		t.Fatal(err)
	}
	if who, err := hubs[1].Verify(t.Context(), anew); err != nil || who.Token == bob.ID {
		t.Errorf("the new one: %+v, %v", who, err)
	}
	if _, err := hubs[1].Revoke("bob"); err != nil {
		t.Fatal(err)
	}
	again()
	if _, err := later.Import(path); err != nil {
		t.Fatal(err)
	}
	if all, err := later.List(); err != nil || len(all) != 1 || all[0].Name != "carol" {
		t.Errorf("in the end there are %+v, %v", all, err)
	}
	// Another machine's token of a name that is taken is left out.
	other := tokensAt(t, filepath.Join(t.TempDir(), "tokens.json"))
	_, theirs := create(t, other, "carol", "*")
	_, daves := create(t, other, "dave", "*")
	if _, err := later.Import(other.keeper.(*fileTokens).path); err != nil {
		t.Fatal(err)
	}
	if _, err := later.Verify(t.Context(), theirs); !errors.Is(err, ErrBadToken) {
		t.Errorf("another carol: %v", err)
	}
	if _, err := later.Verify(t.Context(), daves); err != nil {
		t.Errorf("dave: %v", err)
	}
	if n, err := later.Import(filepath.Join(t.TempDir(), "none.json")); n != 0 || err != nil {
		t.Errorf("no file: %d, %v", n, err)
	}
}

func BenchmarkVerifyShared(b *testing.B) {
	key, err := vault.NewKey(clusterSecret)
	if err != nil {
		b.Fatal(err)
	}
	log := journal.NewMemory()
	tokens, err := OpenSharedTokens(b.Context(), Shared{Key: key.Derive("names"), Log: func(context.Context, string) (journal.Log, string, error) {
		return key.Log(log), "tokens.>", nil
	}})
	if err != nil {
		b.Fatal(err)
	}
	defer tokens.Close()
	_, secret, err := tokens.Create("a", Scopes{"*"}, 0)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tokens.Verify(b.Context(), secret); err != nil {
			b.Fatal(err)
		}
	}
}
