package policy

import (
	"fmt"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/secret"
	"github.com/stoahub/stoa/internal/suspect"
)

// announcedArgs is how much of the arguments an announcement shows, in bytes.
const announcedArgs = 300

// Announce says to a client that knows nothing of approvals what waits, how it
// is decided and until when. Of the arguments it shows the beginning, without
// secrets: whoever decides is shown all of them.
func (d *Desk) Announce(a *Approval) string {
	what := a.subject()
	if len(a.Args) > 0 && string(a.Args) != "{}" {
		what += " with " + excerpt(a.Args)
	}
	if a.Reason != "" {
		what += " (" + a.Reason + ")"
	}
	where := ""
	if d.opts.Console != nil {
		where = d.opts.Console()
	}
	if where != "" {
		where = "in the console at " + where + " or "
	}
	return fmt.Sprintf("Waiting for approval: %s. Decide %swith `stoa approvals approve %s` or `stoa approvals deny %s`. Without an answer by %s it is denied.",
		what, where, a.ID, a.ID, a.Expires.UTC().Format(time.RFC3339))
}

// Report says to such a client what became of it.
func (a *Approval) Report(dec *Decision) string {
	switch {
	case dec.Approve && dec.By != "":
		return fmt.Sprintf("%s was approved by %s.", a.subject(), dec.By)
	case dec.Approve:
		return a.subject() + " was approved."
	}
	return fmt.Sprintf("%s was not approved: %s.", a.subject(), strings.TrimSuffix(dec.Tell(), "."))
}

func (a *Approval) subject() string {
	if a.Kind == KindSampling {
		return "a request of the server " + a.Upstream + " to a language model"
	}
	return a.Tool
}

// excerpt is the beginning of arguments as a person may read it.
func excerpt(args []byte) string {
	text := suspect.Visible(string(secret.MaskJSON(args)))
	if len(text) > announcedArgs {
		text = strings.ToValidUTF8(text[:announcedArgs], "") + "…"
	}
	return text
}
