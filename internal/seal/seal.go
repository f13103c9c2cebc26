// Package seal signs what a client keeps for the hub and brings back, so that
// it can be believed. It hides nothing: whoever holds it can read it.
package seal

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
)

// Key signs. Those that must understand each other have the same.
type Key []byte

// Random returns a key that nobody else has.
func Random() Key {
	k := make(Key, 32)
	rand.Read(k)
	return k
}

// ErrBroken means that a text was not sealed with this key and prefix, or was
// changed.
var ErrBroken = errors.New("it was not made by this hub, or was changed")

// Sign returns v as a text that begins with prefix. Texts of one prefix are
// not taken for those of another.
func (k Key) Sign(prefix string, v any) (string, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return "", err
	}
	text := prefix + base64.RawURLEncoding.EncodeToString(body)
	return text + "." + base64.RawURLEncoding.EncodeToString(k.sum(text)), nil
}

// Open reads what Sign made into v.
func (k Key) Open(prefix, sealed string, v any) error {
	i := strings.LastIndexByte(sealed, '.')
	if i < 0 || !strings.HasPrefix(sealed[:i], prefix) {
		return ErrBroken
	}
	got, err := base64.RawURLEncoding.DecodeString(sealed[i+1:])
	if err != nil || !hmac.Equal(got, k.sum(sealed[:i])) {
		return ErrBroken
	}
	body, err := base64.RawURLEncoding.DecodeString(sealed[len(prefix):i])
	if err != nil || json.Unmarshal(body, v) != nil {
		return ErrBroken
	}
	return nil
}

func (k Key) sum(text string) []byte {
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
