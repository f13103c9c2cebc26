package auth

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/store/storetest"
)

// childFile makes the test binary create one token and exit, which is what
// `stoa token create` beside a running hub amounts to.
const childFile = "STOA_TEST_TOKEN_FILE"

func TestMain(m *testing.M) {
	storetest.Child()
	if path := os.Getenv(childFile); path != "" {
		if err := createAsChild(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func createAsChild(path string) error {
	t, err := OpenTokens(path)
	if err != nil {
		return err
	}
	_, secret, err := t.Create(fmt.Sprintf("child-%d", os.Getpid()), Scopes{"*"}, 0)
	if err == nil {
		fmt.Print(secret)
	}
	return err
}

func openTokens(t *testing.T) (*Tokens, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tokens.json")
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	return tokens, path
}

func create(t *testing.T, tokens *Tokens, name string, scopes ...string) (Token, string) {
	t.Helper()
	tok, secret, err := tokens.Create(name, scopes, 0)
	if err != nil {
		t.Fatal(err)
	}
	return tok, secret
}

func TestTokensLifeCycle(t *testing.T) {
	tokens, path := openTokens(t)
	tok, secret := create(t, tokens, "ci", "git*", "files")
	if !regexp.MustCompile(`^stoa_[0-9A-Za-z]{43}$`).MatchString(secret) {
		t.Fatalf("secret %q", secret)
	}
	who, err := tokens.Verify(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&Principal{Name: "ci", Scopes: Scopes{"git*", "files"}, Via: ViaToken, Token: tok.ID}, who); d != "" {
		t.Fatal(d)
	}
	b, err := os.ReadFile(path)
	if err != nil || strings.Contains(string(b), secret[5:]) {
		t.Fatalf("the file holds the secret, or: %v", err)
	}
	if info, _ := os.Stat(path); runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v", info.Mode())
	}
	again, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	list, err := again.List()
	if d := cmp.Diff([]Token{tok}, list); err != nil || d != "" {
		t.Fatal(err, d)
	}
	if _, _, err := tokens.Create("ci", Scopes{"*"}, 0); err == nil {
		t.Fatal("a second token of the same name")
	}
	if gone, err := again.Revoke(tok.ID); err != nil || gone.Name != "ci" {
		t.Fatal(gone, err)
	}
	if _, err := again.Verify(t.Context(), secret); !errors.Is(err, ErrBadToken) {
		t.Fatalf("after Revoke: %v", err)
	}
	if _, err := again.Revoke("ci"); !errors.Is(err, ErrNoToken) {
		t.Fatalf("second Revoke: %v", err)
	}
	create(t, again, "ci", "*")
	if _, err := again.Revoke("ci"); err != nil {
		t.Fatalf("by name: %v", err)
	}
	left, err := filepath.Glob(path + ".new-*")
	if err != nil || len(left) > 0 {
		t.Fatal("left behind", left, err)
	}
}

func TestTokensOfAnotherProcess(t *testing.T) {
	tokens, path := openTokens(t)
	var wg sync.WaitGroup
	secrets := make([]string, 4)
	for i := range secrets {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childFile+"="+path)
			out, err := cmd.Output()
			if err != nil {
				t.Errorf("child: %v %s", err, out)
				return
			}
			secrets[i] = string(out)
			// The very next request must see it.
			if _, err := tokens.Verify(t.Context(), secrets[i]); err != nil {
				t.Errorf("token of another process: %v", err)
			}
		})
	}
	wg.Wait()
	list, err := tokens.List()
	if err != nil || len(list) != len(secrets) {
		t.Fatalf("%d tokens of %d survived simultaneous writers: %v", len(list), len(secrets), err)
	}
}

func TestRevocationElsewhereIsSeen(t *testing.T) {
	tokens, path := openTokens(t)
	now := time.Now()
	tokens.now = func() time.Time { return now }
	_, secret := create(t, tokens, "a", "*")
	other, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Revoke("a"); err != nil {
		t.Fatal(err)
	}
	now = now.Add(recheck + 1)
	if _, err := tokens.Verify(t.Context(), secret); !errors.Is(err, ErrBadToken) {
		t.Fatalf("%v", err)
	}
}

