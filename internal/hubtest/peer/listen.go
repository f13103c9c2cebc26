package peer

import (
	"encoding/json"
	"maps"
	"slices"
)

// change is something that listeners may want to hear of.
type change struct {
	list string // "tools", "prompts" or "resources"
	uri  string // the resource that was updated; empty if the list changed
	// task is the one that changed, and detail how it stands; list is empty then.
	task   string
	detail map[string]any
}

func (c change) method() string {
	if c.uri != "" {
		return "notifications/resources/updated"
	}
	if c.task != "" {
		return "notifications/tasks"
	}
	return "notifications/" + c.list + "/list_changed"
}

func (c change) params() map[string]any {
	if c.uri != "" {
		return map[string]any{"uri": c.uri}
	}
	if c.task != "" {
		return maps.Clone(c.detail) // each listener tags its own
	}
	return map[string]any{}
}

// filter is what a modern client wants to hear, as it stands on the wire.
type filter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	URIs      []string `json:"resourceSubscriptions,omitempty"`
	Tasks     []string `json:"taskIds,omitempty"`
}

func (f filter) wants(c change) bool {
	if c.uri != "" {
		return slices.Contains(f.URIs, c.uri)
	}
	if c.task != "" {
		return slices.Contains(f.Tasks, c.task)
	}
	return map[string]bool{"tools": f.Tools, "prompts": f.Prompts, "resources": f.Resources}[c.list]
}

type listener struct {
	wants   func(change) bool
	deliver func(change)
}

// hear registers a listener. first runs before any change can reach it.
func (s *server) hear(l *listener, first func() error) (stop func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if first != nil {
		if err := first(); err != nil {
			return nil, err
		}
	}
	s.listeners[l] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, l)
	}, nil
}

// announce tells all listeners. It runs without the lock, since a client that
// does not read may hold a delivery up.
func (s *server) announce(c change) {
	s.mu.Lock()
	ls := slices.Collect(maps.Keys(s.listeners))
	s.mu.Unlock()
	for _, l := range ls {
		if l.wants(c) {
			l.deliver(c)
		}
	}
}

// listen serves subscriptions/listen until the client goes or the peer ends it.
func (s *server) listen(r *request) reply {
	honoured := r.params.Notifications
	if len(honoured.Tasks) > 0 && !r.client.tasks() {
		return needTasks(r.method)
	}
	s.mu.Lock()
	honoured.Tasks = slices.DeleteFunc(slices.Clone(honoured.Tasks), func(id string) bool { return s.tasks[id] == nil })
	s.mu.Unlock()
	honoured.Tools = honoured.Tools && len(s.spec.Tools) > 0
	honoured.Prompts = honoured.Prompts && len(s.spec.Prompts) > 0
	honoured.Resources = honoured.Resources && len(s.spec.Resources)+len(s.spec.Templates) > 0
	honoured.URIs = slices.DeleteFunc(slices.Clone(honoured.URIs), func(uri string) bool {
		_, ok := s.resource(uri)
		return !ok
	})
	tag := map[string]any{metaPrefix + "subscriptionId": json.RawMessage(r.id)}
	stop, err := s.hear(&listener{wants: honoured.wants, deliver: func(c change) {
		p := c.params()
		p["_meta"] = tag
		// A stream that broke is noticed by its own context.
		_ = r.send(notification(c.method(), p))
	}}, func() error {
		return r.send(notification("notifications/subscriptions/acknowledged",
			map[string]any{"notifications": honoured, "_meta": tag}))
	})
	if err != nil {
		return reply{none: true}
	}
	defer stop()
	select {
	case <-r.ctx.Done():
		return reply{none: true}
	case <-s.ended:
		return reply{result: encode(map[string]any{"resultType": "complete", "_meta": tag})}
	}
}

// endListens makes every subscription end with its result.
func (s *server) endListens() { s.endOnce.Do(func() { close(s.ended) }) }
