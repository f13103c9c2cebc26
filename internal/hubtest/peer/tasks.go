package peer

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"maps"
	"sync"
	"time"
)

// Task says whether a tool of a modern peer is run as a task of the extension,
// for clients that declare it.
type Task string

// When a call becomes a task; the zero value is never.
const (
	TaskOptional Task = "optional" // others get the plain call
	TaskRequired Task = "required" // others are refused
	TaskLast     Task = "last"     // as required, but questions are asked before
)

const tasksExtension = metaPrefix + "tasks"

// serverTask is one task of a peer.
type serverTask struct {
	id      string
	made    time.Time
	cancel  context.CancelFunc
	answers chan struct{} // holds a token when answers came

	mu       sync.Mutex
	status   string
	changed  time.Time
	requests map[string]json.RawMessage // open
	given    map[string]json.RawMessage
	result   json.RawMessage
	err      json.RawMessage
}

func (c client) tasks() bool {
	var ext map[string]json.RawMessage
	return json.Unmarshal(c.caps["extensions"], &ext) == nil && ext[tasksExtension] != nil
}

func needTasks(method string) reply {
	return refuse(codeNeedCapability, map[string]any{"requiredCapabilities": map[string]any{"extensions": map[string]any{tasksExtension: map[string]any{}}}},
		"%s needs the extension %s", method, tasksExtension)
}

// taskCall answers tools/call of a tool that runs as a task. It reports false
// if the call is a plain one.
func (s *server) taskCall(r *request) (reply, bool) {
	t, ok := s.tool(r.params.Name)
	if r.method != "tools/call" || !ok || t.Task == "" || !r.modern {
		return reply{}, false
	}
	if !r.client.tasks() {
		return needTasks(t.Name), t.Task != TaskOptional
	}
	if t.Task == TaskLast {
		if _, rep := s.nextRound(r, rounds(r, t.Behaviour)); rep != nil {
			return *rep, true
		}
	}
	// A stop of the peer ends it, the end of the request does not.
	ctx, cancel := context.WithCancel(s.life)
	now := time.Now()
	st := &serverTask{id: rand.Text(), made: now, changed: now, cancel: cancel, answers: make(chan struct{}, 1), status: "working"}
	s.mu.Lock()
	s.tasks[st.id] = st
	s.mu.Unlock()
	own := *r
	own.ctx, own.send = ctx, func([]byte) error { return nil }
	s.journal.note("called", t.Name)
	s.wg.Go(func() {
		defer cancel()
		s.runTask(&own, t.Behaviour, st)
	})
	return reply{result: merge(`{"resultType":"task"}`, string(encode(st.head())))}, true
}

// runTask runs a behaviour to its end, asking on the way.
func (s *server) runTask(r *request, b Behaviour, st *serverTask) {
	for {
		a, rep := s.behave(r, b)
		switch {
		case rep.none || rep.abort:
			s.journal.note("cancelled", r.params.Name)
			return
		case rep.err != nil:
			s.settle(st, "failed", nil, rep.err)
			return
		case rep.result == nil:
			s.settle(st, "completed", s.complete(r, s.shape(r, a)).result, nil)
			return
		}
		var demand struct {
			ResultType    string
			InputRequests map[string]json.RawMessage
			RequestState  string
		}
		if json.Unmarshal(rep.result, &demand) != nil || demand.ResultType != "input_required" {
			s.settle(st, "completed", rep.result, nil)
			return
		}
		given, ok := s.askTask(r.ctx, st, demand.InputRequests)
		if !ok {
			return
		}
		r.params.InputResponses, r.params.RequestState = given, demand.RequestState
	}
}

// askTask waits until all is answered; it reports false if the task ended.
func (s *server) askTask(ctx context.Context, st *serverTask, requests map[string]json.RawMessage) (map[string]json.RawMessage, bool) {
	st.mu.Lock()
	if st.status == "cancelled" {
		st.mu.Unlock()
		return nil, false
	}
	st.status, st.requests, st.given, st.changed = "input_required", maps.Clone(requests), map[string]json.RawMessage{}, time.Now()
	st.mu.Unlock()
	s.tellTask(st)
	for {
		select {
		case <-ctx.Done():
			return nil, false
		case <-st.answers:
		}
		st.mu.Lock()
		left, given := len(st.requests), st.given
		if left == 0 {
			st.status, st.changed = "working", time.Now()
		}
		st.mu.Unlock()
		if left == 0 {
			s.tellTask(st)
			return given, true
		}
	}
}

// settle ends a task, unless it has ended.
func (s *server) settle(st *serverTask, status string, result, err []byte) {
	st.mu.Lock()
	over := st.status == "cancelled" || st.status == "completed" || st.status == "failed"
	if !over {
		st.status, st.result, st.err, st.requests, st.changed = status, result, err, nil, time.Now()
	}
	st.mu.Unlock()
	if !over {
		s.tellTask(st)
	}
}

func (s *server) tellTask(st *serverTask) { s.announce(change{task: st.id, detail: st.detail()}) }

// head is what every mention of a task says of it.
func (st *serverTask) head() map[string]any {
	st.mu.Lock()
	defer st.mu.Unlock()
	return map[string]any{"taskId": st.id, "status": st.status, "createdAt": st.made.UTC().Format(time.RFC3339Nano),
		"lastUpdatedAt": st.changed.UTC().Format(time.RFC3339Nano), "ttlMs": 600_000, "pollIntervalMs": 100}
}

// detail is all that is known of a task.
func (st *serverTask) detail() map[string]any {
	all := st.head()
	st.mu.Lock()
	defer st.mu.Unlock()
	switch st.status {
	case "input_required":
		all["inputRequests"] = maps.Clone(st.requests)
	case "completed":
		all["result"] = st.result
	case "failed":
		all["error"] = st.err
	}
	return all
}

// handleTask answers tasks/get, tasks/update and tasks/cancel.
func (s *server) handleTask(r *request) reply {
	if !r.client.tasks() {
		return needTasks(r.method)
	}
	s.mu.Lock()
	st := s.tasks[r.params.TaskID]
	s.mu.Unlock()
	if st == nil {
		return refuse(codeInvalidParams, nil, "there is no task %q", r.params.TaskID)
	}
	switch r.method {
	case "tasks/get":
		return reply{result: merge(`{"resultType":"complete"}`, string(encode(st.detail())))}
	case "tasks/cancel":
		s.settle(st, "cancelled", nil, nil)
		st.cancel()
	case "tasks/update":
		st.mu.Lock()
		for key, answer := range r.params.InputResponses {
			if st.requests[key] != nil {
				delete(st.requests, key)
				st.given[key] = answer
			}
		}
		st.mu.Unlock()
		select {
		case st.answers <- struct{}{}:
		default:
		}
	}
	return reply{result: []byte(`{"resultType":"complete"}`)}
}

// hasTasks reports whether some tool runs as a task.
func (s *server) hasTasks() bool {
	for _, t := range s.spec.Tools {
		if t.Task != "" {
			return true
		}
	}
	return false
}
