package session

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stoahub/stoa/internal/fault"
	"github.com/stoahub/stoa/internal/journal"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// most is how many versions are kept of a value at most.
const most = 4

// draw draws events as the Sessions of hubs that are configured differently would
// append them.
func draw(t *rapid.T) []*event {
	at := time.Unix(1_700_000_000, 0).UTC()
	var out []*event
	names := rapid.SampledFrom([]string{"a", "b", "c"})
	for i := range rapid.IntRange(1, 60).Draw(t, "length") {
		at = at.Add(time.Duration(rapid.IntRange(0, 1000).Draw(t, "pause")) * time.Millisecond)
		e := &event{Kind: rapid.SampledFrom([]string{put, put, put, removed, touched, switched, opened, ended}).Draw(t, "kind"), ID: fmt.Sprint(i), Time: at}
		if i > 0 {
			e.Until = out[i-1].Until
		}
		e.Until += int64(rapid.IntRange(0, 2).Draw(t, "until"))
		if i == 0 || out[i-1].Kind == ended { // nothing else can follow
			e.Kind = opened
		}
		switch e.Kind {
		case put:
			e.Value = &Value{Name: names.Draw(t, "name"), Version: i, Size: rapid.IntRange(0, 9).Draw(t, "size"), Time: at}
			e.Blob, e.Keep = rapid.SampledFrom([]string{"", fmt.Sprint("blob", i)}).Draw(t, "blob"), rapid.IntRange(1, most).Draw(t, "keep")
		case removed, switched:
			e.Name, e.On = names.Draw(t, "name"), rapid.Bool().Draw(t, "on")
		}
		out = append(out, e)
	}
	return out
}

// TestApply: a log from which any first part of what is spare was removed, in
// order, tells the same as the whole, but for what is spare still.
func TestApply(t *testing.T) {
	unexported := cmp.AllowUnexported(state{}, item{}, Value{}, toggle{})
	rapid.Check(t, func(t *rapid.T) {
		events := draw(t)
		var live state
		var spares []uint64
		size := 0
		for i, e := range events {
			for _, sp := range live.apply(e, journal.Place{Seq: uint64(i + 1), Blob: e.Blob}) {
				spares = append(spares, sp.Seq)
			}
			if e.Kind == opened || e.Kind == ended { // what came before is purged
				spares = nil
				for j := range i {
					spares = append(spares, uint64(j+1))
				}
			}
		}
		for _, it := range live.values {
			if len(it.versions) == 0 || len(it.versions) > most {
				t.Fatalf("%d versions of %d", len(it.versions), most)
			}
			for _, v := range it.versions {
				size += v.Size
			}
		}
		if size != live.bytes {
			t.Fatalf("%d bytes are %d", size, live.bytes)
		}
		gone := map[uint64]bool{}
		for _, seq := range spares[:rapid.IntRange(0, len(spares)).Draw(t, "removed")] {
			gone[seq] = true
		}
		var again state
		for i, e := range events {
			if gone[uint64(i+1)] {
				continue
			}
			entry, err := e.encode([]byte("data\nmore"))
			if err != nil {
				t.Fatal(err)
			}
			read, data, err := decode(entry)
			if err != nil || string(data) != "data\nmore" {
				t.Fatalf("%s, %v", data, err)
			}
			again.apply(read, journal.Place{Seq: uint64(i + 1), Blob: read.Blob})
		}
		for _, s := range []*state{&live, &again} {
			if len(s.values) == 0 {
				s.values = nil
			}
		}
		if diff := cmp.Diff(live, again, unexported); diff != "" {
			t.Fatalf("without %v (-live +read):\n%s", gone, diff)
		}
	})
}

