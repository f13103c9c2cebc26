package vault

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/stoahub/stoa/internal/journal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secretText = "correct horse battery staple, and more"

func newKey(t *testing.T, secret string) *Key {
	t.Helper()
	k, err := NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// A record is read by who has the key, under its own name, and unchanged.
func TestRecords(t *testing.T) {
	k, plain := newKey(t, secretText), []byte("open sesame")
	sealed := k.Seal("tokens.alice", plain)
	if got, err := newKey(t, secretText).Open("tokens.alice", sealed); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("%q, %v", got, err)
	}
	if bytes.Contains(sealed, plain) || bytes.Equal(sealed, k.Seal("tokens.alice", plain)) {
		t.Errorf("it is not encrypted, or twice alike: %q", sealed)
	}
	for i := range sealed {
		bent := bytes.Clone(sealed)
		bent[i] ^= 1
		if got, err := k.Open("tokens.alice", bent); err == nil {
			t.Fatalf("with byte %d changed: %q", i, got)
		}
	}
	for what, f := range map[string]func() ([]byte, error){
		"another name": func() ([]byte, error) { return k.Open("tokens.bob", sealed) },
		"another key":  func() ([]byte, error) { return newKey(t, secretText+".").Open("tokens.alice", sealed) },
		"cut":          func() ([]byte, error) { return k.Open("tokens.alice", sealed[:overhead-1]) },
		"nothing":      func() ([]byte, error) { return k.Open("tokens.alice", nil) },
		"not sealed":   func() ([]byte, error) { return k.Open("tokens.alice", append([]byte{version}, secretText...)) },
	} {
		if got, err := f(); !errors.Is(err, ErrSealed) {
			t.Errorf("%s: %q, %v", what, got, err)
		}
	}
	sealed[0]++
	if _, err := k.Open("tokens.alice", sealed); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("of a later version: %v", err)
	}
}

func TestSecretsThatCanBeGuessed(t *testing.T) {
	for _, secret := range []string{"", strings.Repeat("ab1!", 7) + "abc", strings.Repeat("a", 100), strings.Repeat("abc", 20)} {
		if _, err := NewKey(secret); err == nil || !strings.Contains(err.Error(), "openssl rand") || secret != "" && strings.Contains(err.Error(), secret) {
			t.Errorf("%d characters: %v", len(secret), err)
		}
	}
	newKey(t, "0123456789abcdef0123456789abcdef")
}

func TestDerivedKeys(t *testing.T) {
	k := newKey(t, secretText)
	one := k.Derive("a")
	if len(one) != keyBytes || bytes.Equal(one, k.Derive("b")) || bytes.Equal(one, newKey(t, secretText+"x").Derive("a")) || !bytes.Equal(one, newKey(t, secretText).Derive("a")) {
		t.Errorf("%x", one)
	}
}

// What is kept in a log is read by who has the key. What others put there, or
// moved to another name, is told as unreadable, whatever it looks like.
func TestLogIsEncrypted(t *testing.T) {
	inner := journal.NewMemory()
	open := func(k *Key) *journal.Values[string] {
		v, err := journal.OpenValues(t.Context(), k.Log(inner), journal.ValuesOptions[string]{Subjects: "b.>",
			Decode: func(data []byte) (s string, err error) { return s, json.Unmarshal(data, &s) }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(v.Close)
		return v
	}
	k := newKey(t, secretText)
	v := open(k)
	for _, key := range []string{"kept", "gone"} {
		if _, err := v.Put(t.Context(), key, []byte(`"sesame of `+key+`"`)); err != nil {
			t.Fatal(err)
		}
	}
	if err := v.Remove(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	last, err := inner.Last(t.Context(), "b.kept")
	if err != nil || bytes.Contains(last.Data, []byte("sesame")) {
		t.Errorf("%q, %v", last.Data, err)
	}
	for key, data := range map[string][]byte{"b.plain": []byte(`"forged"`), "b.moved": last.Data} {
		if _, err := inner.Append(t.Context(), key, data, 0); err != nil {
			t.Fatal(err)
		}
	}
	again := open(newKey(t, secretText))
	if got, err := again.Get("kept"); err != nil || got.V != "sesame of kept" {
		t.Errorf("%v, %v", got, err)
	}
	if data, _, err := again.Read(t.Context(), "kept"); err != nil || string(data) != `"sesame of kept"` {
		t.Errorf("%s, %v", data, err)
	}
	for _, key := range []string{"gone", "plain", "moved"} {
		if got, err := again.Get(key); err == nil {
			t.Errorf("%s: %v", key, got)
		}
	}
	if got, err := again.Latest(t.Context(), "plain"); err == nil {
		t.Errorf("%v", got)
	}
	if got, err := open(newKey(t, secretText+"x")).Get("kept"); err == nil {
		t.Errorf("by another key: %v", got)
	}
}
