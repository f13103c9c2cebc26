package auth

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func openSignIns(t *testing.T, path, owner string, tokens *Tokens) *SignIns {
	t.Helper()
	s, err := OpenSignIns(path, owner, tokens)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func signInAs(t *testing.T, s *SignIns, who *Principal) (SignIn, string) {
	t.Helper()
	one, secret, err := s.Create(who, "Firefox on Linux")
	if err != nil {
		t.Fatal(err)
	}
	return one, secret
}

// A sign-in has the rights of who made it, is on disk as a hash that nobody else
// can read, outlives the hub, and ends when it is revoked by another process.
func TestSignInLifeCycle(t *testing.T) {
	tokens, _ := openTokens(t)
	path := filepath.Join(t.TempDir(), "signins.json")
	s := openSignIns(t, path, "owner's", tokens)
	one, secret := signInAs(t, s, Owner)
	who, err := s.Verify(t.Context(), secret)
	if err != nil || !who.IsOwner() || who.Name != LocalName || who.SignIn != one.ID {
		t.Fatalf("%+v, %v", who, err)
	}
	if b, err := os.ReadFile(path); err != nil || strings.Contains(string(b), secret[len(SignInPrefix):]) {
		t.Errorf("the file holds the secret, or: %v", err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if who, err := openSignIns(t, path, "owner's", tokens).Verify(t.Context(), secret); err != nil || !who.IsOwner() {
		t.Errorf("after a restart: %v, %v", who, err)
	}
	if _, err := openSignIns(t, path, "another", tokens).Verify(t.Context(), secret); !errors.Is(err, ErrBadToken) {
		t.Errorf("after the owner's token was replaced: %v", err)
	}
	other := openSignIns(t, path, "", nil)
	if all, err := other.List(); err != nil || len(all) != 1 || all[0] != one {
		t.Errorf("listed: %v, %v", all, err)
	}
	if _, err := other.Revoke(func(x SignIn) bool { return x.ID == "s_none" }); !errors.Is(err, ErrNoSignIn) {
		t.Errorf("revoke what is not there: %v", err)
	}
	if gone, err := other.Revoke(func(x SignIn) bool { return x.ID == one.ID }); err != nil || len(gone) != 1 {
		t.Fatalf("revoked %v, %v", gone, err)
	}
	s.checked = time.Time{} // as if it had been a while
	if _, err := s.Verify(t.Context(), secret); !errors.Is(err, ErrBadToken) {
		t.Errorf("after it was revoked: %v", err)
	}
}

func TestSignInExpires(t *testing.T) {
	at := newClock()
	s := openSignIns(t, filepath.Join(t.TempDir(), "signins.json"), "owner's", nil)
	s.now = at.now
	_, secret := signInAs(t, s, Owner)
	at.pass(SignInLife - time.Second)
	if _, err := s.Verify(t.Context(), secret); err != nil {
		t.Errorf("within its life: %v", err)
	}
	at.pass(time.Second)
	if _, err := s.Verify(t.Context(), secret); !errors.Is(err, ErrBadToken) {
		t.Errorf("after its life, in which it was used: %v", err)
	}
	if all, err := s.List(); err != nil || len(all) > 0 {
		t.Errorf("listed: %v, %v", all, err)
	}
}

// A sign-in of a token's holder is no more than the token, and ends with it,
// also if a token of the same name is made again.
func TestSignInEndsWithItsToken(t *testing.T) {
	tokens, _ := openTokens(t)
	s := openSignIns(t, filepath.Join(t.TempDir(), "signins.json"), "owner's", tokens)
	_, token := create(t, tokens, "alice", "git*")
	alice, err := tokens.Verify(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	_, secret := signInAs(t, s, alice)
	who, err := s.Verify(t.Context(), secret)
	if err != nil || who.Name != "alice" || who.IsOwner() || who.Scopes.Allows("files") || !who.Scopes.Allows("git") {
		t.Fatalf("%+v, %v", who, err)
	}
	if _, _, err := s.Create(who, ""); err == nil {
		t.Error("who is signed in can sign in again, and again")
	}
	if _, err := tokens.Revoke("alice"); err != nil {
		t.Fatal(err)
	}
	create(t, tokens, "alice", "*")
	if _, err := s.Verify(t.Context(), secret); !errors.Is(err, ErrBadToken) {
		t.Errorf("after its token was revoked: %v", err)
	}
}

// Who has many loses the oldest; who makes them fast has to wait, and keeps
// nobody else from it.
func TestSignInsAreBounded(t *testing.T) {
	at := newClock()
	s := openSignIns(t, filepath.Join(t.TempDir(), "signins.json"), "owner's", nil)
	s.now = at.now
	_, first := signInAs(t, s, Owner)
	var last string
	for range maxSignIns {
		at.pass(time.Minute / maxPerMinute)
		_, last = signInAs(t, s, Owner)
	}
	for range maxPerMinute {
		signInAs(t, s, holder("alice", "t_1"))
	}
	if _, _, err := s.Create(holder("alice", "t_1"), ""); !errors.Is(err, ErrTooMany) {
		t.Errorf("alice's sign-in %d of a minute: %v", maxPerMinute+1, err)
	}
	at.pass(time.Minute)
	signInAs(t, s, holder("alice", "t_1"))
	signInAs(t, s, holder("bob", "t_2"))
	if _, err := s.Verify(t.Context(), first); !errors.Is(err, ErrBadToken) {
		t.Errorf("the oldest of %d: %v", maxSignIns+1, err)
	}
	if _, err := s.Verify(t.Context(), last); err != nil {
		t.Errorf("the newest: %v", err)
	}
}

// A file that others could have written or read, or that is damaged, lets nobody
// in and is not taken for an empty one.
func TestSignInsOfABadFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no modes here")
	}
	path := filepath.Join(t.TempDir(), "signins.json")
	s := openSignIns(t, path, "owner's", nil)
	_, secret := signInAs(t, s, Owner)
	for what, spoil := range map[string]func() error{
		"readable by others": func() error { return os.Chmod(path, 0o644) },
		"damaged":            func() error { return os.WriteFile(path, []byte(`{"version":1,`), 0o600) },
		"of another version": func() error { return os.WriteFile(path, []byte(`{"version":9,"signIns":[]}`), 0o600) },
	} {
		os.Chmod(path, 0o600)
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		s.checked = time.Time{}
		if _, err := s.Verify(t.Context(), secret); err == nil || errors.Is(err, ErrBadToken) {
			t.Errorf("%s: %v", what, err)
		}
		if _, err := s.Revoke(func(SignIn) bool { return true }); err == nil || errors.Is(err, ErrNoSignIn) {
			t.Errorf("%s: revoke: %v", what, err)
		}
	}
}

// What a ticket opened ends when the sign-in that it was for expires.
func TestStreamEndsWithItsSignIn(t *testing.T) {
	var late atomic.Int64
	s := openSignIns(t, filepath.Join(t.TempDir(), "signins.json"), "owner's", nil)
	s.now = func() time.Time { return time.Now().Add(time.Duration(late.Load())) }
	_, secret := signInAs(t, s, Owner)
	who, err := s.Verify(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	tickets := &Tickets{}
	g := newGuard(t, Options{Loopback: true, Verifier: s, Tickets: tickets})
	server := httptest.NewServer(g.Require(func(w http.ResponseWriter, r *http.Request, _ *Principal) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	defer server.Close()
	resp, err := server.Client().Get(server.URL + "/sse?ticket=" + issue(t, tickets, secret, who, "/sse"))
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", resp, err)
	}
	defer resp.Body.Close()
	late.Store(int64(SignInLife))
	if _, err := io.Copy(io.Discard, resp.Body); err != nil { // which would take for ever
		t.Errorf("the stream ended with %v", err)
	}
}