// TestNoReferenceIsLeft: in a Session in which references are active, what
// Resolve returns without a fault holds no reference that the arguments held.
func TestNoReferenceIsLeft(t *testing.T) {
	r := registry(t, storetest.Open(t, store.Options{}), Options{})
	ctx := ctxFor(t, 100*time.Second)
	s := bind(t, r, "p", "s")
	store1(t, s, "num", "1.50")
	store1(t, s, "doc", `{"rows":[{"id":7},[true]],"n":null}`)
	store1(t, bind(t, r, "p", "other"), "num", `2`)
	texts := rapid.OneOf(
		rapid.SampledFrom([]string{"@num", "@doc", "@doc.rows[0].id", "@doc.rows", "@other:num", "@doc.n", "@@num", "@@@doc.n", "@", "@ num", "a@num", "@num!", "@types/node", "x"}),
		rapid.SampledFrom([]string{"@missing", "@doc.nothing", "@doc.rows[9]", "@nowhere:num", "@s_abcdefghijklmnopqrstuvwxyz:num"}),
		rapid.StringMatching(`@{1,3}(num|doc|no|other:num)(\.rows|\[[0-3]\]|\.id)?`),
	)
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaf := rapid.OneOf(rapid.Map(texts, func(s string) any { return s }), rapid.Map(rapid.Bool(), func(b bool) any { return b }))
		if depth == 0 {
			return leaf
		}
		return rapid.OneOf(leaf,
			rapid.Map(rapid.SliceOfN(value(depth-1), 0, 4), func(s []any) any { return s }),
			rapid.Map(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "$ref", "@num"}), value(depth-1), 0, 3), func(m map[string]any) any { return m }))
	}
	rapid.Check(t, func(t *rapid.T) {
		in := value(4).Draw(t, "arguments")
		args, err := json.Marshal(map[string]any{"args": in})
		if err != nil {
			t.Fatal(err)
		}
		out, used, err := r.Resolve(ctx, "p", s, args, 1<<20, nil)
		active, bad := 0, false
		eachText(in, func(text string) {
			ref, ok := ParseReference(text)
			if !ok {
				return
			}
			active++
			from := s
			if ref.Session != "" {
				from = r.Find("p", ref.Session)
			}
			if from == nil {
				bad = true
				return
			}
			v, err := from.Value(ref.Name)
			if err == nil {
				var data []byte
				if data, err = from.Data(ctx, v); err == nil {
					_, err = Dig(data, ref.Path)
				}
			}
			bad = bad || err != nil
		})
		if bad != (err != nil) || err != nil && !fault.Is(err, fault.BadReference) {
			t.Fatalf("%s: bad %v, but %v", args, bad, err)
		}
		if err != nil {
			return
		}
		if (active > 0) != (len(used) > 0) {
			t.Fatalf("%s has %d references, used are %v", args, active, used)
		}
		var got any
		if err := json.Unmarshal(out, &got); err != nil {
			t.Fatalf("%s became %s", args, out)
		}
		if left := checkResolved(map[string]any{"args": in}, got); left != "" {
			t.Fatalf("%s became %s: %s", args, out, left)
		}
	})
}

// eachText calls f with the strings of a value that are no names of members.
func eachText(v any, f func(string)) {
	switch v := v.(type) {
	case string:
		f(v)
	case []any:
		for _, e := range v {
			eachText(e, f)
		}
	case map[string]any:
		for _, e := range v {
			eachText(e, f)
		}
	}
}

// checkResolved compares arguments with what they became, and says where a
// reference is left.
func checkResolved(in, out any) string {
	switch in := in.(type) {
	case string:
		if _, isRef := ParseReference(in); isRef {
			if out == in {
				return in + " is left"
			}
			return "" // whatever it stood for
		}
		want := in
		if strings.HasPrefix(in, "@@") {
			if _, isRef := ParseReference("@" + strings.TrimLeft(in, "@")); isRef {
				want = in[1:]
			}
		}
		if out != want {
			return fmt.Sprintf("%q became %v", in, out)
		}
	case []any:
		got, ok := out.([]any)
		if !ok || len(got) != len(in) {
			return fmt.Sprintf("%v became %v", in, out)
		}
		for i := range in {
			if left := checkResolved(in[i], got[i]); left != "" {
				return left
			}
		}
	case map[string]any:
		if ref, ok := in["$ref"].(string); ok && len(in) == 1 {
			if _, isRef := ParseReference(ref); isRef {
				return "" // the whole was replaced
			}
		}
		got, ok := out.(map[string]any)
		if !ok || len(got) != len(in) {
			return fmt.Sprintf("%v became %v", in, out)
		}
		for k := range in {
			if left := checkResolved(in[k], got[k]); left != "" {
				return left
			}
		}
	}
	return ""
}

// A world of Sessions of several principals with the same names, each used by
// one goroutine that knows what must be in it, and by others that only read.
type crowd struct {
	st      *store.Store
	mu      sync.RWMutex // held for writing while the registry is opened again
	r       *Registry
	options Options
}

// member is one Session and the model of it.
type member struct {
	*crowd
	principal, name string
	values          map[string][]string // versions, oldest first
	rnd             *rand.Rand
	n               int
}

