package catalog

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/stoahub/stoa/internal/wire"
)

// defining are the members of a definition that say what it is.
var defining = []string{"name", "uri", "uriTemplate", "title", "description", "mimeType", "arguments", "inputSchema", "outputSchema", "annotations"}

// Digest is a hash of what the definition says: of what a model or a person
// goes by, whatever the order of its members and the way they are written.
func (i *Item) Digest() string {
	h := sha256.New()
	for _, name := range defining {
		raw := wire.Get(i.Raw, name)
		if raw == nil {
			continue
		}
		h.Write([]byte(name))
		h.Write([]byte{0})
		h.Write(canonical(raw))
		h.Write([]byte{0})
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// canonical writes JSON in one way only: members sorted, numbers as they came.
func canonical(raw []byte) []byte {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return raw
	}
	out, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return out
}
