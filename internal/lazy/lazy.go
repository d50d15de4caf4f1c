// Package lazy makes values when somebody first asks for them, and no second
// time.
package lazy

import "sync"

// A Map makes the value of each key once, for the first who asks; others who ask
// meanwhile wait for it. Its zero is ready. Its methods may be called by several
// goroutines.
type Map[K comparable, V any] struct {
	mu   sync.Mutex
	made map[K]func() (V, error)
}

// Get returns the value of k, which build makes where nobody has asked for it yet.
// An error is kept too.
func (m *Map[K, V]) Get(k K, build func() (V, error)) (V, error) {
	m.mu.Lock()
	get, ok := m.made[k]
	if !ok {
		get = sync.OnceValues(build)
		if m.made == nil {
			m.made = map[K]func() (V, error){}
		}
		m.made[k] = get
	}
	m.mu.Unlock()
	return get()
}
