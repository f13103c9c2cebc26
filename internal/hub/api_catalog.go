package hub

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/stoahub/stoa/internal/actor"
	"github.com/stoahub/stoa/internal/auth"
	"github.com/stoahub/stoa/internal/catalog"
	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/guard"
	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/pin"
	"github.com/stoahub/stoa/internal/plan/published"
	"github.com/stoahub/stoa/internal/policy"
	"github.com/stoahub/stoa/internal/schema"
	"github.com/stoahub/stoa/internal/suspect"
	"github.com/stoahub/stoa/internal/wire"
)

// The bounds of a page of tools.
const (
	toolsPage    = 50
	maxToolsPage = 500
	shownText    = 280 // characters of a description in a list
)

// toolRow is a tool in a list.
type toolRow struct {
	Name        string         `json:"name"` // as on /mcp
	Upstream    string         `json:"upstream"`
	Tool        string         `json:"tool"` // as its server calls it
	Title       string         `json:"title,omitempty"`
	Description string         `json:"description,omitempty"`
	Builtin     bool           `json:"builtin,omitempty"`
	Stale       bool           `json:"stale,omitempty"`   // its server is not connected; this is what it said last
	Breaker     guard.State    `json:"breaker,omitempty"` // open or half-open, where calls are kept from it
	Calls       int64          `json:"calls"`
	Failed      int64          `json:"failed"`
	MeanUS      int64          `json:"mean_us"`         // a moving average
	Cache       *toolCache     `json:"cache,omitempty"` // left out if the config does not cache its results
	Risk        string         `json:"risk"`
	Trusted     bool           `json:"trusted"` // what it says of its risk counts
	Policy      policy.Verdict `json:"policy"`
	Pin         *toolPin       `json:"pin,omitempty"` // left out if its server's definitions are not pinned
}

// toolCache is what is made of a tool's results.
type toolCache struct {
	TTLMs int64  `json:"ttlMs"`
	Hits  int64  `json:"hits"`          // calls that were answered by the result of one before
	Off   string `json:"off,omitempty"` // why results are not reused all the same
}

// toolPin is what is made of a tool's definition.
type toolPin struct {
	State  catalog.State  `json:"state"`
	Digest string         `json:"digest"`
	Open   bool           `json:"open,omitempty"`  // somebody should look at it
	Hold   string         `json:"hold,omitempty"`  // why it cannot be called
	Flags  []suspect.Flag `json:"flags,omitempty"` // what is suspicious about it
	Diff   string         `json:"diff,omitempty"`  // how it differs from what was accepted before; of one tool, for the owner
}

func toolPinOf(st *catalog.Standing) *toolPin {
	if st == nil {
		return nil
	}
	return &toolPin{State: st.State, Digest: st.Digest, Open: st.Open(), Hold: st.Hold, Flags: st.Flags}
}

// risk says in a word what a tool's annotations say that it may do.
func risk(s *policy.Subject) string {
	switch {
	case s.ReadOnly != nil && *s.ReadOnly:
		return "read-only"
	case s.Destructive != nil && *s.Destructive:
		return "destructive"
	case s.Destructive != nil:
		return "additive"
	}
	return "unsaid"
}

// toolRow tells of a tool, with its description cut to n characters.
func (h *Hub) toolRow(c *mcp.Client, it *catalog.Item, snap *catalog.Snapshot, n int) toolRow {
	u := h.pool.Get(it.Upstream)
	builtin := u != nil && u.Builtin() && !strings.HasPrefix(it.Name, published.Prefix)
	s := policy.Of(it, builtin)
	row := toolRow{Name: it.Exposed, Upstream: it.Upstream, Tool: it.Name, Builtin: builtin, Risk: risk(&s), Trusted: it.Trusted, Policy: h.door.ByRules(context.Background(), c, it)}
	row.Pin = toolPinOf(it.Standing)
	row.Title, _ = wire.String(wire.Get(it.Shown, "title"))
	row.Description, _ = wire.String(wire.Get(it.Shown, "description"))
	if chars := []rune(row.Description); n > 0 && len(chars) > n {
		row.Description = string(chars[:n]) + "…"
	}
	if u != nil {
		if state := u.ToolBreaker(it.Name); state != guard.Closed {
			row.Breaker = state
		}
	}
	if l := snap.Of(it.Upstream); l != nil {
		row.Stale = l.Stale
	}
	f := it.Stat.Figures()
	if it.CacheFor > 0 {
		row.Cache = &toolCache{TTLMs: it.CacheFor.Milliseconds(), Hits: f.Reused, Off: it.Uncached()}
	}
	row.Calls, row.Failed, row.MeanUS = f.OK+f.Failed, f.Failed, f.Mean.Microseconds()
	return row
}

