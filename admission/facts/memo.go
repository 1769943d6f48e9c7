package facts

// Memo is a value that is computed once, when it is first needed.
type Memo[T any] struct {
	Value T
	Known bool
}

// Get returns the value, which it computes on the first call. It returns a pointer, so that large values
// are not copied; the value is not modified.
func (m *Memo[T]) Get(compute func() T) *T {
	if !m.Known {
		m.Value, m.Known = compute(), true
	}
	return &m.Value
}
