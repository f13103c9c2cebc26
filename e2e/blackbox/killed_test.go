package blackbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// B1 for every kind of record: whenever the hub is killed, each write and each
// deletion that was acknowledged holds, and nothing that was deleted is back.

// record is something that is kept at the hub, by one worker.
type record struct {
	kind   string
	key    string
	n      int    // of its last version
	is     string // what look says of it; "" means that it is not there
	unsure bool   // a request about it got no answer: it is as look says next
	id     string // by which the hub knows it, where that is needed
	secret string
}

// kind says how records of one kind are made, deleted and looked at.
type kind struct {
	often  int // how often it is chosen
	once   bool
	make   func(w *worker, r *record) error
	remove func(w *worker, r *record) error
	look   func(w *worker, r *record) (string, error)
}

var (
	errNoAnswer = errors.New("the hub did not answer")
	errLater    = errors.New("the hub has too much to do, or does not have its server yet")
)

// worker makes and deletes records, one at a time, until the hub is gone.
type worker struct {
	h       *hub
	t       *testing.T
	gate    string // a file that is never there
	rnd     *rand.Rand
	acked   *atomic.Int64
	records []*record
	half    atomic.Bool // leave every other record alone
}

// ask sends a request. What is acknowledged counts if it changes something.
func (w *worker) ask(method, path, token string, body any) (reply, error) {
	return w.askWith(nil, method, path, token, body)
}

func (w *worker) askWith(header http.Header, method, path, token string, body any) (reply, error) {
	got, err := w.h.try(method, path, token, header, body)
	if err != nil {
		return got, fmt.Errorf("%w: %w", errNoAnswer, err)
	}
	var said struct {
		Error  json.RawMessage
		Result struct{ IsError bool }
	}
	_ = json.Unmarshal([]byte(got.text), &said) // what is no object is no error either
	fails := got.status/100 != 2 || said.Error != nil || said.Result.IsError
	switch {
	case got.status == http.StatusTooManyRequests, fails && (strings.Contains(got.text, `"retryable":true`) || strings.Contains(got.text, "reached yet")):
		return got, fmt.Errorf("%w: %s %s: %s", errLater, method, path, clip(got.text))
	case got.status == http.StatusNotFound || got.status == http.StatusUnauthorized:
		return got, nil // those who ask know what it means
	case fails:
		return got, fmt.Errorf("%s %s: %d %s", method, path, got.status, clip(got.text))
	case method != http.MethodGet:
		w.acked.Add(1)
	}
	return got, nil
}

// wants is ask for what must be there.
func (w *worker) wants(method, path, token string, body any) (reply, error) {
	got, err := w.ask(method, path, token, body)
	if err == nil && got.status/100 != 2 {
		err = fmt.Errorf("%s %s: %d %s", method, path, got.status, clip(got.text))
	}
	return got, err
}

func (w *worker) tool(path, token, name string, args object) (reply, error) {
	return w.wants(http.MethodPost, path, token, rpc("tools/call", object{"name": name, "arguments": args}))
}

// step does something with one record.
func (w *worker) step() error {
	i := w.rnd.IntN(len(w.records))
	if w.half.Load() {
		i &^= 1
	}
	r := w.records[i]
	k := kinds[r.kind]
	if r.unsure {
		is, err := k.look(w, r)
		if err != nil {
			return err
		}
		r.is, r.unsure = is, false
	}
	r.unsure = true
	var err error
	if r.is == "" || !k.once && w.rnd.IntN(2) == 0 {
		r.n++
		err = k.make(w, r)
	} else {
		err = k.remove(w, r)
	}
	if err == nil {
		r.unsure = false
	}
	return err
}

// work does so until the hub is gone.
func (w *worker) work() {
	for {
		switch err := w.step(); {
		case errors.Is(err, errNoAnswer) || w.t.Failed():
			return
		case err != nil && !errors.Is(err, errLater):
			w.t.Errorf("%v", err)
			return
		}
	}
}

