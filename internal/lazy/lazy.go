// Package lazy makes a value when somebody first asks for it, and only once.
package lazy

import "sync"

// A Map makes the value of each key once, for the first goroutine that asks. Others
// that ask at the same time wait for it. The zero Map is ready. Several goroutines
// may call its methods.
type Map[K comparable, V any] struct {
	mu   sync.Mutex
	made map[K]func() (V, error)
}

// Get returns the value of k. If nobody has asked for it before, build makes it. An
// error is kept too.
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