// apiClient is who asks by the API. It is of the modern era, since that is the
// one in which lists are read, and without a version, so that the _meta that the
// era demands is written for it.
func apiClient(who *auth.Principal) *mcp.Client {
	return &mcp.Client{Era: mcp.Modern, Actor: actor.New(actor.API, who), Capabilities: []byte("{}")}
}

// toolQuery is which tools are asked for.
type toolQuery struct {
	offset, limit  int
	words          [][]byte // each is in the name or the description; in small letters
	upstream, risk string
	sort           string
}

func toolQueryOf(r *http.Request) (tq toolQuery, err error) {
	q, err := query(r, "offset", "limit", "filter", "upstream", "risk", "sort")
	if err != nil {
		return tq, err
	}
	tq = toolQuery{limit: toolsPage, upstream: q.Get("upstream"), risk: q.Get("risk"), sort: cmp.Or(q.Get("sort"), "name")}
	if text := q.Get("offset"); text != "" {
		if tq.offset, err = strconv.Atoi(text); err != nil || tq.offset < 0 {
			return tq, fault.New(fault.InvalidParams, "offset", "%q is no number from 0", text)
		}
	}
	if text := q.Get("limit"); text != "" {
		if tq.limit, err = strconv.Atoi(text); err != nil || tq.limit < 1 || tq.limit > maxToolsPage {
			return tq, fault.New(fault.InvalidParams, "limit", "%q is no number from 1 to %d", text, maxToolsPage)
		}
	}
	if _, ok := toolOrders[tq.sort]; !ok {
		return tq, fault.New(fault.InvalidParams, "sort", "%q is none of name, calls, failed and latency", tq.sort)
	}
	if risks := []string{"", "read-only", "additive", "destructive", "unsaid"}; !slices.Contains(risks, tq.risk) {
		return tq, fault.New(fault.InvalidParams, "risk", "%q is none of %s", tq.risk, strings.Join(risks[1:], ", "))
	}
	tq.words = bytes.Fields(bytes.ToLower([]byte(q.Get("filter"))))
	return tq, nil
}

// toolOrders are by what a list can be sorted: the most first, then by name.
var toolOrders = map[string]func(*catalog.Item) int64{
	"name":    func(*catalog.Item) int64 { return 0 },
	"calls":   func(it *catalog.Item) int64 { ok, failed := it.Stat.Counts(); return ok + failed },
	"failed":  func(it *catalog.Item) int64 { _, failed := it.Stat.Counts(); return failed },
	"latency": func(it *catalog.Item) int64 { return int64(it.Stat.Figures().Mean) },
}

// matches reports whether the tool is one of those that are asked for.
func (q *toolQuery) matches(it *catalog.Item) bool {
	if q.upstream != "" && it.Upstream != q.upstream {
		return false
	}
	if q.risk != "" {
		if s := policy.Of(it, false); risk(&s) != q.risk {
			return false
		}
	}
	if len(q.words) == 0 {
		return true
	}
	name := []byte(strings.ToLower(it.Exposed + " " + it.Name))
	var text []byte
	for _, w := range q.words {
		if bytes.Contains(name, w) {
			continue
		}
		if text == nil {
			said, _ := wire.String(wire.Get(it.Shown, "description"))
			title, _ := wire.String(wire.Get(it.Shown, "title"))
			text = []byte(strings.ToLower(title + " " + said))
		}
		if !bytes.Contains(text, w) {
			return false
		}
	}
	return true
}

