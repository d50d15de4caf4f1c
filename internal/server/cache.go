package server

import "sync"

// A slot keeps what was made last, until what it was made from is another. Its
// zero is empty. While a value is being made, others who want it wait for it.
type slot[K comparable, V any] struct {
	mu    sync.Mutex
	full  bool
	key   K
	value V
}

// get returns the value for the key of now, which is asked for under the lock
// so that no older one comes after it. A failure is not kept.
func (s *slot[K, V]) get(key func() K, build func(K) (V, error)) (V, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key()
	if s.full && s.key == k {
		return s.value, nil
	}
	v, err := build(k)
	if err == nil {
		s.full, s.key, s.value = true, k, v
	}
	return v, err
}
