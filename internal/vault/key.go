package vault

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"unicode/utf8"
)

const (
	// MinSecret is how many characters a secret has at least.
	MinSecret = 32

	minDifferent = 8  // characters: fewer were not chosen at random
	version      = 1  // of the form of a record
	keyBytes     = 32 // AES-256
	overhead     = 1 + 12 + 16
)

// Key is a cluster key. It does not tell what it was made of.
type Key struct {
	root []byte
	aead cipher.AEAD
}

// ErrSealed means that a record was written under another key or another name,
// or was changed.
var ErrSealed = errors.New("it was encrypted under another key, or was changed")

// NewKey makes a key of a secret, which has to be one that nobody can guess: it
// is not stretched.
func NewKey(secret string) (*Key, error) {
	different := map[rune]bool{}
	for _, c := range secret {
		different[c] = true
	}
	if n := utf8.RuneCountInString(secret); n < MinSecret {
		return nil, fmt.Errorf("it has %d characters and needs %d at least: make one with `openssl rand -hex 32`", n, MinSecret)
	}
	if len(different) < minDifferent {
		return nil, fmt.Errorf("it can be guessed, having only %d different characters: make one with `openssl rand -hex 32`", len(different))
	}
	k := &Key{root: []byte(secret)}
	block, err := aes.NewCipher(k.Derive("records"))
	if err != nil {
		return nil, err
	}
	// Each record has a nonce of its own, chosen at random.
	k.aead, err = cipher.NewGCMWithRandomNonce(block)
	return k, err
}

// Derive returns 32 bytes for another purpose, which tell nothing of the key nor
// of those for other purposes.
func (k *Key) Derive(purpose string) []byte {
	out, err := hkdf.Key(sha256.New, k.root, nil, "stoa cluster key: "+purpose, keyBytes)
	if err != nil {
		panic(fmt.Sprintf("vault: derive a key: %v", err)) // only a length over 8,160 bytes fails
	}
	return out
}

// Seal encrypts the record of a name. No two are alike.
func (k *Key) Seal(name string, plain []byte) []byte {
	out := make([]byte, 1, overhead+len(plain))
	out[0] = version
	return k.aead.Seal(out, nil, plain, bound(name))
}

// Open returns what Seal was given, or ErrSealed.
func (k *Key) Open(name string, sealed []byte) ([]byte, error) {
	if len(sealed) < overhead {
		return nil, ErrSealed
	}
	if sealed[0] != version {
		return nil, fmt.Errorf("it has version %d and this program knows %d: use the program that wrote it", sealed[0], version)
	}
	plain, err := k.aead.Open(nil, nil, sealed[1:], bound(name))
	if err != nil {
		return nil, ErrSealed
	}
	return plain, nil
}

// bound is what a record is bound to.
func bound(name string) []byte { return append([]byte{version}, name...) }

// Random returns bytes for a key of another kind.
func Random() []byte {
	b := make([]byte, keyBytes)
	rand.Read(b)
	return b
}