// secret is data that names its owner, so that it can be told if it gets
// elsewhere.
func (m *member) secret() string {
	m.n++
	pad := ""
	if m.n%97 == 0 {
		pad = strings.Repeat("x", store.MaxEntry)
	}
	return fmt.Sprintf(`{"owner":"%s/%s","n":%d,"pad":"%s"}`, m.principal, m.name, m.n, pad)
}

func (m *member) step(ctx context.Context) error {
	m.mu.RLock()
	defer m.mu.RUnlock()
	s, err := m.r.Bind(Binding{Principal: m.principal, Name: m.name})
	if err != nil {
		return err
	}
	name := fmt.Sprintf("v%d", m.rnd.IntN(4))
	have := m.values[name]
	switch m.rnd.IntN(12) {
	case 0, 1, 2, 3:
		data := m.secret()
		if _, _, err := s.Put(ctx, New{Name: name, Data: []byte(data)}); err != nil {
			return err
		}
		have = append(have, data)
		m.values[name] = have[max(0, len(have)-m.options.History):]
	case 4:
		err := s.Remove(ctx, name)
		if (err == nil) != (len(have) > 0) {
			return fmt.Errorf("remove %s of %d versions: %v", name, len(have), err)
		}
		delete(m.values, name)
	case 5:
		if m.rnd.IntN(4) == 0 { // expire
			home := s.home()
			home.used.Store(0)
			if err := home.look(ctx, time.Now(), &m.options); err != nil {
				return err
			}
			m.values = map[string][]string{}
		}
	case 6:
		return m.history(ctx, s, name, have)
	default:
		return m.resolve(ctx, s, name, have)
	}
	return nil
}

func (m *member) history(ctx context.Context, s *Session, name string, have []string) error {
	h, err := s.History(name)
	if (err == nil) != (len(have) > 0) || len(h) != len(have) {
		return fmt.Errorf("%s has %d versions, want %d: %v", name, len(h), len(have), err)
	}
	for i, v := range h {
		data, err := s.Data(ctx, v)
		if err != nil || string(data) != have[len(have)-1-i] {
			return fmt.Errorf("%s, version %d: %.60s, %v", name, v.Version, data, err)
		}
	}
	return nil
}

func (m *member) resolve(ctx context.Context, s *Session, name string, have []string) error {
	args := fmt.Appendf(nil, `{"a":"@%s","b":"@%s:%s.owner"}`, name, m.name, name)
	out, used, err := m.r.Resolve(ctx, m.principal, s, args, 8<<20, nil)
	if len(have) == 0 {
		if !fault.Is(err, fault.BadReference) {
			return fmt.Errorf("%s was removed, and is %.100s, %v", name, out, err)
		}
		return nil
	}
	want := fmt.Appendf(nil, `{"a":%s,"b":"%s/%s"}`, have[len(have)-1], m.principal, m.name)
	if err != nil || !bytes.Equal(out, want) || len(used) != 2 {
		return fmt.Errorf("%s is %.100s, %v, want %.100s", name, out, err, want)
	}
	return nil
}

// TestNothingCrosses: 50 Sessions of several principals, all with the same
// names, never hold anything but what was put into them.
func TestNothingCrosses(t *testing.T) {
	c := &crowd{st: storetest.Open(t, store.Options{}), options: Options{History: 2, Timeout: time.Hour, Cache: 256 << 10}}
	open := func() {
		r, err := Open(context.Background(), c.st, c.options)
		if err != nil {
			t.Fatal(err)
		}
		c.r = r
	}
	open()
	defer func() { c.r.Close() }()
	ctx := ctxFor(t, 10*time.Minute)
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	var wg sync.WaitGroup
	steps := soak(30, 1000)
	for i := range 50 {
		m := &member{crowd: c, principal: fmt.Sprint("p", i%5), name: fmt.Sprint("s", i/5), values: map[string][]string{}, rnd: rand.New(rand.NewPCG(seed, uint64(i)))}
		wg.Go(func() {
			for range steps {
				if err := m.step(ctx); err != nil {
					t.Errorf("%s/%s: %v", m.principal, m.name, err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()
	for reopened := 0; ; reopened++ { // as a restart of the hub
		select {
		case <-done:
			t.Logf("opened again %d times", reopened)
			return
		case <-time.After(100 * time.Millisecond):
		}
		c.mu.Lock()
		c.r.Close()
		live := projection(c.r)
		open()
		if diff := cmp.Diff(live, projection(c.r), cmp.AllowUnexported(state{}, item{}, Value{}, toggle{})); diff != "" {
			t.Errorf("opened again (-before +after):\n%.4000s", diff)
		}
		c.mu.Unlock()
	}
}
