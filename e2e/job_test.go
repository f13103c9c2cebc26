package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// job is what client.mjs is told to do; target and steps are the parts that tests vary.
type job struct {
	SDK     string `json:"sdk"`
	Mode    string `json:"mode"`
	Version string `json:"version,omitempty"` // asked for by v1; its newest if empty
	target
	Elicit map[string]any   `json:"elicit"`
	Sample string           `json:"sample"`
	Roots  []map[string]any `json:"roots"`
	Steps  []step           `json:"steps"`
}

// target is where a client connects to: a URL or a command.
type target struct {
	URL     string            `json:"url,omitempty"`
	Command string            `json:"command,omitempty"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

type step struct {
	Op         string         `json:"op"`
	Params     map[string]any `json:"params,omitempty"`
	Progress   bool           `json:"progress,omitempty"`
	Names      []string       `json:"names,omitempty"`
	DeadlineMs int64          `json:"deadlineMs,omitempty"`
}

type report struct {
	Version string    `json:"version"`
	Steps   []outcome `json:"steps"`
}

// outcome is what the client saw of one step.
type outcome struct {
	Result json.RawMessage `json:"result"`
	Error  *rpcError       `json:"error"`
	Seen   []sighting      `json:"seen"`
}

type rpcError struct {
	Code    any    `json:"code"` // a number on the wire, but SDKs have string codes for faults of their own
	Message string `json:"message"`
}

// sighting is a notification or a request that arrived while a step ran.
type sighting struct {
	Kind     string  `json:"kind"`
	Method   string  `json:"method,omitempty"`
	Message  string  `json:"message,omitempty"`
	Progress float64 `json:"progress,omitempty"`
	Total    float64 `json:"total,omitempty"`
}

// expectation is one step and the judgement on its outcome.
type expectation struct {
	what  string
	step  step
	check func(t *testing.T, o outcome)
}

// dialect is a client: an SDK, how it negotiates, and the version it must end up with.
type dialect struct {
	name, sdk, mode, version string
	pinned                   string // the version that it asks for, where that is not its newest
}

var dialects = []dialect{
	{name: "v1", sdk: "v1", mode: "legacy", version: legacy},
	{name: "v2-legacy", sdk: "v2", mode: "legacy", version: legacy},
	{name: "v2-auto", sdk: "v2", mode: "auto", version: modern},
}

// perform connects as the dialect, runs the steps in one connection and judges each.
func perform(t *testing.T, set toolset, d dialect, to target, expected []expectation) {
	t.Helper()
	j := job{
		SDK: d.sdk, Mode: d.mode, Version: d.pinned, target: to,
		Elicit: map[string]any{"username": "ada", "name": "Ada"},
		Sample: "forty-two",
		Roots:  []map[string]any{{"uri": "file:///colonnade", "name": "colonnade"}},
	}
	for _, e := range expected {
		j.Steps = append(j.Steps, e.step)
	}
	var r report
	set.script(t, nil, "client.mjs", j, &r)
	if r.Version != d.version {
		t.Errorf("negotiated %q, want %q", r.Version, d.version)
	}
	if len(r.Steps) != len(expected) {
		t.Fatalf("the client reports %d steps, want %d", len(r.Steps), len(expected))
	}
	for i, e := range expected {
		t.Run(e.what, func(t *testing.T) {
			e.check(t, r.Steps[i])
			if t.Failed() {
				t.Logf("outcome: error %+v, seen %+v, result %.2000s", r.Steps[i].Error, r.Steps[i].Seen, r.Steps[i].Result)
			}
		})
	}
}

func call(name string, arguments map[string]any) step {
	if arguments == nil {
		arguments = map[string]any{}
	}
	return step{Op: "call", Params: map[string]any{"name": name, "arguments": arguments}}
}

// listDeadline bounds waiting for a tool to be listed. It is well below peerDeadline, so that the client can report.
const listDeadline = 90 * time.Second

func awaitTools(names ...string) step {
	return step{Op: "awaitTools", Names: names, DeadlineMs: listDeadline.Milliseconds()}
}

func read(uri string) step { return step{Op: "read", Params: map[string]any{"uri": uri}} }

func prompt(name string, arguments map[string]any) step {
	return step{Op: "prompt", Params: map[string]any{"name": name, "arguments": arguments}}
}

// decode reads a successful outcome into v.
func decode(t *testing.T, o outcome, v any) {
	t.Helper()
	if o.Error != nil {
		t.Fatalf("error %v: %s", o.Error.Code, o.Error.Message)
	}
	if err := json.Unmarshal(o.Result, v); err != nil {
		t.Fatal(err)
	}
}

type toolResult struct {
	Content           []struct{ Type, Text string }
	IsError           bool
	StructuredContent json.RawMessage
}

func (r toolResult) text() string {
	var texts []string
	for _, block := range r.Content {
		texts = append(texts, block.Text)
	}
	return strings.Join(texts, "\n")
}

// saysText wants a tool's good result that is this text.
func saysText(want string) func(*testing.T, outcome) {
	return func(t *testing.T, o outcome) {
		var r toolResult
		decode(t, o, &r)
		if r.IsError || r.text() != want {
			t.Errorf("isError %v, text %q; want %q", r.IsError, r.text(), want)
		}
	}
}

// mentions wants a tool's good result with this text somewhere.
func mentions(want string) func(*testing.T, outcome) {
	return func(t *testing.T, o outcome) {
		var r toolResult
		decode(t, o, &r)
		if r.IsError || !strings.Contains(r.text(), want) {
			t.Errorf("isError %v, text %q; want it to mention %q", r.IsError, r.text(), want)
		}
	}
}

// toolFails wants a result with isError: the tool said no, and the protocol did its work.
func toolFails(t *testing.T, o outcome) {
	var r toolResult
	decode(t, o, &r)
	if !r.IsError || r.text() == "" {
		t.Errorf("isError %v, text %q; want an error that says why", r.IsError, r.text())
	}
}

// fails wants a protocol error with this code. Where an answer has the HTTP status 404, as the modern era wants for an
// unknown method, the v2 SDK reports a code of its own and quotes the answer; then the quoted one counts.
func fails(code int) func(*testing.T, outcome) {
	return func(t *testing.T, o outcome) {
		if o.Error == nil {
			t.Fatalf("no error; want code %d", code)
		}
		right := false
		switch got := o.Error.Code.(type) {
		case float64:
			right = int(got) == code && o.Error.Message != ""
		case string:
			_, quoted, _ := strings.Cut(o.Error.Message, "{")
			var answer struct{ Error struct{ Code int } }
			right = json.Unmarshal([]byte("{"+quoted), &answer) == nil && answer.Error.Code == code
		}
		if !right {
			t.Errorf("error %v: %q; want code %d and a message", o.Error.Code, o.Error.Message, code)
		}
	}
}

// reads wants one content of a resource, unchanged.
func reads(uri, mention string) func(*testing.T, outcome) {
	return func(t *testing.T, o outcome) {
		var r struct{ Contents []struct{ URI, Text string } }
		decode(t, o, &r)
		if len(r.Contents) != 1 || r.Contents[0].URI != uri || !strings.Contains(r.Contents[0].Text, mention) {
			t.Errorf("contents %+v; want one of %s that mentions %q", r.Contents, uri, mention)
		}
	}
}

// prompts wants one message that mentions the text.
func prompts(mention string) func(*testing.T, outcome) {
	return func(t *testing.T, o outcome) {
		var r struct {
			Messages []struct{ Content struct{ Text string } }
		}
		decode(t, o, &r)
		if len(r.Messages) != 1 || !strings.Contains(r.Messages[0].Content.Text, mention) {
			t.Errorf("messages %+v; want one that mentions %q", r.Messages, mention)
		}
	}
}

// lists wants these values of key among the entries of a list.
func lists(member, key string, want ...string) func(*testing.T, outcome) {
	return func(t *testing.T, o outcome) {
		got := listed(t, o, member, key)
		for _, w := range want {
			if !slices.Contains(got, w) {
				t.Errorf("%s has no %s %q: %q", member, key, w, got)
			}
		}
	}
}

func listed(t *testing.T, o outcome, member, key string) []string {
	t.Helper()
	var r map[string]json.RawMessage
	decode(t, o, &r)
	var entries []map[string]any
	if err := json.Unmarshal(r[member], &entries); err != nil {
		t.Fatalf("%s: %v", member, err)
	}
	var values []string
	for _, entry := range entries {
		value, _ := entry[key].(string)
		values = append(values, value)
	}
	return values
}

// saw wants exactly these arrivals, in this order, before the result that check judges.
func saw(want []sighting, check func(*testing.T, outcome)) func(*testing.T, outcome) {
	return func(t *testing.T, o outcome) {
		check(t, o)
		if diff := cmp.Diff(want, related(o.Seen, want)); diff != "" {
			t.Errorf("arrived while the call ran (-want +got):\n%s", diff)
		}
	}
}

// related leaves out questions for roots that nobody waits for, and logs where none is wanted: the published everything
// server asks some time after it was initialised and logs what it was told, whatever else is going on.
func related(seen, want []sighting) []sighting {
	logs := slices.ContainsFunc(want, func(s sighting) bool { return s.Kind == "log" })
	return slices.DeleteFunc(slices.Clone(seen), func(s sighting) bool {
		return s.Method == "roots/list" && !slices.Contains(want, s) || s.Kind == "log" && !logs
	})
}

// sawFirst is saw for a server whose notifications and answer may all come in one read, as they do on a busy machine: the
// TypeScript clients drop what they have read but not looked at when they look at the answer, hub or no hub. The rest
// comes in order, from the first on. TestOrder looks at the wire instead.
func sawFirst(want []sighting, check func(*testing.T, outcome)) func(*testing.T, outcome) {
	return func(t *testing.T, o outcome) {
		saw(want[:min(len(related(o.Seen, want)), len(want))], check)(t, o)
	}
}

func progress(total float64, message func(float64) string, values ...float64) []sighting {
	var all []sighting
	for _, value := range values {
		all = append(all, sighting{Kind: "progress", Progress: value, Total: total, Message: message(value)})
	}
	return all
}
