package mcp

import (
	"fmt"
	"strconv"

	"github.com/stoahub/stoa/internal/wire"
)

// Progress returns the params of a progress notification; a total below zero
// is not known, and an empty message is left out.
func Progress(token []byte, done, total float64, message string) []byte {
	out := append([]byte(`{"progressToken":`), token...)
	out = strconv.AppendFloat(append(out, `,"progress":`...), done, 'f', -1, 64)
	if total >= 0 {
		out = strconv.AppendFloat(append(out, `,"total":`...), total, 'f', -1, 64)
	}
	if message != "" {
		out = wire.AppendString(append(out, `,"message":`...), message)
	}
	return append(out, '}')
}

// Waiting is the progress of a call that waits for its turn with the server or
// agent called name. It has to grow, and what comes of the work itself later
// begins at 0.
func Waiting(token []byte, name string, place int) []byte {
	return Progress(token, float64(-place), -1, fmt.Sprintf("waiting for %s: place %d in its queue", name, place))
}