func TestTokenExpires(t *testing.T) {
	tokens, _ := openTokens(t)
	now := time.Now()
	tokens.now = func() time.Time { return now }
	_, secret, err := tokens.Create("short", Scopes{"*"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Hour - time.Second)
	if _, err := tokens.Verify(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Second)
	if _, err := tokens.Verify(t.Context(), secret); !errors.Is(err, ErrBadToken) || !strings.Contains(err.Error(), "expired") {
		t.Fatalf("%v", err)
	}
}

func TestDamagedFileLetsNobodyInAndIsKept(t *testing.T) {
	tokens, path := openTokens(t)
	_, secret := create(t, tokens, "a", "*")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"empty":   "",
		"cut off": string(good[:len(good)/2]),
		"foreign": `{"version":1,"tokens":[],"extra":true}`,
		"newer":   `{"version":2,"tokens":[]}`,
		"no hash": `{"version":1,"tokens":[{"id":"t_1","name":"a","scopes":["*"],"created":"2026-01-01T00:00:00Z","sha256":""}]}`,
		"local":   strings.Replace(string(good), `"a"`, `"local"`, 1),
		"more":    string(good) + "{}",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		tokens.keeper.(*fileTokens).checked.Store(0)
		if _, err := tokens.Verify(t.Context(), secret); err == nil || errors.Is(err, ErrBadToken) {
			t.Errorf("%s: Verify: %v", name, err)
		}
		if _, err := OpenTokens(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: OpenTokens: %v", name, err)
		}
		if _, _, err := tokens.Create("b", Scopes{"*"}, 0); err == nil {
			t.Errorf("%s: Create wrote over it", name)
		}
		if b, _ := os.ReadFile(path); string(b) != content {
			t.Errorf("%s: changed to %q", name, b)
		}
	}
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Verify(t.Context(), secret); err != nil {
		t.Fatalf("after the repair: %v", err)
	}
}

func TestFileOfOthersIsRefused(t *testing.T) {
	tokens, path := openTokens(t)
	_, secret := create(t, tokens, "a", "*")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenTokens(path); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Fatal(err)
	}
	tokens.keeper.(*fileTokens).checked.Store(0)
	if _, err := tokens.Verify(t.Context(), secret); err == nil {
		t.Fatal("still trusted")
	}
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := tokens.Verify(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
}

func TestCreateRefuses(t *testing.T) {
	tokens, path := openTokens(t)
	for _, tt := range []struct {
		name   string
		scopes Scopes
		ttl    time.Duration
	}{
		{"", Scopes{"*"}, 0}, {"a b", Scopes{"*"}, 0}, {"local", Scopes{"*"}, 0}, {strings.Repeat("x", 65), Scopes{"*"}, 0},
		{"a", nil, 0}, {"a", Scopes{"["}, 0}, {"a", Scopes{""}, 0}, {"a", Scopes{"*"}, -1},
	} {
		if _, _, err := tokens.Create(tt.name, tt.scopes, tt.ttl); err == nil {
			t.Errorf("%+v was accepted", tt)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file was written")
	}
}

func TestScopes(t *testing.T) {
	for _, tt := range []struct {
		scopes Scopes
		name   string
		want   bool
	}{
		{nil, "a", false}, {Scopes{"*"}, "a", true}, {Scopes{"git*"}, "github", true}, {Scopes{"git*"}, "files", false},
		{Scopes{"a", "b"}, "b", true}, {Scopes{"a?"}, "ab", true}, {Scopes{"[a-c]x"}, "bx", true}, {Scopes{"["}, "x", false},
	} {
		if got := tt.scopes.Allows(tt.name); got != tt.want {
			t.Errorf("%v.Allows(%q) = %v", tt.scopes, tt.name, got)
		}
	}
}

func TestBearer(t *testing.T) {
	for _, tt := range []struct {
		values  []string
		token   string
		present bool
		ok      bool
	}{
		{nil, "", false, true},
		{[]string{"Bearer abc"}, "abc", true, true},
		{[]string{"bearer a-._~+/9=="}, "a-._~+/9==", true, true},
		{[]string{"Bearer"}, "", true, false},
		{[]string{"Bearer "}, "", true, false},
		{[]string{"Bearer  abc"}, "", true, false},
		{[]string{"Bearer abc "}, "", true, false},
		{[]string{"Bearer a=b"}, "", true, false},
		{[]string{"Bearer ="}, "", true, false},
		{[]string{"Basic abc"}, "", true, false},
		{[]string{""}, "", true, false},
		{[]string{"Bearer a", "Bearer b"}, "", true, false},
		{[]string{"Bearer " + strings.Repeat("a", maxToken+1)}, "", true, false},
	} {
		h := http.Header{}
		if tt.values != nil {
			h["Authorization"] = tt.values
		}
		token, present, err := Bearer(h)
		if token != tt.token || present != tt.present || (err == nil) != tt.ok {
			t.Errorf("%q: %q, %v, %v", tt.values, token, present, err)
		}
	}
}

func TestTokenJSONHasNoHash(t *testing.T) {
	tokens, _ := openTokens(t)
	tok, _ := create(t, tokens, "a", "*")
	b, err := json.Marshal(tok)
	if err != nil || strings.Contains(string(b), "sha256") || strings.Contains(string(b), "expires") {
		t.Fatalf("%s %v", b, err)
	}
}

func BenchmarkVerify(b *testing.B) {
	tokens, err := OpenTokens(filepath.Join(b.TempDir(), "tokens.json"))
	if err != nil {
		b.Fatal(err)
	}
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
