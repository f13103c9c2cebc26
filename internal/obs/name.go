package obs

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// Short is the beginning of the name of a session or a connection: it tells them
// apart, and is never all of it, since whoever has a name can use it.
func Short(name string) string {
	const most = 13 // "pipe-" and eight more
	if name == "" || strings.HasSuffix(name, cutOff) {
		return name // it is short already
	}
	return strings.ToValidUTF8(name[:min(most, len(name)/2)], "") + cutOff
}

const cutOff = "…"

// ShortPath is the path of a request with the names of sessions in it shortened.
func ShortPath(path string) string {
	parts := strings.Split(path, "/")
	for i := 1; i < len(parts); i++ {
		switch parts[i-1] {
		case "s", "sessions", "chat":
			parts[i] = Short(parts[i])
		}
	}
	return strings.Join(parts, "/")
}

// Correlation is what all lines have in common that come of one thing: the id of
// the trace that it is part of, or else a new one of the same form.
func Correlation(p Parent) string {
	if id := p.Trace(); id != "" {
		return id
	}
	var b [16]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
