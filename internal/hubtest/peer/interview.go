package peer

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// question is one thing a behaviour asks of the client.
type question struct {
	key        string // its name among inputRequests
	method     string
	capability string
	params     []byte
	follow     func(answers []json.RawMessage) []byte // makes the params of the answers so far; nil leaves them
	visit      string                                 // the elicitationId of one that names an address
}

// asks returns the params of the question after the answers so far.
func (q question) asks(answers []json.RawMessage) []byte {
	if q.follow == nil {
		return q.params
	}
	return q.follow(answers)
}

// supports reports whether the client can be asked the question.
func (c client) supports(q question) bool {
	declared := c.caps[q.capability]
	if declared == nil || q.visit == "" {
		return declared != nil
	}
	var modes struct {
		URL json.RawMessage `json:"url"`
	}
	return json.Unmarshal(declared, &modes) == nil && modes.URL != nil
}

// address is where Visit and Gate send the user.
const address = "https://login.example/"

// visit is the question that sends the user to an address. Only the legacy
// era knows an elicitationId.
func visit(r *request) question {
	q := question{key: "visit", method: "elicitation/create", capability: "elicitation", visit: "visit-" + strings.Trim(string(r.id), `"`)}
	p := map[string]any{"mode": "url", "url": address, "message": "Please log in"}
	if !r.modern {
		p["elicitationId"] = q.visit
	}
	q.params = encode(p)
	return q
}

// gate lets a legacy client in that was sent to the address before.
func (s *server) gate(r *request) (answer, reply) {
	key := string(r.params.Arguments)
	s.mu.Lock()
	was := s.gated[key]
	s.gated[key] = !was
	s.mu.Unlock()
	if was {
		return answer{text: "welcome"}, reply{}
	}
	return answer{}, refuse(codeVisitFirst, map[string]any{"elicitations": []json.RawMessage{visit(r).params}}, "log in first")
}

// rounds are the questions of a behaviour, one slice per round trip.
func rounds(r *request, b Behaviour) [][]question {
	elicit := func(key string) question {
		var args struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(r.params.Arguments, &args) != nil || args.Message == "" {
			args.Message = "What is your name?"
		}
		form := json.RawMessage(`{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`)
		if b.Kind == Elicit && b.Raw != "" {
			form = json.RawMessage(b.Raw)
		}
		p := map[string]any{"message": args.Message, "requestedSchema": form}
		if r.client.version >= Legacy {
			p["mode"] = "form"
		}
		return question{key: key, method: "elicitation/create", capability: "elicitation", params: encode(p)}
	}
	sample := question{key: "sample", method: "sampling/createMessage", capability: "sampling", params: []byte(
		`{"messages":[{"role":"user","content":{"type":"text","text":"Say hello"}}],"maxTokens":16}`)}
	switch b.Kind {
	case Sample:
		if b.Raw != "" {
			sample.params = []byte(b.Raw)
		}
		return [][]question{{sample}}
	case Assisted:
		sample.params = encode(sum(nil))
		again := sample
		again.key, again.follow = "again", func(answers []json.RawMessage) []byte { return encode(sum(answers)) }
		return [][]question{{sample}, {again}}
	case Roots:
		return [][]question{{{key: "roots", method: "roots/list", capability: "roots", params: []byte("{}")}}}
	case Visit, Gate:
		return [][]question{{visit(r)}}
	case Pair:
		return [][]question{{elicit("first"), elicit("second")}}
	case Survey:
		return [][]question{{elicit("elicit"), sample}}
	case Multi:
		n := b.N
		if n == 0 {
			n = 3
		}
		var rs [][]question
		for i := range n {
			rs = append(rs, []question{elicit("round-" + strconv.Itoa(i+1))})
		}
		return rs
	}
	return [][]question{{elicit("elicit")}}
}

// sum are the params by which a model is asked for a sum, with a tool that
// adds; answers are what it said before.
func sum(answers []json.RawMessage) map[string]any {
	messages := []any{map[string]any{"role": "user", "content": map[string]any{"type": "text", "text": "call add {\"a\":1,\"b\":2}"}}}
	for _, a := range answers {
		var said struct {
			Content json.RawMessage `json:"content"`
		}
		var uses []struct {
			Type string `json:"type"`
			ID   string `json:"id"`
		}
		if json.Unmarshal(a, &said) != nil || json.Unmarshal(said.Content, &uses) != nil {
			break // it used no tool: it is asked the same again
		}
		results := []any{}
		for _, u := range uses {
			if u.Type == "tool_use" {
				results = append(results, map[string]any{"type": "tool_result", "toolUseId": u.ID, "content": []any{map[string]any{"type": "text", "text": "3"}}})
			}
		}
		messages = append(messages, map[string]any{"role": "assistant", "content": said.Content}, map[string]any{"role": "user", "content": results})
	}
	return map[string]any{"messages": messages, "maxTokens": 100, "toolChoice": map[string]any{"mode": "auto"},
		"tools": []any{map[string]any{"name": "add", "description": "Adds two numbers", "inputSchema": json.RawMessage(
			`{"type":"object","properties":{"a":{"type":"number"},"b":{"type":"number"}},"required":["a","b"]}`)}}}
}

