package hub_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest"
	"github.com/stoahub/stoa/internal/hubtest/await"
)

// Who is connected can be listed: by the owner everybody, by others themselves,
// and by session.
func TestConnectionsAreListed(t *testing.T) {
	hubtest.Parallel(t)
	h := hubtest.New(t)
	owner, ann := apiClient{t, h, h.Token}, tokenFor(t, h, "ann", "*")
	listed := func(c apiClient, query string) (kinds []string) {
		list := hubtest.Decode[struct {
			Total       int
			Connections []struct {
				ID, Kind, Principal, Session, Agent string
				ConnectedAt, LastActiveAt           time.Time
			}
		}](c.ok("GET", "/api/v1/connections"+query, ""))
		for _, i := range list.Connections {
			if i.ConnectedAt.IsZero() || i.LastActiveAt.Before(i.ConnectedAt.Add(-time.Minute)) {
				t.Errorf("times: %+v", i)
			}
			kinds = append(kinds, strings.TrimSpace(i.Kind+" "+i.Principal+" "+i.Session+i.Agent))
		}
		slices.Sort(kinds)
		return kinds
	}
	openSocket(t, h, "/ws?sessionId=talk", h.Token)
	conn, _ := openSocket(t, h, "/ws?sessionId=hers", ann.token)
	openSocket(t, h, "/ws/crud", "")
	h.Client(t, hubtest.ClientOptions{Era: hubtest.Legacy, Face: "/s/work/mcp"})
	await.Until(t, "all are listed", func() bool {
		return slices.Equal(listed(owner, ""), []string{"agent local crud", "chat ann hers", "chat local talk", "mcp local work"})
	})
	if got := listed(ann, ""); !slices.Equal(got, []string{"chat ann hers"}) {
		t.Errorf("ann sees %v", got)
	}
	if got := listed(owner, "?session=talk"); !slices.Equal(got, []string{"chat local talk"}) {
		t.Errorf("of one session: %v", got)
	}
	conn.CloseNow()
	await.Until(t, "who has gone is not listed", func() bool { return len(listed(owner, "?principal=ann")) == 0 })
}
