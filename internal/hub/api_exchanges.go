package hub

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/exchange"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/secret"
)

// signed are texts that the hub has signed, and its tokens: who has one can use
// it.
var signed = regexp.MustCompile(`stoa(?:[a-z]?1\.[A-Za-z0-9_.-]{8,}|_[A-Za-z0-9]{16,})`)

// hidden is a text of an exchange as the hub's owner may see it.
func (h *Hub) hidden(text string) string {
	text = h.logs.Known(text) // what passed is shown as it was
	if h.data != nil && h.data.token != "" {
		text = strings.ReplaceAll(text, h.data.token, secret.Dots)
	}
	return signed.ReplaceAllString(text, "stoa"+secret.Dots)
}

// showExchange answers with what passed between the hub and an upstream for one
// call. It tells what others asked for, so that only the hub's owner may see it.
func (h *Hub) showExchange(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if err := owner(who, "exchanges"); err != nil {
		return err
	}
	call := r.PathValue("call")
	x, found := h.exchanges.Find(call)
	if found == exchange.Kept {
		reply(w, http.StatusOK, map[string]exchange.Exchange{"exchange": x})
		return nil
	}
	f := &fault.Error{Kind: fault.ResourceNotFound, Subject: call}
	reason := "unwatched"
	switch {
	case !h.exchanges.On():
		reason, f.Msg, f.Hint = "off", "what passes is not kept: console.exchanges is false", "Set it to true and make the call again."
	case found == exchange.Gone:
		reason, f.Msg, f.Hint = "gone", "its exchange is not kept any more", "Only the last ones are, 8 MiB of them. Make the call again, or export sooner."
	default:
		f.Msg, f.Hint = "its exchange was not kept: nobody watched when the call was made, or there was no such call", "Exchanges are kept while somebody watches, and 30 s after. Make the call again."
	}
	return f.With("reason", reason)
}

// exportExchanges answers with all exchanges that are kept, oldest first, one
// JSON object a line.
func (h *Hub) exportExchanges(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if err := owner(who, "exchanges"); err != nil {
		return err
	}
	if _, err := query(r); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	lines := json.NewEncoder(w)
	for _, call := range h.exchanges.Calls() {
		x, found := h.exchanges.Find(call)
		if found != exchange.Kept {
			continue // it went meanwhile
		}
		if err := lines.Encode(x); err != nil {
			return nil // a client that has gone misses nothing
		}
	}
	return nil
}
