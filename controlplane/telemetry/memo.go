package telemetry

import "sync"

// memo makes each value once. The zero memo is empty.
type memo[K comparable, V any] struct {
	mu   sync.Mutex
	made map[K]V
}

// get returns the value of a key. Others who want a value meanwhile wait. An error is not kept.
func (m *memo[K, V]) get(key K, create func() (V, error)) (V, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.made[key]; ok {
		return v, nil
	}
	v, err := create()
	if err != nil {
		return v, err
	}
	if m.made == nil {
		m.made = make(map[K]V)
	}
	m.made[key] = v
	return v, nil
}
