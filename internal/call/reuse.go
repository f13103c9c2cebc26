package call

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/stoahub/stoa/internal/mcp"
	"github.com/stoahub/stoa/internal/upstream"
	"github.com/stoahub/stoa/internal/wire"
)

// Results of tools that the config names, and that say that they are read-only
// and idempotent, are reused for a while. Whether a call may be made has been
// decided before anybody looks here, and what references stand for is part of
// what is looked up.

const (
	// MetaFresh is the member of a request's _meta that wants the server's own
	// answer, now.
	MetaFresh = "stoa/fresh"
	// MetaCached is the member of a result's _meta that says that the result is
	// that of a call before.
	MetaCached = "stoa/cached"
)

// reuse is what a call has whose result can be reused.
type reuse struct {
	key    cacheKey
	stream *questions // nil if nobody can be asked during the call
	hit    bool
}

// outcome is what metrics call it.
func (r *reuse) outcome(fresh bool) string {
	switch {
	case r.hit:
		return "hit"
	case fresh:
		return "fresh"
	}
	return "miss"
}

// questions is a Stream that remembers whether the client was asked something:
// a result that rests on the answer is nobody else's.
type questions struct {
	mcp.Stream
	asked atomic.Bool
}

func (q *questions) Ask(ctx context.Context, method string, params []byte) (mcp.Response, error) {
	q.asked.Store(true)
	return q.Stream.Ask(ctx, method, params)
}

// reused answers a call by the result of one before, if there is such a result;
// else it makes sure that the result of this call can be kept.
func (d *Door) reused(ctx context.Context, c *Call, t *toolCall, o *mcp.Outgoing, m *upstream.Call) (resp mcp.Response, done bool, err error) {
	key, ok := keyOf(c, t)
	if !ok {
		return resp, false, nil
	}
	t.reuse = &reuse{key: key}
	now := time.Now()
	var e *cached
	if !t.fresh {
		e = d.cache.get(key, now)
	}
	if e == nil {
		if o.Stream != nil {
			t.reuse.stream = &questions{Stream: o.Stream}
			o.Stream = t.reuse.stream
		}
		return resp, false, nil
	}
	if m.Starting != nil { // an approval may be out of date, and who made the call keeps a record of it
		if err := m.Starting(ctx); err != nil {
			return resp, true, err
		}
	}
	t.reuse.hit = true
	age := now.Sub(e.born)
	result := aged(e.result, age)
	if resp, err = d.conclude(ctx, c, t, mcp.Response{Result: result}); err != nil {
		return resp, true, err
	}
	about := strconv.AppendInt([]byte(`{"ageMs":`), age.Milliseconds(), 10)
	about = append(strconv.AppendInt(append(about, `,"ttlMs":`...), e.ends.Sub(now).Milliseconds(), 10), '}')
	note := wire.Edit(nil, wire.Get(resp.Result, "_meta"), wire.Change{Name: MetaCached, Value: about})
	return mcp.Response{Result: wire.Edit(nil, resp.Result, wire.Change{Name: "_meta", Value: note})}, true, nil
}

// aged is a result whose own hint of how long it may be kept has run for a
// while.
func aged(result []byte, age time.Duration) []byte {
	ttl, ok := hint(result)
	if !ok {
		return result
	}
	left := strconv.AppendInt(nil, max(ttl-age, 0).Milliseconds(), 10)
	return wire.Edit(nil, result, wire.Change{Name: "ttlMs", Value: left})
}

// hint is for how long a result says that it may be kept.
func hint(result []byte) (ttl time.Duration, ok bool) {
	raw := wire.Get(result, "ttlMs")
	if raw == nil {
		return 0, false
	}
	ms := min(max(number(raw), 0), float64(24*time.Hour/time.Millisecond))
	return time.Duration(ms * float64(time.Millisecond)), true
}

