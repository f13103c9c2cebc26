package connection

import "sync"

// mine are the ids of this process's connections by their keys: the ids are not
// in the store.
type mine struct {
	mu sync.Mutex
	m  map[string]string
}

func (m *mine) add(key, id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.m == nil {
		m.m = map[string]string{}
	}
	m.m[key] = id
}

func (m *mine) remove(key string) (id string, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	id, ok = m.m[key]
	delete(m.m, key)
	return id, ok
}
