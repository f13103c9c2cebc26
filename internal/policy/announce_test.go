package policy

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestAnnounce(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	d := &Desk{opts: DeskOptions{Console: func() string { return "http://127.0.0.1:8080/console/" }}}
	a := &Approval{ID: "a_1", Tool: "fs__write", Kind: KindTool, Args: json.RawMessage(`{"path": "a", "password": "sesame"}`), Reason: "it may destroy something", Expires: at}
	want := "Waiting for approval: fs__write with {\"password\":\"•••\",\"path\":\"a\"} (it may destroy something). Decide in the console at http://127.0.0.1:8080/console/ or with " +
		"`stoa approvals approve a_1` or `stoa approvals deny a_1`. Without an answer by 2026-01-02T03:04:05Z it is denied."
	if got := d.Announce(a); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	a.Args = json.RawMessage(`{"text":"` + strings.Repeat("é", 10_000) + `"}`)
	if got := d.Announce(a); len(got) > 1000 || !strings.Contains(got, "…") {
		t.Errorf("%d bytes: %s", len(got), got)
	}
	for want, dec := range map[string]Decision{
		"fs__write was approved by ann.":                                                       {Approve: true, By: "ann"},
		"fs__write was not approved: ann does not want it: no.":                                {By: "ann", Reason: "no"},
		"fs__write was not approved: nobody answered in time whether it may be called.":        {Reason: ReasonExpired},
		"fs__write was not approved: the call ended before anybody answered.":                  {Reason: ReasonAborted},
		"fs__write was not approved: ann has said that calls of this kind are not to be made.": {By: "ann", Reason: ReasonRemembered},
		"fs__write was approved.":                                                              {Approve: true},
	} {
		if got := a.Report(&dec); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