// remember keeps the result of a call, if it is one that can be reused.
func (d *Door) remember(c *Call, t *toolCall, resp mcp.Response) {
	r := t.reuse
	if resp.Error != nil || saysError(resp.Result) || r.stream != nil && r.stream.asked.Load() || !d.cache.fits(len(resp.Result)) {
		return
	}
	if kind := wire.Get(resp.Result, "resultType"); kind != nil && string(kind) != `"complete"` {
		return // there is no result yet
	}
	ttl := c.Item.CacheFor
	if own, ok := hint(resp.Result); ok {
		ttl = min(ttl, own)
	}
	e := &cached{key: r.key, born: time.Now()}
	if before := wire.Get(wire.Get(resp.Result, "_meta"), MetaCached); before != nil { // another hub had it
		age := min(max(number(wire.Get(before, "ageMs")), 0), float64(24*time.Hour/time.Millisecond))
		e.born = e.born.Add(-time.Duration(age * float64(time.Millisecond)))
	}
	if e.ends = e.born.Add(ttl); !time.Now().Before(e.ends) {
		return
	}
	e.result = bytes.Clone(resp.Result)
	d.cache.put(e)
}

// keyOf is what the result of a call is kept under: everything that it may
// depend on. ok is false if it depends on more than can be said.
func keyOf(c *Call, t *toolCall) (key cacheKey, ok bool) {
	if c.Standing != nil || !c.Item.Caches() || t.resumed {
		return key, false
	}
	client := c.Req.Client
	h := sha256.New()
	part(h, binary.BigEndian.AppendUint64(nil, c.Upstream.Serial()))
	for _, text := range []string{c.Item.Upstream, c.Item.Name, c.Item.Digest, client.Actor.Tag(), c.Upstream.Connection(client, c.Req.Session),
		strconv.Itoa(int(client.Era)), client.Version, strconv.FormatBool(client.Connection != "")} {
		part(h, []byte(text))
	}
	for p := range client.Actor.Principals {
		if p == nil {
			return key, false
		}
		part(h, []byte(p.Name))
		part(h, []byte(p.Token)) // one that is made again under a name is another
	}
	part(h, client.Capabilities)
	args := t.args
	if args == nil {
		args = []byte("{}")
	}
	part(h, canonical(args))
	for _, f := range sorted(c.Req.Fields) {
		switch string(f.Name) {
		case "name", "arguments", "_meta":
		case "inputResponses", "requestState", "task":
			return key, false // it goes on with another call, or has no result yet
		default:
			part(h, f.Name)
			part(h, canonical(f.Value))
		}
	}
	for _, f := range sorted(c.Req.Meta) {
		if mcp.ForServer(string(f.Name)) {
			part(h, f.Name)
			part(h, canonical(f.Value))
		}
	}
	h.Sum(key[:0])
	return key, true
}

// part adds to a hash what cannot be taken for a piece of what follows.
func part(h hash.Hash, b []byte) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(b)))
	h.Write(n[:])
	h.Write(b)
}

func sorted(fields []wire.Field) []wire.Field {
	return slices.SortedStableFunc(slices.Values(fields), func(a, b wire.Field) int { return bytes.Compare(a.Name, b.Name) })
}

// canonical writes JSON in one way only: members sorted, without spaces, numbers
// as they came. What cannot be written so without loss stays as it is.
func canonical(raw []byte) []byte {
	if wire.Valid(raw, wire.FromClient) != nil {
		return raw // a name that is said twice, say
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return raw
	}
	out, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return out
}

// countReuse counts a call whose result can be reused.
func (d *Door) countReuse(c *Call, t *toolCall) {
	if t.reuse.hit {
		c.Item.Stat.Reuse()
	}
	if d.reuses != nil {
		d.reuses(1, "upstream", c.Upstream.Name(), "outcome", t.reuse.outcome(t.fresh))
	}
}

// BoundCache changes how many results are kept to be reused, and how many bytes
// they take; 0 means the usual bounds.
func (d *Door) BoundCache(entries, bytes int) { d.cache.bound(entries, bytes) }

// CacheFigures are how many results are kept to be reused, and how many bytes
// they take.
func (d *Door) CacheFigures() (entries, bytes int) { return d.cache.figures() }
