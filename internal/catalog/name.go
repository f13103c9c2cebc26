package catalog

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	"github.com/stoahub/stoa/internal/wire"
)

const (
	separator = "__"
	maxName   = 48 // hosts add a prefix of their own within 64
	hashLen   = 6
)

// Expose returns the name under which a tool or prompt of an upstream is
// offered: portable over the rules of all hosts and model APIs.
func Expose(upstream, name string) string {
	full := upstream + separator + name
	safe := strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' {
			return r
		}
		return '_'
	}, full)
	if safe == full && len(full) <= maxName {
		return full
	}
	return hashed(upstream, name, safe)
}

// hashed is a safe name with a hash of what it stands for, cut to length.
func hashed(upstream, name, safe string) string {
	sum := sha256.Sum256([]byte(upstream + ":" + name))
	hash := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:hashLen])
	if limit := maxName - hashLen - 1; len(safe) > limit {
		safe = safe[:limit]
	}
	return safe + "_" + hash
}

// Bare makes a built-in tool or prompt be offered under its own name.
func (i *Item) Bare() {
	if i.Exposed == i.Name {
		return
	}
	i.Exposed = i.Name
	i.show(wire.Edit(nil, i.Shown, wire.Change{Name: "name", Value: wire.Quote(i.Name)}))
}
