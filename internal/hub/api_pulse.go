package hub

import (
	"net/http"
	"time"

	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/event"
)

// pulsePage is how calls did in the last minutes, a number for each step.
type pulsePage struct {
	StepMs  int64     `json:"stepMs"`
	End     time.Time `json:"end"` // of the last step
	Calls   []uint32  `json:"calls"`
	Failed  []uint32  `json:"failed"`
	P50     []int64   `json:"p50_us"` // half of the calls took no longer; 0 where there were none
	P95     []int64   `json:"p95_us"`
	P99     []int64   `json:"p99_us"`
	Errors  int       `json:"errors"`            // that were met in the minute that runs
	Refused int       `json:"refused,omitempty"` // things that are wrong with the config files, which are not in effect
	// Health is what is wrong with the hub itself, such as a disk that is full.
	Health []healthItem `json:"health,omitempty"`
}

// showPulse tells how many calls were made and how long they took. It is what
// a page can plot without having heard of each call.
func (h *Hub) showPulse(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if err := owner(who, "pulse"); err != nil {
		return err
	}
	if _, err := query(r); err != nil {
		return err
	}
	p := h.events.Pulse(time.Now())
	page := pulsePage{StepMs: event.PulseStep.Milliseconds(), End: p.End.UTC(), Calls: p.Calls[:], Failed: p.Failed[:], P50: p.P50[:], P95: p.P95[:], P99: p.P99[:], Health: h.health()}
	groups, _ := h.book.Groups()
	for _, g := range groups {
		if n := len(g.PerMinute); n > 0 {
			page.Errors += int(g.PerMinute[n-1])
		}
	}
	if refused := h.refused.Load(); refused != nil {
		page.Refused = len(*refused)
	}
	reply(w, http.StatusOK, page)
	return nil
}
