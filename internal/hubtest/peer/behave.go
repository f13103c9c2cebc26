package peer

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// answer is what a behaviour has to say, before it is shaped for its method.
type answer struct {
	text       string
	structured string // raw JSON for structuredContent; none if empty
	isError    bool
}

// invoke answers the three methods that run a behaviour.
func (s *server) invoke(r *request) reply {
	b, subject, ok := s.behaviour(r)
	if !ok {
		if r.method == "resources/read" {
			return s.noResource(r)
		}
		return refuse(codeInvalidParams, nil, "%s: unknown name %q", r.method, subject)
	}
	s.journal.note("called", subject)
	a, rep := s.behave(r, b)
	if rep.none && b.Kind != Hang && r.ctx.Err() != nil && !s.down.Load() {
		s.journal.note("cancelled", subject)
	}
	if rep.result != nil || rep.err != nil || rep.none || rep.abort {
		return rep
	}
	shaped := s.complete(r, s.shape(r, a))
	switch b.Kind {
	case Partial:
		shaped.partial = true
	case Twice:
		// The second answer fails only if the stream is gone, and then so is the first.
		_ = r.send(shaped.line(r.id))
	}
	return shaped
}

// behaviour finds what the request names.
func (s *server) behaviour(r *request) (b Behaviour, subject string, ok bool) {
	switch r.method {
	case "tools/call":
		t, ok := s.tool(r.params.Name)
		return t.Behaviour, r.params.Name, ok
	case "prompts/get":
		for _, p := range s.spec.Prompts {
			if p.Name == r.params.Name {
				return p.Behaviour, p.Name, true
			}
		}
		return b, r.params.Name, false
	}
	res, ok := s.resource(r.params.URI)
	return res.Behaviour, r.params.URI, ok
}

// shape is the result object that says an answer in the words of a method.
func (s *server) shape(r *request, a answer) string {
	text := string(encode(a.text))
	switch r.method {
	case "prompts/get":
		return `{"messages":[{"role":"user","content":{"type":"text","text":` + text + `}}]}`
	case "resources/read":
		return `{"contents":[{"uri":` + string(encode(r.params.URI)) + `,"mimeType":"text/plain","text":` + text + `}]}`
	}
	out := `{"content":[{"type":"text","text":` + text + `}]`
	if a.structured != "" {
		out += `,"structuredContent":` + a.structured
	}
	if a.isError {
		out += `,"isError":true`
	}
	return out + "}"
}

// behave runs a behaviour. A reply that is not zero goes out as it is, in
// place of the answer.
func (s *server) behave(r *request, b Behaviour) (answer, reply) {
	switch b.Kind {
	case Verbatim:
		return answer{}, reply{result: []byte(b.Raw)}
	case Error:
		return answer{}, reply{err: []byte(b.Raw)}
	case Slow:
		if !wait(r.ctx.Done(), b.For) {
			return answer{}, reply{none: true}
		}
		return answer{text: "done"}, reply{}
	case Stubborn:
		wait(r.gone(), b.For)
		return answer{text: "done"}, reply{}
	case Hang:
		<-r.gone()
		return answer{}, reply{none: true}
	case Crash:
		return answer{}, reply{abort: true}
	case Progress:
		return s.progress(r, b)
	case Gate:
		if !r.modern {
			return s.gate(r)
		}
		return s.interview(r, b)
	case Compute:
		var args struct{ Seconds float64 }
		_ = json.Unmarshal(r.params.Arguments, &args) // none means at once
		if !wait(r.ctx.Done(), time.Duration(args.Seconds*float64(time.Second))) {
			return answer{}, reply{none: true}
		}
		return answer{text: "computed"}, reply{}
	case Elicit, Sample, Assisted, Roots, Multi, Survey, Visit, Pair:
		return s.interview(r, b)
	case Notify:
		return answer{text: s.grow()}, reply{}
	case Touch:
		return s.touch(r, b)
	}
	return s.tell(r, b), reply{}
}

