package mcp

import "github.com/stoahub/stoa/internal/wire"

// BeforeQueue is the progress of a request that waits for something other than
// its server: it has to grow, and places in a queue are counted below 0.
const BeforeQueue = -1e6

// Tell says something in words to the client whose request runs: as progress if
// it has asked for that, else in its log if it takes one. A client that takes
// neither cannot be told.
func (r *Request) Tell(done float64, text string) {
	switch {
	case r.Say != nil:
		r.Say(text)
		return
	case r.Stream == nil || r.Client == nil:
		return
	case r.Token != nil:
		r.Stream.Notify(NoteProgress, Progress(r.Token, done, -1, text))
	case r.logs(tellLevel):
		params := append([]byte(`{"level":"`+tellLevel+`","logger":"stoa","data":`), wire.Quote(text)...)
		r.Stream.Notify(noteMessage, append(params, '}'))
	default:
		return
	}
	r.Stream.Flush()
}

const tellLevel = "notice"

// logs reports whether the client takes what a server logs at a level. Where a
// client of the legacy era says nothing, the server decides.
func (r *Request) logs(level string) bool {
	want := r.LogLevel
	if r.Client.Era == Legacy {
		if want = r.Client.LogLevel(); want == "" {
			return true
		}
	}
	return want != "" && LogRank(level) >= LogRank(want)
}
