package lists

// Map returns what f returns for each element of a list, in their order; nil for an empty list.
func Map[S, T any](list []S, f func(S) T) []T {
	if len(list) == 0 {
		return nil
	}
	out := make([]T, len(list))
	for i, e := range list {
		out[i] = f(e)
	}
	return out
}