// toolPage is a part of the list of tools.
type toolPage struct {
	Tools     []toolRow      `json:"tools"`
	Offset    int            `json:"offset"`
	Total     int            `json:"total"`     // those that match
	All       int            `json:"all"`       // those that there are
	Upstreams map[string]int `json:"upstreams"` // how many each server has
}

// listTools answers with a part of the tools of all servers.
func (h *Hub) listTools(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	q, err := toolQueryOf(r)
	if err != nil {
		return err
	}
	snap := h.cat.Now()
	page := toolPage{Tools: []toolRow{}, Offset: q.offset, Upstreams: map[string]int{}}
	type keyed struct {
		it  *catalog.Item
		key int64 // read once: calls go on meanwhile
	}
	var found []keyed
	key := toolOrders[q.sort]
	client := apiClient(who)
	view := h.door.View(client, "")
	for _, it := range snap.Items(catalog.Tool) {
		if !view.Item(it) {
			continue
		}
		page.All++
		page.Upstreams[it.Upstream]++
		if q.matches(it) {
			found = append(found, keyed{it, key(it)})
		}
	}
	if q.sort != "name" { // which they come in
		slices.SortStableFunc(found, func(a, b keyed) int { return cmp.Compare(b.key, a.key) })
	}
	page.Total = len(found)
	for _, k := range found[min(q.offset, len(found)):min(q.offset+q.limit, len(found))] {
		page.Tools = append(page.Tools, h.toolRow(client, k.it, snap, shownText))
	}
	reply(w, http.StatusOK, page)
	return nil
}

// showTool answers with all that is known of a tool.
func (h *Hub) showTool(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if _, err := query(r); err != nil {
		return err
	}
	snap := h.cat.Now()
	client := apiClient(who)
	view := h.door.View(client, "")
	it, err := snap.Find(catalog.Tool, r.PathValue("tool"), view.Sight())
	if err != nil {
		return err
	}
	row := h.toolRow(client, it, snap, 0)
	if row.Pin != nil && row.Pin.Open && who.Has(auth.RightSettings) {
		row.Pin.Diff = pin.Diff(it.Standing.Before, it.Raw)
	}
	part := func(name string) json.RawMessage { return wire.Get(it.Shown, name) }
	reply(w, http.StatusOK, struct {
		toolRow
		InputSchema  json.RawMessage `json:"inputSchema"`
		OutputSchema json.RawMessage `json:"outputSchema,omitempty"`
		Annotations  json.RawMessage `json:"annotations,omitempty"`
		Notes        []string        `json:"notes,omitempty"` // what is odd about its definition
		SaveAs       bool            `json:"saveAs"`          // its result can be kept by a name
		References   bool            `json:"references"`      // @name in its arguments stands for a value
	}{row, part("inputSchema"), part("outputSchema"), part("annotations"), it.Notes,
		!it.Handling.NoSaveAs, !it.Handling.NoReferences})
	return nil
}

// checkTool says what is wrong with arguments, as a call would, and calls
// nothing. References are not looked at: they are texts here.
func (h *Hub) checkTool(w http.ResponseWriter, r *http.Request, who *auth.Principal) error {
	if _, err := query(r); err != nil {
		return err
	}
	view := h.door.View(apiClient(who), "")
	it, err := h.cat.Now().Find(catalog.Tool, r.PathValue("tool"), view.Sight())
	if err != nil {
		return err
	}
	args, err := h.body(w, r)
	if err != nil {
		return err
	}
	faults := []schema.Fault{}
	if it.Schema != nil {
		// A schema that does not compile checks nothing, as for a call.
		if s, err := it.Schema.Get(); err == nil {
			faults = append(faults, s.Validate(args)...)
		}
	}
	return say(w, map[string]any{"valid": len(faults) == 0, "faults": faults})
}
