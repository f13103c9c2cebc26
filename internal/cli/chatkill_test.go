package cli

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/await"
	"github.com/stoahub/stoa/internal/hubtest/peer"
	"github.com/stoahub/stoa/internal/llm/llmtest"
	"github.com/stoahub/stoa/internal/store/storetest"
)

// mortal is a `stoa serve` that is killed and started again, with models of all
// four providers and one server, which outlive it.
type mortal struct {
	t    *testing.T
	data string
	conf string
	web  *peer.HTTPServer
	cmd  *exec.Cmd

	ids    atomic.Int64
	phases sync.Map // what talkers see: a talker to a moment
}

// A moment is when a hub is killed.
type moment int

const (
	otherwise moment = iota
	streaming        // the model speaks
	calling          // a tool runs
	asking           // somebody is asked
	queueing         // inputs wait
)

func (m moment) String() string {
	return []string{"otherwise", "while the model speaks", "while a tool runs", "while somebody is asked", "while inputs wait"}[m]
}

func newMortal(t *testing.T, f storetest.Form) *mortal {
	dir := t.TempDir()
	m := &mortal{t: t, data: filepath.Join(dir, "data"), conf: filepath.Join(dir, "stoa.jsonc")}
	compute := peer.Behaviour{Kind: peer.Compute}
	m.web = peer.Serve(t, peer.Spec{Tools: []peer.Tool{
		{Name: "read", Behaviour: compute, RawDefinition: `{"name":"read","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`},
		{Name: "write", Behaviour: compute, RawDefinition: `{"name":"write","inputSchema":{"type":"object"}}`},
	}})
	models, agents := map[string]any{}, map[string]any{}
	for _, api := range llmtest.APIs() {
		fake := httptest.NewServer(llmtest.NewFake(t, api, func(_ int, a llmtest.Asked) llmtest.Reply { return m.reply(api, a.Body) }))
		t.Cleanup(fake.Close)
		models[api.Name] = map[string]any{"provider": api.Name, "model": "test-model", "baseUrl": fake.URL, "apiKey": llmtest.Key, "maxTokenCount": 10_000_000}
		agents["by-"+api.Name] = map[string]any{"model": api.Name, "description": "Asks " + api.Name + ".", "listed": false}
	}
	kept := map[string]any{}
	if f.Options.URL != "" {
		kept["url"], kept["replicas"] = f.Options.URL, max(f.Options.Replicas, 1)
	}
	text, err := json.Marshal(map[string]any{"stoa": 1, "store": kept, "servers": map[string]any{"up": map[string]any{"url": m.web.URL}}, "models": models, "agents": agents,
		"chat": map[string]any{"tools": []string{"up__*"}, "maxHistoryLength": 1000}})
	if err == nil {
		err = os.WriteFile(m.conf, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	m.start()
	t.Cleanup(func() {
		m.kill()
		if t.Failed() {
			t.Logf("the hubs say:\n%.6000s", m.said())
		}
	})
	return m
}

func (m *mortal) start() {
	m.t.Helper()
	log, err := os.OpenFile(filepath.Join(filepath.Dir(m.data), "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		m.t.Fatal(err)
	}
	defer log.Close()
	m.cmd = exec.Command("stoa", "serve", "--config", m.conf, "--data", m.data, "--listen", "127.0.0.1:0")
	m.cmd.Env = append(os.Environ(), "HOME="+filepath.Dir(m.data), "GORACE=atexit_sleep_ms=0")
	m.cmd.Stderr = log
	if err := m.cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	await.NoError(m.t, "the hub starts", func() error {
		if note := noted(m.data); note == nil || note.Pid != m.cmd.Process.Pid {
			return fmt.Errorf("it is not there; it says %.2000s", m.said())
		}
		return nil
	})
}

func (m *mortal) kill() {
	_ = m.cmd.Process.Signal(syscall.SIGKILL)
	_ = m.cmd.Wait() // it was killed
}

func (m *mortal) said() string {
	b, _ := os.ReadFile(filepath.Join(filepath.Dir(m.data), "log"))
	return string(b)
}

// The words of a message say which calls the model is to make: TASK{n7 rw} a
// read and a write.
func task(name, calls string) string { return "TASK{" + name + " " + calls + "}" }

// reply is what the model answers: the calls that it was told to make, and when
// it has their results, words.
func (m *mortal) reply(api llmtest.API, body []byte) llmtest.Reply {
	text := string(body)
	rest := text[strings.LastIndex(text, "TASK{")+len("TASK{"):]
	name, rest, _ := strings.Cut(rest, " ")
	calls, _, _ := strings.Cut(rest, "}")
	said := llmtest.Said{Input: 10, Output: 10}
	if lastIsResult(body) {
		said.Text = pieces("All of " + name + " is done, as far as I can see; now let us talk of something else.")
	} else {
		said.Text = pieces("I shall do " + name + ", as you have told me to, and then tell you of it.")
		for i, c := range calls {
			tool := map[rune]string{'r': "up__read", 'w': "up__write"}[c]
			args := fmt.Sprintf(`{"name":"%s.%d.","seconds":%.3f}`, name, i, rand.Float64()/10)
			said.Calls = append(said.Calls, llmtest.Called{ID: fmt.Sprintf("call_%d", m.ids.Add(1)), Name: tool, Args: []string{args}})
		}
	}
	r := api.Answer(said)
	r.Pace = 4 * time.Millisecond
	return r
}

// lastIsResult reports whether a request ends with results of tools, whatever
// the protocol.
func lastIsResult(body []byte) bool {
	var b struct {
		Messages []json.RawMessage `json:"messages"`
		Contents []json.RawMessage `json:"contents"`
	}
	if json.Unmarshal(body, &b) != nil {
		return false
	}
	all := append(b.Messages, b.Contents...)
	if len(all) == 0 {
		return false
	}
	last := string(all[len(all)-1])
	return strings.Contains(last, `"role":"tool"`) || strings.Contains(last, `"tool_result"`) || strings.Contains(last, `"functionResponse"`)
}

func pieces(text string) (list []string) {
	for len(text) > 0 {
		n := min(len(text), 1+rand.IntN(8))
		list, text = append(list, text[:n]), text[n:]
	}
	return list
}

// reached counts how often the server was sent a call.
func (m *mortal) reached() map[string]int {
	n := map[string]int{}
	for _, r := range m.web.Requests() {
		if r.Method != "tools/call" {
			continue
		}
		_, rest, _ := strings.Cut(string(r.Body), `"name":"n`)
		name, _, _ := strings.Cut(rest, `"`)
		n["n"+name]++
	}
	return n
}

// TestKilledChat kills a hub, again and again, in the midst of turns. Whoever
// comes back finds a record that is true: nothing that was acknowledged or seen
// as durable is missing, what was called has a result, which for a call that
// the kill cut off says that its outcome is not known, no call reaches its
// server twice, and inputs that waited are answered. The fakes hold what every
// provider is sent afterwards to its rules.
func TestKilledChat(t *testing.T) {
	killedChat(t, storetest.Folder(), soak(6, 300), soak(3, 4))
}

// The same on a server and on a cluster of three, where what leads the log of
// the conversations is killed too.
func TestKilledChatOnAServer(t *testing.T) {
	t.Parallel() // it waits more than it computes
	killedChat(t, storetest.OnServer(t), soak(2, 100), soak(2, 4))
}

func TestKilledChatOnACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("a cluster takes a while")
	}
	t.Parallel()
	killedChat(t, storetest.OnCluster(t), soak(2, 100), soak(2, 4))
}

// soak chooses the long form of a test.
func soak(short, long int) int {
	if os.Getenv("STOA_SOAK") == "1" {
		return long
	}
	return short
}

func killedChat(t *testing.T, f storetest.Form, kills, talkers int) {
	m := newMortal(t, f)
	seed := uint64(time.Now().UnixNano())
	t.Log("seed", seed)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var all tally
	for i := range talkers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(seed, uint64(i)))
			for n := 0; !ended(stop) && !t.Failed() || n == 0; n++ {
				k := newTalker(m, fmt.Sprintf("s%d-%d", i, n), rnd)
				if err := k.run(stop); err != nil {
					t.Errorf("%s: %v", k.session, err)
					return
				}
				if err := k.check(&all); err != nil {
					t.Errorf("%s: %v", k.session, err)
				}
			}
		})
	}
	rnd := rand.New(rand.NewPCG(seed, 99))
	for i := 0; i < kills && !t.Failed(); i++ {
		m.waitFor(streaming + moment(i%4))
		<-time.After(time.Duration(rnd.IntN(15)) * time.Millisecond)
		m.killWith(f, i)
	}
	close(stop)
	wg.Wait()
	t.Logf("%d kills; %s", kills, &all)
	if all.interrupted == 0 {
		t.Error("no turn was cut off")
	}
	if said := m.said(); strings.Contains(said, "panic") || strings.Contains(said, "DATA RACE") || strings.Contains(said, "damaged") {
		t.Errorf("the hubs say %s", said)
	}
	if os.Getenv("STOA_SOAK") == "1" {
		for at := streaming; at <= queueing; at++ {
			if all.cut[at] == 0 {
				t.Errorf("no turn was cut off %s", at)
			}
		}
	}
}

// killWith kills the hub, and every other time what leads the log of the
// conversations: with the hub, or alone where the store goes on without it.
func (m *mortal) killWith(f storetest.Form, i int) {
	leader := f.Kill != nil && i%2 == 0
	hub := !leader || !f.GoesOn || i%4 == 2
	mend := func() {}
	if leader {
		mend = f.Kill(m.t, "chat")
	}
	if hub {
		m.kill()
	}
	mend() // first: a hub does not start without its store
	if hub {
		m.start()
	}
}

func ended(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// waitFor waits until some talker is at a moment.
func (m *mortal) waitFor(at moment) {
	m.t.Helper()
	await.NoError(m.t, "it comes to a kill "+at.String(), func() error {
		found := m.t.Failed()
		m.phases.Range(func(_, v any) bool {
			found = found || v.(map[moment]bool)[at]
			return !found
		})
		if !found {
			return fmt.Errorf("it does not")
		}
		return nil
	})
}
