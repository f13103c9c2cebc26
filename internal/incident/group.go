package incident

import (
	"cmp"
	"slices"
	"time"
)

// Key is what Errors of one Group have in common.
type Key struct {
	Code     string `json:"code"`
	Upstream string `json:"upstream,omitempty"`
	Tool     string `json:"tool,omitempty"`
}

// Minutes is how far back a Group counts by the minute.
const Minutes = 60

// Group counts the Errors of a Key.
type Group struct {
	Key
	ErrorType string    `json:"errorType"`
	Severity  string    `json:"severity"`
	Message   string    `json:"message"` // of the last that was kept whole
	LastID    string    `json:"lastId"`
	Count     int64     `json:"count"`
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
	PerMinute []int32   `json:"perMinute,omitempty"` // of the last hour, oldest first
	minutes   [Minutes]int32
	minute    int64 // which minutes[minute%Minutes] counts
	second    int64 // of which whole are counted
	whole     int
	dirty     bool // not written as it is
}

// wholePerSecond is how many Errors of a Group are kept whole in a second.
const wholePerSecond = 5

// count counts one, and reports whether it is to be kept whole.
func (g *Group) count(now time.Time) bool {
	g.Count++
	if g.First.IsZero() {
		g.First = now
	}
	g.Last, g.dirty = now, true
	g.turn(now)
	g.minutes[g.minute%Minutes]++
	if s := now.Unix(); s != g.second {
		g.second, g.whole = s, 0
	}
	g.whole++
	return g.whole <= wholePerSecond
}

// become makes g what is known of the same counts later. The more that was
// counted was met at the last time that x tells of.
func (g *Group) become(x *Group, now time.Time) {
	more, known := x.Count-g.Count, g.Count > 0 || now.Sub(x.First) < Minutes*time.Minute
	key, minutes, minute := g.Key, g.minutes, g.minute
	*g = *x
	g.Key, g.minutes, g.minute = key, minutes, minute
	g.turn(now)
	if at := min(x.Last.Unix()/60, g.minute); known && more > 0 && g.minute-at < Minutes {
		g.minutes[at%Minutes] += int32(min(more, 1<<30))
	}
}

// add takes in what y has counted of the same Key.
func (g *Group) add(y *Group, now time.Time) {
	g.turn(now)
	y.turn(now)
	for i, n := range y.minutes {
		g.minutes[i] += n
	}
	g.Count += y.Count
	g.dirty = g.dirty || y.dirty
	if !y.First.IsZero() && (g.First.IsZero() || y.First.Before(g.First)) {
		g.First = y.First
	}
	if y.LastID != "" && (g.LastID == "" || y.Last.After(g.Last)) {
		g.ErrorType, g.Severity, g.Message, g.LastID = y.ErrorType, y.Severity, y.Message, y.LastID
	}
	if y.Last.After(g.Last) {
		g.Last, g.second, g.whole = y.Last, y.second, y.whole
	}
}

// turn forgets minutes that are too long ago.
func (g *Group) turn(now time.Time) {
	m := now.Unix() / 60
	if m-g.minute >= Minutes {
		g.minutes, g.minute = [Minutes]int32{}, m
		return
	}
	for g.minute < m {
		g.minute++
		g.minutes[g.minute%Minutes] = 0
	}
}

// shown is a copy for others.
func (g *Group) shown(now time.Time) Group {
	g.turn(now)
	out := *g
	out.PerMinute = make([]int32, Minutes)
	for i := range out.PerMinute {
		out.PerMinute[i] = g.minutes[(g.minute+1+int64(i))%Minutes]
	}
	return out
}

// newest sorts groups, the one that was met last first.
func newest(groups []Group) {
	slices.SortFunc(groups, func(a, b Group) int {
		return cmp.Or(b.Last.Compare(a.Last), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Tool, b.Tool))
	})
}
