package session

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/proxy"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// far is a hub whose store is at the other end of a proxy.
type far struct {
	wire *proxy.Proxy
	st   *store.Store
	r    *Registry
}

// log is what the hub keeps its Sessions in.
func (h *far) log(t *testing.T) *store.Log {
	t.Helper()
	l, err := h.st.Log(t.Context(), store.LogOptions{Name: logName, Subjects: []string{subjectPrefix + ">"}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// twoFar are two hubs on one server, which is asked in vain for a second.
func twoFar(t *testing.T) [2]*far {
	t.Helper()
	server := storetest.StartServer(t)
	var hubs [2]*far
	for i := range hubs {
		h := &far{wire: proxy.New(t, server.URL)}
		await.NoError(t, "a busy machine opens a store", func() (err error) {
			h.st, err = store.Open(t.Context(), store.Options{URL: h.wire.URL, Timeout: time.Second})
			return err
		})
		t.Cleanup(func() { h.st.Close() })
		await.NoError(t, "a busy machine opens the sessions", func() (err error) {
			h.r, err = Open(t.Context(), h.st, Options{History: 1000, Cache: 1})
			return err
		})
		t.Cleanup(h.r.Close)
		hubs[i] = h
	}
	t.Cleanup(func() {
		for _, h := range hubs {
			h.wire.Restore() // what is left to do at the end can be done
		}
	})
	return hubs
}

// client asks one hub for one thing after the other.
type client struct {
	id      int
	at      *far
	session string
	rnd     *rand.Rand
	began   time.Time
	plain   bool // its reads do not ask for the latest, as they should
	history []porcupine.Operation
	seen    [valueNames]sight
	back    []string // what it saw go back
}

// sight is what was last seen of a value at a hub, in whatever way.
type sight struct {
	seq  uint64 // of the version that was current
	gone bool   // it was not there after that
}

// saw takes note of the entry that is current; 0 means that there is none. What
// was seen before must not be seen again after it was replaced or removed.
func (c *client) saw(name int, seq uint64, how string) {
	s := &c.seen[name]
	switch {
	case seq == 0:
		s.gone = true
		return
	case seq < s.seq || seq == s.seq && s.gone:
		c.back = append(c.back, fmt.Sprintf("client %d saw entry %d of v%d by %s after %+v", c.id, seq, name, how, *s))
	}
	*s = sight{seq: seq}
}

func (c *client) bind() *Session {
	s, err := c.at.r.Bind(Binding{Principal: "p", Name: c.session})
	if err != nil {
		panic(err)
	}
	return s
}

// look reads what is known at the hub.
func (c *client) look(name int, how string) (all string) {
	h, err := c.bind().History(fmt.Sprint("v", name))
	if err != nil {
		c.saw(name, 0, how)
		return ""
	}
	c.saw(name, h[0].seq, how)
	slices.Reverse(h)
	for _, v := range h {
		all += fmt.Sprintf(" %d:%s", v.Version, v.Description)
	}
	return strings.TrimSpace(all)
}

// latest has the hub ask the store, unless it is broken.
func (c *client) latest(ctx context.Context) error {
	if c.plain {
		return nil
	}
	return c.at.r.latest(ctx, ID("p", c.session))
}

// ask does one operation. An error means that it is certain that nothing came
// of it.
func (c *client) ask(ctx context.Context, op operation) (out outcome, err error) {
	s, name := c.bind(), fmt.Sprint("v", op.name)
	switch op.what {
	case "read":
		if err = c.latest(ctx); err == nil {
			out.all = c.look(op.name, op.what)
		}
	case "use":
		var data []byte
		if data, _, err = c.at.r.Resolve(ctx, "p", s, []byte(`["@`+name+`"]`), 1000, nil); err == nil {
			out.all = strings.Trim(string(data), `[]"`)
		}
	case "remove":
		if err = s.Remove(ctx, name); err == nil {
			c.saw(op.name, 0, op.what)
		}
	case "end":
		if err = c.at.r.Remove(ctx, s); err == nil {
			for i := range c.seen {
				c.saw(i, 0, op.what)
			}
		}
	default:
		var v Value
		v, _, err = s.Put(ctx, New{Name: name, Data: []byte(`"` + op.data + `"`), Description: op.data, Over: op.over})
		if err == nil {
			c.saw(op.name, v.seq, op.what)
			out.version = v.Version
		}
	}
	switch {
	case fault.Is(err, fault.BadReference), fault.Is(err, fault.InvalidArguments):
		return outcome{refused: true}, nil
	case errors.Is(err, store.ErrUncertain) && op.what != "use" && op.what != "read":
		return outcome{unknown: true}, nil
	}
	return out, err
}

// record does one operation and takes it down.
func (c *client) record(ctx context.Context, op operation) error {
	began := time.Since(c.began).Nanoseconds()
	out, err := c.ask(ctx, op)
	if err == nil {
		c.history = append(c.history, porcupine.Operation{ClientId: c.id, Input: op, Output: out, Call: began, Return: time.Since(c.began).Nanoseconds()})
	}
	return err
}

// run does one operation after the other until its time is over, with plain
// reads between them. Those that only read are not held up by what they write.
func (c *client) run(ctx context.Context, over <-chan struct{}) {
	for i := 0; !isClosed(over); i++ {
		op := operation{what: "read", name: c.rnd.IntN(valueNames)}
		switch k := c.rnd.IntN(20); {
		case c.id < readers && (k < 10 || c.plain), k < 2:
		case c.id < readers, k < 4:
			op.what = "use"
		case k < 6:
			op.what = "remove"
		case k == 6:
			op.what, op.name = "end", 0
		default:
			op.what, op.data = "put", fmt.Sprintf("c%d.%d", c.id, i)
			if c.rnd.IntN(3) == 0 {
				op.over = 1 + c.rnd.IntN(3)
			}
		}
		c.look(c.rnd.IntN(valueNames), "plain read")
		_ = c.record(ctx, op) // nothing came of it
		c.look(c.rnd.IntN(valueNames), "plain read")
		<-time.After(time.Duration(c.rnd.IntN(25)) * time.Millisecond)
	}
}

// disturb does something to the wire of a hub, until a while later.
func (h *far) disturb(rnd *rand.Rand) {
	switch rnd.IntN(7) {
	case 0:
		h.wire.Drop()
		return
	case 1:
		h.wire.Cut()
	case 2:
		h.wire.Set(proxy.Lose, proxy.Lose)
	case 3:
		h.wire.Set(proxy.Pass, proxy.Lose)
	case 4:
		h.wire.Set(proxy.Lose, proxy.Pass)
	case 5:
		h.wire.Set(proxy.Hold, proxy.Hold)
		<-time.After(time.Duration(rnd.IntN(300)) * time.Millisecond)
		h.wire.Set(proxy.Pass, proxy.Pass) // all of it comes late, and nothing is lost
		return
	case 6:
		h.wire.Delay(time.Duration(1+rnd.IntN(20)) * time.Millisecond)
	}
	<-time.After(time.Duration(rnd.IntN(1400)) * time.Millisecond)
	h.wire.Restore()
}

// readers are how many of the clients of a round only read.
const readers = 2

// round has the clients of two hubs work on one Session while the wires of both
// are disturbed, and waits until both know the end of it.
func round(t *testing.T, hubs [2]*far, session string, seed uint64, plain bool) (history []porcupine.Operation, back []string) {
	const clients, faults = 6, 3
	ctx := ctxFor(t, 5*time.Minute)
	began := time.Now()
	over := make(chan struct{})
	var all []*client
	var working, disturbing sync.WaitGroup
	for i := range clients {
		c := &client{id: i, at: hubs[i%2], session: session, rnd: rand.New(rand.NewPCG(seed, uint64(i))), began: began, plain: plain}
		all = append(all, c)
		working.Go(func() { c.run(ctx, over) })
	}
	for i, h := range hubs {
		rnd := rand.New(rand.NewPCG(seed, uint64(100+i)))
		disturbing.Go(func() {
			for range faults {
				<-time.After(time.Duration(rnd.IntN(200)) * time.Millisecond)
				h.disturb(rnd)
			}
		})
	}
	disturbing.Wait()
	close(over)
	working.Wait()
	for _, c := range all[:2] {
		c.at.wire.Restore()
		for name := range valueNames {
			await.NoError(t, "the latest can be read again", func() error {
				return c.record(ctx, operation{what: "read", name: name})
			})
		}
	}
	for _, c := range all {
		history, back = append(history, c.history...), append(back, c.back...)
	}
	return history, back
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Whatever happens between two hubs and their store: what is written to the
// values of a Session and what is read as the latest might have happened one
// after the other, each between its call and its answer; and what is read of
// memory alone never goes back.
func TestLinearizable(t *testing.T) {
	hubs := twoFar(t)
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	ops, unknown, undecided := 0, 0, 0
	rounds := soak(3, 200)
	for i := range rounds {
		history, back := round(t, hubs, fmt.Sprint("round", i), seed+uint64(i), false)
		for _, text := range back {
			t.Error(text)
		}
		for _, op := range history {
			ops++
			if op.Output.(outcome).unknown {
				unknown++
			}
		}
		switch linearizable(t, history) {
		case porcupine.Illegal:
			t.Errorf("round %d cannot have happened in any order:\n%s", i, describe(history))
		case porcupine.Unknown:
			undecided++
		}
		if t.Failed() {
			return
		}
	}
	if undecided == rounds {
		t.Error("no round could be decided: it shows nothing")
	}
	t.Logf("%d operations, %d of unknown outcome, %d of %d rounds undecided", ops, unknown, undecided, rounds)
}

// A hub that answers from memory where it should ask is found out.
func TestStaleReadIsFoundOut(t *testing.T) {
	hubs := twoFar(t)
	began := time.Now()
	ctx := ctxFor(t, 2*time.Minute)
	here, there := &client{id: 0, at: hubs[0], session: "s", began: began}, &client{id: 1, at: hubs[1], session: "s", began: began, plain: true}
	await.NoError(t, "the other hub has the first", func() error {
		if err := here.record(ctx, operation{what: "put", data: "a"}); err != nil {
			return err
		}
		return there.at.r.latest(ctx, ID("p", "s"))
	})
	there.at.wire.Set(proxy.Lose, proxy.Lose)
	await.NoError(t, "something is put that the other does not hear of", func() error {
		return here.record(ctx, operation{what: "put", data: "b"})
	})
	if err := there.record(ctx, operation{what: "read"}); err != nil {
		t.Fatal(err)
	}
	if history := append(here.history, there.history...); linearizable(t, history) != porcupine.Illegal {
		t.Errorf("nothing is wrong with\n%s", describe(history))
	}
}

// Values that are removed one after the other while another hub is cut off are
// gone there, too, though the entries that told of their removal go from the log.
func TestRemovedWhileCutOff(t *testing.T) {
	hubs := twoFar(t)
	ctx := ctxFor(t, 2*time.Minute)
	here, there := bind(t, hubs[0].r, "p", "s"), bind(t, hubs[1].r, "p", "s")
	for _, name := range []string{"stays", "gone1", "anew", "gone2", "last"} {
		store1(t, here, name, `"before"`)
	}
	known := func() string {
		all, err := there.Values("")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, v := range all {
			names = append(names, fmt.Sprint(v.Name, " ", v.Version))
		}
		return strings.Join(names, ", ")
	}
	await.Until(t, "the other hub knows them", func() bool { return strings.Count(known(), ",") == 4 })
	hubs[1].wire.Cut()
	before, err := hubs[0].r.book.At(here.id).Latest(ctx)
	if err != nil {
		t.Fatal(err)
	}
	first := before.state.values["last"].current().seq + 1
	for _, name := range []string{"anew", "gone1", "gone2", "last"} {
		if err := here.Remove(ctx, name); err != nil {
			t.Fatal(err)
		}
		if name == "anew" {
			store1(t, here, "anew", `"again"`)
		}
	}
	await.Until(t, "nothing tells of the first removal any more", func() bool {
		_, err := hubs[0].log(t).Read(ctx, first)
		return errors.Is(err, store.ErrNotFound)
	})
	hubs[1].wire.Restore()
	await.NoError(t, "the latest can be read again", func() error { return hubs[1].r.latest(ctx, there.id) })
	if got := known(); got != "anew 1, stays 1" {
		t.Errorf("the other hub has %s", got)
	}
	if all, err := there.History("anew"); err != nil || len(all) != 1 {
		t.Errorf("it has the versions %+v, %v", all, err)
	}
	holds(t, there, "anew", `"again"`)
}

// A Session is begun by a hub that gets no answer, and another hub goes on with
// it: what the first was about to store takes its place after that.
func TestBegunWithoutAnAnswer(t *testing.T) {
	hubs := twoFar(t)
	ctx := ctxFor(t, 2*time.Minute)
	try := 0
	await.NoError(t, "the answer comes late, and not too late", func() error {
		try++
		name := fmt.Sprint("s", try)
		here, there := bind(t, hubs[0].r, "p", name), bind(t, hubs[1].r, "p", name)
		if err := hubs[1].r.latest(ctx, there.id); err != nil {
			return err
		}
		hubs[1].wire.Set(proxy.Pass, proxy.Lose)
		defer hubs[1].wire.Restore()
		type answer struct {
			v   Value
			err error
		}
		done := make(chan answer, 1)
		go func() {
			v, _, err := there.Put(ctx, New{Name: "v", Data: []byte("2")})
			done <- answer{v, err}
		}()
		await.Until(t, "the first entry is heard", func() bool { return hubs[0].r.Find("p", name) != nil || len(done) > 0 })
		store1(t, here, "v", "1")
		hubs[1].wire.Restore()
		got := <-done
		if got.err != nil {
			return got.err
		}
		if err := hubs[0].r.latest(ctx, here.id); err != nil {
			return err
		}
		holds(t, here, "v", "2")
		if got.v.Version != 2 {
			t.Errorf("it is stored as version %d", got.v.Version)
		}
		return nil
	})
}
