// Package lazy makes a value on first use, and only once.
package lazy

import (
	"errors"
	"sync"
)

// A Map makes the value of each key once, for the first goroutine that asks; others
// wait for it. The zero Map is ready to use. Several goroutines may use a Map.
type Map[K comparable, V any] struct {
	mu   sync.Mutex
	made map[K]*made[V]
}

type made[V any] struct {
	once  sync.Once
	value V
	err   error
}

var errPanicked = errors.New("making the value panicked")

// Get returns the value of k. On the first call for k, build makes it; an error is
// kept too. Get allocates nothing for an existing value.
func (m *Map[K, V]) Get(k K, build func() (V, error)) (V, error) {
	m.mu.Lock()
	entry, ok := m.made[k]
	if !ok {
		entry = &made[V]{err: errPanicked}
		if m.made == nil {
			m.made = map[K]*made[V]{}
		}
		m.made[k] = entry
	}
	m.mu.Unlock()
	entry.once.Do(func() { entry.value, entry.err = build() }) // sync.OnceValues would move build to the heap
	return entry.value, entry.err
}
