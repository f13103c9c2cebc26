package chat

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"strings"
	"unicode/utf8"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/session"
	"github.com/stoahub/stoa/internal/wire"
)

// FileText is how much of a file a model is shown.
const FileText = 64 << 10

// Attach returns what a model is told of a file that comes with a message: a
// text with its name, and of other files what they are. If s is not nil, the
// whole of it becomes a value of that Session, once, and the text says by which
// name tools can be given it.
func (f *Files) Attach(ctx context.Context, who *auth.Principal, id string, s *session.Session) (string, error) {
	file, data, err := f.Read(ctx, who, id)
	if err != nil {
		return "", err
	}
	name := ""
	if s != nil {
		// A Session that has no room does without; the model sees the file all the same.
		if name, err = keepFile(ctx, s, file, data); err != nil && !fault.Is(err, fault.Limit) {
			return "", fmt.Errorf("keep file %s in session %s: %w", file.Name, s.Name(), err)
		}
	}
	return describeFile(file, data, name), nil
}

// describeFile is what a model is told. value is the name of the value that the
// file is in its Session; empty for none.
func describeFile(file File, data []byte, value string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "File %q (%s, %d bytes)", file.Name, file.Type, file.Size)
	if value != "" {
		fmt.Fprintf(&b, ", which tools can be given as @%s", value)
	}
	if !isText(data) {
		b.WriteString(". It is not text, so its content is not shown here.")
		return b.String()
	}
	shown := cut(string(data), FileText)
	if len(shown) < len(data) {
		fmt.Fprintf(&b, ". Its first %d bytes are", len(shown))
	}
	b.WriteString(":\n\n")
	b.WriteString(shown)
	return b.String()
}

// isText reports whether a content can be shown as it is.
func isText(data []byte) bool {
	if !utf8.Valid(data) {
		return false
	}
	for _, c := range data {
		if c < ' ' && c != '\n' && c != '\r' && c != '\t' && c != '\f' && c != 0x1b {
			return false
		}
	}
	return true
}

// keepFile makes a file a value of a Session and returns its name. A file that
// is one already stays that.
func keepFile(ctx context.Context, s *session.Session, file File, data []byte) (string, error) {
	by := "file " + file.ID
	values, err := s.Values("")
	if err != nil {
		return "", err
	}
	name, taken := valueName(file.Name), false
	for _, v := range values {
		if v.By == by {
			return v.Name, nil
		}
		taken = taken || v.Name == name
	}
	raw, err := fileValue(file, data)
	if err != nil {
		return "", err
	}
	v, _, err := s.Put(ctx, session.New{Name: name, Number: taken, Data: raw, Description: "The file " + file.Name, By: by, Author: actor.OwnRecord(s.Principal())})
	return v.Name, err
}

// fileValue is a file as JSON: what JSON it is, its text, or its bytes with
// what is known of them.
func fileValue(file File, data []byte) ([]byte, error) {
	t, _, _ := mime.ParseMediaType(file.Type) // it was checked when the file came
	if wire.Valid(data, wire.FromUpstream) == nil && (t == "application/json" || strings.HasSuffix(t, "+json") || strings.HasSuffix(file.Name, ".json")) {
		return data, nil
	}
	if isText(data) {
		return json.Marshal(string(data))
	}
	return json.Marshal(map[string]any{"name": file.Name, "type": file.Type, "size": file.Size, "base64": base64.StdEncoding.EncodeToString(data)})
}

// valueName makes the name of a value of the name of a file.
func valueName(name string) string {
	out := strings.Map(func(r rune) rune {
		if r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	if c := out[0]; c == '-' || c >= '0' && c <= '9' {
		out = "_" + out
	}
	return out[:min(len(out), 48)]
}
