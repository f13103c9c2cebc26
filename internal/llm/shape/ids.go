package shape

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/stoahub/stoa/internal/llm"
)

// IDs returns the messages with the ids of calls made to fit and used once in
// all of the history, which providers demand of ids that others gave. Results
// follow their calls, in order where one answer used an id twice. The given
// messages are not changed.
func IDs(messages []llm.Message, fit func(string) string) []llm.Message {
	used := map[string]bool{}
	var turn map[string][]string // by the id of a call, what it was given
	out := make([]llm.Message, len(messages))
	for i, m := range messages {
		if m.Role == llm.Assistant {
			turn = map[string][]string{}
		}
		parts := make([]llm.Part, len(m.Parts))
		for j, p := range m.Parts {
			switch {
			case p.Call != nil:
				given := p.Call.ID
				if given == "" {
					given = "call"
				}
				id := fit(given)
				for n := 2; used[id]; n++ {
					id = fit(fmt.Sprintf("%s_%d", given, n))
				}
				used[id] = true
				if turn != nil {
					turn[p.Call.ID] = append(turn[p.Call.ID], id)
				}
				call := *p.Call
				call.ID = id
				p.Call = &call
			case p.Result != nil:
				r := *p.Result
				if ids := turn[r.ID]; len(ids) > 0 {
					turn[r.ID], r.ID = ids[1:], ids[0]
				} else {
					r.ID = fit(r.ID)
				}
				p.Result = &r
			}
			parts[j] = p
		}
		out[i] = llm.Message{Role: m.Role, Parts: parts}
	}
	return out
}

// Short returns s if it has at most max bytes, and otherwise what stands for it
// alone.
func Short(s string, max int) string {
	if len(s) <= max {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])[:min(max, 32)]
}