// check holds all records of a worker against what was acknowledged.
func (w *worker) check(when string) {
	for _, r := range w.records {
		is, err := kinds[r.kind].look(w, r)
		switch {
		case err != nil:
			w.t.Errorf("%s: %s %s: %v", when, r.kind, r.key, err)
		case !r.unsure && is != r.is:
			w.t.Errorf("%s: %s %s is %q, and was acknowledged to be %q", when, r.kind, r.key, is, r.is)
		}
		r.is, r.unsure = is, false
	}
}

// mistakes follows the book of errors: what was written stays until others take
// its room, and what had to go does not return.
type mistakes struct {
	there, gone map[string]bool
}

// keptErrors is how many the hub keeps.
const keptErrors = 2000

func (m *mistakes) read(t testing.TB, h *hub) map[string]bool {
	t.Helper()
	ids := map[string]bool{}
	for line := range strings.Lines(h.get(t, "/api/v1/errors/export", h.owner).text) {
		var e struct{ ID string }
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.ID == "" || ids[e.ID] {
			t.Fatalf("errors: %v in %s", err, clip(line))
		}
		ids[e.ID] = true
	}
	return ids
}

// look is called with the hub that met them; an export writes what waits.
func (m *mistakes) look(t testing.TB, h *hub) {
	t.Helper()
	now := m.read(t, h)
	for id := range m.there {
		if !now[id] {
			m.gone[id] = true
		}
	}
	m.there = now
}

// check is called after a restart.
func (m *mistakes) check(t testing.TB, h *hub, when string) {
	t.Helper()
	now := m.read(t, h)
	missing, back := 0, 0
	for id := range m.there {
		if !now[id] {
			missing++
		}
	}
	for id := range now {
		if m.gone[id] {
			back++
		}
	}
	if room := len(now) >= keptErrors-100; len(now) > keptErrors || back > 0 || missing > 0 && !room {
		t.Errorf("%s: of %d errors %d are missing, %d of those that had to go are back, %d are there", when, len(m.there), missing, back, len(now))
	}
	m.look(t, h)
}

// failing are tools that always fail. The book keeps five errors a second of
// each.
const failing = 100

func failingTools() string {
	var all []string
	for i := range failing {
		all = append(all, fmt.Sprintf(`{"name":"fails%d","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`, i))
	}
	return strings.Join(all, ",")
}

// err makes mistakes.
func (m *mistakes) err(w *worker) {
	var calls list
	for i := range failing {
		calls = append(calls, object{"tool": fmt.Sprintf("files__fails%d", i)})
	}
	if _, err := w.h.try(http.MethodPost, "/mcp", w.h.owner, nil, rpc("tools/call", object{"name": "tools_batch", "arguments": object{"calls": calls, "parallel": 4}})); err != nil {
		return // killed
	}
}

func TestKilledHubKeepsAllKindsOfRecords(t *testing.T) {
	t.Parallel()
	if os.Getenv("STOA_SOAK") != "" {
		keepsAllKinds(t, storetest.Folder(), 60, 10_000)
		return
	}
	keepsAllKinds(t, storetest.Folder(), 5, 350)
}

// The same with the records on a server, and on a cluster whose leader is killed
// too. It takes long: a hub waits until what the dead one held is free.
func TestKilledHubKeepsAllKindsElsewhere(t *testing.T) {
	t.Parallel()
	if os.Getenv("STOA_SOAK") == "" {
		t.Skip("the short form is in internal/hub")
	}
	for _, start := range []func(testing.TB) storetest.Form{storetest.OnServer, storetest.OnCluster} {
		f := start(t)
		if !f.GoesOn {
			f.Kill = nil // it says of errors that they are stored before they are
		}
		t.Run(f.Name, func(t *testing.T) { keepsAllKinds(t, f, 10, 1000) })
	}
}