// interview asks its questions in the way of the client's era. The answer is
// the same in both: the client's raw result, or an array of them.
func (s *server) interview(r *request, b Behaviour) (answer, reply) {
	rs := rounds(r, b)
	for _, qs := range rs {
		for _, q := range qs {
			if r.client.supports(q) {
				continue
			}
			if r.modern {
				return answer{}, refuse(codeNeedCapability,
					map[string]any{"requiredCapabilities": map[string]any{q.capability: map[string]any{}}},
					"%s needs the client capability %s", r.params.Name, q.capability)
			}
			return answer{text: "the client does not support " + q.capability, isError: true}, reply{}
		}
	}
	var got []json.RawMessage
	if r.modern {
		var rep *reply
		if got, rep = s.nextRound(r, rs); rep != nil {
			return answer{}, *rep
		}
	} else if b.Kind == Pair {
		var rep reply
		if got, rep = r.together(rs[0]); rep.none {
			return answer{}, rep
		}
	} else {
		for _, qs := range rs {
			for _, q := range qs {
				m, err := r.session.calls.ask(r.ctx, r.send, q.method, q.asks(got))
				if err != nil {
					return answer{}, reply{none: true}
				}
				if m.Error != nil {
					return answer{text: string(m.Error), isError: true}, reply{}
				}
				got = append(got, m.Result)
				if q.visit != "" {
					// Whoever went there need not come back by itself. A stream
					// that broke is noticed by the answer.
					_ = r.send(notification("notifications/elicitation/complete", map[string]any{"elicitationId": q.visit}))
				}
			}
		}
	}
	if b.For > 0 && !wait(r.ctx.Done(), b.For) {
		return answer{}, reply{none: true}
	}
	if b.Kind != Multi && len(got) == 1 {
		return answer{text: string(got[0])}, reply{}
	}
	return answer{text: string(encode(got))}, reply{}
}

// together puts questions to a legacy client at once.
func (r *request) together(qs []question) ([]json.RawMessage, reply) {
	got := make([]json.RawMessage, len(qs))
	var wg sync.WaitGroup
	for i, q := range qs {
		wg.Go(func() {
			if m, err := r.session.calls.ask(r.ctx, r.send, q.method, q.params); err == nil {
				got[i] = m.Result
			}
		})
	}
	wg.Wait()
	return got, reply{none: slices.ContainsFunc(got, func(g json.RawMessage) bool { return g == nil })}
}

// progressState is what a modern interview keeps in requestState between its
// rounds, bound to the request it belongs to.
type progressState struct {
	Request string // digest of method, name and arguments
	Round   int
	Answers []json.RawMessage
}

// nextRound takes in the answers of one round and asks those of the next; a
// nil reply means that all are there.
func (s *server) nextRound(r *request, rs [][]question) ([]json.RawMessage, *reply) {
	digest := sha256.Sum256(encode([]string{r.method, r.params.Name, r.params.URI, string(r.params.Arguments)}))
	st := progressState{Request: base64.StdEncoding.EncodeToString(digest[:])}
	if r.params.RequestState != "" {
		kept, ok := openState(r.params.RequestState)
		if !ok || kept.Request != st.Request {
			rep := refuse(codeInvalidParams, nil, "requestState was not made for this request: send it unchanged with the same params")
			return nil, &rep
		}
		st = kept
		if answers, ok := collect(rs[st.Round], r.params.InputResponses); ok {
			st.Answers = append(st.Answers, answers...)
			st.Round++
		}
	} else if r.params.InputResponses != nil {
		rep := refuse(codeInvalidParams, nil, "inputResponses without requestState: send both")
		return nil, &rep
	}
	if st.Round == len(rs) {
		return st.Answers, nil
	}
	ask := map[string]any{}
	for _, q := range rs[st.Round] {
		ask[q.key] = map[string]any{"method": q.method, "params": json.RawMessage(q.asks(st.Answers))}
	}
	return nil, &reply{result: encode(map[string]any{
		"resultType": "input_required", "inputRequests": ask, "requestState": sealState(st),
		"_meta": map[string]any{metaPrefix + "serverInfo": s.info()}})}
}

func collect(qs []question, responses map[string]json.RawMessage) ([]json.RawMessage, bool) {
	var got []json.RawMessage
	for _, q := range qs {
		a := responses[q.key]
		if a == nil {
			return nil, false
		}
		got = append(got, a)
	}
	return got, true
}

// The key is the same in every process: a modern request may be answered by
// any instance of a server, also by one started since.
var stateKey = []byte("peer request state")

func sealState(st progressState) string {
	body := base64.RawURLEncoding.EncodeToString(encode(st))
	return body + "." + base64.RawURLEncoding.EncodeToString(mac(body))
}

func openState(s string) (st progressState, ok bool) {
	body, tag, _ := strings.Cut(s, ".")
	sum, err := base64.RawURLEncoding.DecodeString(tag)
	if err != nil || !hmac.Equal(sum, mac(body)) {
		return st, false
	}
	b, err := base64.RawURLEncoding.DecodeString(body)
	return st, err == nil && json.Unmarshal(b, &st) == nil
}

func mac(body string) []byte {
	h := hmac.New(sha256.New, stateKey)
	h.Write([]byte(body))
	return h.Sum(nil)
}
