package server

import (
	"net/http"
	"sync"
)

// slots keep what was made last, for all nodes and for each, until what it was
// made from is another. The zero is empty. While a value is being made, others who
// want it wait for it.
type slots[K comparable, V any] struct {
	byNode sync.Map // name, empty for all, to *slot; requests name nodes that there are
}

type slot[K comparable, V any] struct {
	mu    sync.Mutex
	full  bool
	key   K
	value V
}

// get returns the key of now and its value. The key is asked for under the lock
// so that no older one comes after it. A failure is not kept.
func (of *slots[K, V]) get(r *http.Request, key func(*http.Request) K, build func(K) (V, error)) (K, V, error) {
	found, ok := of.byNode.Load(nodeOf(r))
	if !ok {
		found, _ = of.byNode.LoadOrStore(nodeOf(r), new(slot[K, V]))
	}
	s, _ := found.(*slot[K, V])
	s.mu.Lock()
	defer s.mu.Unlock()
	k := key(r)
	if s.full && s.key == k {
		return k, s.value, nil
	}
	v, err := build(k)
	if err == nil {
		s.full, s.key, s.value = true, k, v
	}
	return k, v, err
}