func keepsAllKinds(t *testing.T, f storetest.Form, kills int, wanted int64) {
	const workers = 4
	aged := map[int]time.Duration{}
	if f.Options.URL == "" && kills > 40 {
		// The engine forgets a deletion after a minute, and compacts its files
		// every other one.
		aged[20], aged[40] = 75*time.Second, 150*time.Second
	}
	folder := t.TempDir()
	files, _ := withTools(t, failingTools())
	servers := object{"files": files}
	kept := object{}
	if f.Options.URL != "" {
		kept = object{"url": f.Options.URL, "replicas": max(f.Options.Replicas, 1)}
	}
	h := serve(t, servers, object{"store": kept, "policy": object{"rules": list{object{"tools": "files__write", "action": "ask"}}}})
	gate := filepath.Join(folder, "gate")
	t.Cleanup(func() { _ = os.WriteFile(gate, nil, 0o600) }) // what still waits for it ends
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	var acked atomic.Int64
	all := make([]*worker, workers)
	for i := range all {
		all[i] = &worker{h: h, t: t, gate: gate, rnd: rand.New(rand.NewPCG(seed, uint64(i))), acked: &acked}
		for _, name := range slices.Sorted(maps.Keys(kinds)) {
			for j := range kinds[name].often {
				all[i].records = append(all[i].records, &record{kind: name, key: fmt.Sprintf("%s-%d-%d", name, i, j)})
			}
		}
	}
	rnd := rand.New(rand.NewPCG(seed, 99))
	book := &mistakes{there: map[string]bool{}, gone: map[string]bool{}}
	for round := range kills {
		var wg sync.WaitGroup
		for _, w := range all {
			wg.Go(w.work)
		}
		book.err(all[0])
		at := (int64(round)*wanted + rnd.Int64N(wanted)) / int64(kills)
		await.Until(t, "so much is acknowledged", func() bool { return acked.Load() >= at || t.Failed() })
		if aged[round] > 0 { // others are written on, and some grow old
			for _, w := range all {
				w.half.Store(true)
			}
			<-time.After(aged[round])
		}
		book.look(t, h)
		<-time.After(time.Duration(rnd.IntN(20)) * time.Millisecond)
		mend := func() {}
		if f.Kill != nil && round%2 == 0 {
			mend = f.Kill(t, "session")
		}
		h.kill(t)
		wg.Wait()
		mend()
		if round%2 == 1 && f.Options.URL == "" { // the engine has to read all its files
			dropSummaries(t, filepath.Join(h.data, "js"))
		}
		h.launch(t)
		h.awaitTools(t, servers)
		for _, w := range all {
			w.half.Store(false)
		}
		when := fmt.Sprintf("after kill %d", round+1)
		for _, w := range all {
			wg.Go(func() { w.check(when) })
		}
		wg.Wait()
		book.check(t, h, when)
		if t.Failed() {
			return
		}
	}
	for kind, n := range made(all) {
		if n == 0 {
			t.Errorf("no %s was ever made: it shows nothing", kind)
		}
	}
	t.Logf("%d writes and deletions acknowledged, %d kills; versions of each kind: %v", acked.Load(), kills, made(all))
}

// A session that was deleted takes with it all that belongs to it before that
// is acknowledged: also what takes a while to remove.
func TestDeletedSessionLeavesNothing(t *testing.T) {
	t.Parallel()
	files, _ := upstream(t)
	servers := object{"files": files}
	h := serve(t, servers, object{"policy": object{"rules": list{object{"tools": "files__write", "action": "ask"}}}})
	w := &worker{h: h, t: t, gate: filepath.Join(t.TempDir(), "gate"), acked: &atomic.Int64{}}
	for round := range 3 {
		r := &record{key: fmt.Sprint("full", round)}
		err := makeSession(w, r)
		for i := 0; i < 40 && err == nil; i++ {
			_, err = w.tool("/s/"+r.key+"/mcp", h.owner, "plan_execute", object{"plan": planOf(object{"id": "a", "tool": "files__read"})})
		}
		if err == nil {
			err = removeSession(w, r)
		}
		h.kill(t)
		if err != nil {
			t.Fatal(err)
		}
		h.launch(t)
		if left, err := lookSession(w, r); err != nil || left != "" {
			t.Errorf("a session that was deleted before the kill has left: %s, %v", left, err)
		}
	}
}

// made counts the versions of records.
func made(all []*worker) map[string]int {
	out := map[string]int{}
	for _, w := range all {
		for _, r := range w.records {
			out[r.kind] += r.n
		}
	}
	return out
}

// dropSummaries removes what the engine has written about its files.
func dropSummaries(t testing.TB, folder string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Name() == "index.db" {
			err = os.Remove(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