// tell answers the behaviours that only say something.
func (s *server) tell(r *request, b Behaviour) answer {
	object := func(v any) answer { return answer{text: string(encode(v)), structured: string(encode(v))} }
	switch b.Kind {
	case Env:
		return object(environment())
	case Headers:
		return object(r.header)
	case Params:
		return answer{text: string(r.raw)}
	case Client:
		era := EraLegacy
		if r.modern {
			era = EraModern
		}
		return object(map[string]any{"era": era, "protocolVersion": r.client.version,
			"clientInfo": r.client.info, "capabilities": r.client.caps})
	case Greet:
		var args struct{ Name string }
		_ = json.Unmarshal(r.params.Arguments, &args) // a greeting of nobody shows it
		return answer{text: "Hello, " + args.Name + "!"}
	case Big:
		return answer{text: strings.Repeat("x", b.N)}
	case Count:
		s.mu.Lock()
		defer s.mu.Unlock()
		s.count++
		return answer{text: strconv.Itoa(s.count)}
	case "":
		if r.method == "resources/read" {
			res, _ := s.resource(r.params.URI)
			return answer{text: res.Text}
		}
	}
	args := string(r.params.Arguments)
	if args == "" {
		args = "{}"
	}
	return answer{text: args, structured: args}
}

func environment() map[string]any {
	env := map[string]string{}
	for _, kv := range os.Environ() {
		if k, v, _ := strings.Cut(kv, "="); k != specVar {
			env[k] = v
		}
	}
	cwd, err := os.Getwd()
	if err != nil {
		cwd = "unknown: " + err.Error()
	}
	return map[string]any{"env": env, "cwd": cwd, "pid": os.Getpid()}
}

// wait reports whether the time passed before the channel was closed.
func wait(cancelled <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-cancelled:
		return false
	}
}

// gone is closed when there is nobody left to answer: on a session that is its
// end, not the cancellation of the request.
func (r *request) gone() <-chan struct{} {
	if r.session != nil {
		return r.session.ctx.Done()
	}
	return r.ctx.Done()
}

// progress sends the notifications of a call that the client asked for.
func (s *server) progress(r *request, b Behaviour) (answer, reply) {
	token := r.params.Meta["progressToken"]
	logs := r.modern && r.params.metaString("logLevel") != "" && loggable(r.params.metaString("logLevel")) ||
		!r.modern && r.session.logs()
	for i := 1; i <= b.N; i++ {
		step := fmt.Sprintf("step %d of %d", i, b.N)
		var lines [][]byte
		if token != nil {
			lines = append(lines, notification("notifications/progress",
				map[string]any{"progressToken": json.RawMessage(token), "progress": i, "total": b.N, "message": step}))
		}
		if logs {
			lines = append(lines, notification("notifications/message",
				map[string]any{"level": "info", "logger": s.spec.Name, "data": step}))
		}
		for _, l := range lines {
			if r.send(l) != nil {
				// Nobody reads. Whether that was a cancellation is said apart
				// from it, and may come later.
				<-r.ctx.Done()
				return answer{}, reply{none: true}
			}
		}
		if b.For > 0 && !wait(r.ctx.Done(), b.For) {
			return answer{}, reply{none: true}
		}
	}
	return answer{text: "done"}, reply{}
}

// grow adds a tool to the peer's own list and says so.
func (s *server) grow() string {
	s.mu.Lock()
	s.extra++
	name := fmt.Sprintf("extra_%d", s.extra)
	s.tools = append(s.tools, Tool{Name: name})
	s.mu.Unlock()
	s.announce(change{list: "tools"})
	return name
}

func (s *server) touch(r *request, b Behaviour) (answer, reply) {
	var args struct {
		URI string `json:"uri"`
	}
	uri := b.URI
	if json.Unmarshal(r.params.Arguments, &args) == nil && args.URI != "" {
		uri = args.URI
	}
	if _, ok := s.resource(uri); !ok {
		return answer{text: fmt.Sprintf("no resource %q to touch", uri), isError: true}, reply{}
	}
	s.mu.Lock()
	s.versions[uri]++
	v := s.versions[uri]
	s.mu.Unlock()
	s.announce(change{list: "resources", uri: uri})
	return answer{text: fmt.Sprintf("version %d", v)}, reply{}
}
