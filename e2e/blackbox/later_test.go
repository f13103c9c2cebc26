package blackbox

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stoahub/stoa/internal/store"
)

// later is the entry of a type that no release knows yet, as one could write it
// after an entry that is there: with members that are known and mean another
// thing.
var later = map[string]func(after []byte) string{
	"session": func([]byte) string {
		return `{"k":"sealed","e":"LATER","t":"2027-01-02T03:04:05Z","principal":{"name":"x"},"value":7,"held":"long"}` + "\nand data"
	},
	"task": func([]byte) string {
		return `{"k":"praised","e":"LATER","t":"2027-01-02T03:04:05Z","keys":"none","work":[1]}` + "\nand data"
	},
	"chat": func(after []byte) string {
		return fmt.Sprintf(`{"seq":%d,"ts":"2027-01-02T03:04:05Z","type":"reaction","turn":5,"text":{"emoji":"LATER"},"input":7}`, number(after, "seq")+1)
	},
	"plan": func(after []byte) string {
		return fmt.Sprintf(`{"n":%d,"time":"2027-01-02T03:04:05Z","type":"annotated","step":{"id":"a"},"reason":["LATER"],"result":7}`, number(after, "n")+1)
	},
}

// number reads a member of the JSON at the beginning of an entry.
func number(entry []byte, member string) int {
	head, _, _ := strings.Cut(string(entry), "\n")
	var all map[string]any
	if json.Unmarshal([]byte(head), &all) != nil {
		return 0
	}
	n, _ := all[member].(float64)
	return int(n)
}

// writeLater adds such an entry to all that is in the logs of a store, and to
// what is remembered of approvals, and returns how many there are by log.
func writeLater(t *testing.T, data string) map[string]int {
	t.Helper()
	st := openStore(t, data)
	defer st.Close()
	wrote := map[string]int{}
	for name, entry := range later {
		l, err := st.Log(t.Context(), store.LogOptions{Name: name, Subjects: []string{"evt." + name + ".>"}})
		if err != nil {
			t.Fatal(err)
		}
		last := map[string]store.Entry{}
		err = l.Scan(t.Context(), "", 0, func(e store.Entry) error { last[e.Subject] = e; return nil })
		if err != nil {
			t.Fatal(err)
		}
		for subject, e := range last {
			if strings.HasPrefix(string(e.Data), "\x00") { // it was removed
				continue
			}
			if _, err := l.Append(t.Context(), subject, []byte(entry(e.Data)), e.Seq); err != nil {
				t.Fatal(err)
			}
			wrote[name]++
		}
		if wrote[name] == 0 {
			t.Fatalf("there is nothing in the log %s", name)
		}
	}
	decisions, err := st.Bucket(t.Context(), store.BucketOptions{Name: "policy"})
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range laterDecisions {
		if _, err := decisions.Put(t.Context(), key, []byte(value), 0); err != nil {
			t.Fatal(err)
		}
	}
	return wrote
}

// laterDecisions are of a scope, and with a condition, that no release knows yet.
var laterDecisions = map[string]string{
	"0000000000000000.r_00000000000000000001": `{"id":"r_00000000000000000001","principal":"local","kind":"tool","scope":"folder","upstream":"files","approve":true,"LATER":1}`,
	"0000000000000000.r_00000000000000000002": `{"id":"r_00000000000000000002","principal":"local","kind":{"a":1},"scope":"tool","approve":true,"LATER":1}`,
}

func openStore(t *testing.T, data string) *store.Store {
	t.Helper()
	st, err := store.Open(t.Context(), store.Options{Dir: filepath.Join(data, "js")})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// countLater is how many such entries there still are.
func countLater(t *testing.T, data string) map[string]int {
	t.Helper()
	st := openStore(t, data)
	defer st.Close()
	there := map[string]int{}
	for name := range later {
		l, err := st.Log(t.Context(), store.LogOptions{Name: name, Subjects: []string{"evt." + name + ".>"}})
		if err == nil {
			err = l.Scan(t.Context(), "", 0, func(e store.Entry) error {
				if strings.Contains(string(e.Data), "LATER") {
					there[name]++
				}
				return nil
			})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	decisions, err := st.Bucket(t.Context(), store.BucketOptions{Name: "policy"})
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range laterDecisions {
		if v, err := decisions.Get(t.Context(), key); err != nil || string(v.Data) != value {
			t.Errorf("the decision %s is %q, %v", key, v.Data, err)
		}
	}
	return there
}

// What a later release has written into every session, conversation, run and task,
// and what it remembers of approvals, is kept and passed over: all the rest is as
// it was, and can be gone on with.
func TestRecordsOfALaterRelease(t *testing.T) {
	t.Parallel()
	files, l := withTools(t, oldTools)
	servers := object{"files": files}
	h := prepare(t, servers, oldSettings)
	unpack(t, filepath.Join("testdata", "folder-killed.tar.gz"), h.data)
	in := insideOf(t, "killed")
	h.launch(t)
	h.awaitTools(t, servers)
	h.kill(t)
	wrote := writeLater(t, h.data)
	h.launch(t)
	h.awaitTools(t, servers)
	h.holds(t, "with entries of a later release", in)
	h.countsDecisions(t, in, l)
	h.goesOn(t, in)
	h.holds(t, "after it went on", in)
	h.process.stopped(t)
	h.saidOnce(t)
	there := countLater(t, h.data)
	for name, n := range wrote {
		if there[name] != n {
			t.Errorf("of %d entries in the log %s there are %d", n, name, there[name])
		}
	}
	h.launch(t)
	h.awaitTools(t, servers)
	h.holds(t, "after another start", in)
}

// saidOnce holds what the log says of such entries to once a type for a start.
func (h *hub) saidOnce(t *testing.T) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(h.data, "logs", "*"))
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]int{}
	for _, path := range logs {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, "of a type that this release does not know") {
				if strings.Contains(line, "cannot be used and is skipped") || strings.Contains(line, "cannot be read") {
					t.Errorf("the log says: %s", line)
				}
				continue
			}
			var record struct{ Type string }
			if err := json.Unmarshal([]byte(line), &record); err != nil {
				t.Fatalf("%v in %s", err, line)
			}
			said[record.Type]++
		}
	}
	for _, kind := range []string{"sealed", "praised", "reaction", "annotated"} {
		if said[kind] != 1 {
			t.Errorf("of entries of the type %s the log says %d times", kind, said[kind])
		}
	}
	if !slices.ContainsFunc(slicesOf(said), func(kind string) bool { return strings.Contains(kind, `"folder"`) }) {
		t.Errorf("of decisions the log says nothing: %v", said)
	}
}

func slicesOf(said map[string]int) (all []string) {
	for kind := range said {
		all = append(all, kind)
	}
	return all
}
