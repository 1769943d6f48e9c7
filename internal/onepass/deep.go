package onepass

import "bytes"

// requestDepth is how many objects are open within the request of a review.
const requestDepth = 2

// deep reads a review with an object that has the greatest depth that the API server accepts, 10,000, which is also
// the greatest depth that the decoder reads: with the review around it, it is too deep. The objects are read apart
// from the review. ok is false where that fails, too.
func deep(raw []byte) (review map[string]any, ok bool) {
	outer, objects := cut(raw)
	if len(objects) == 0 {
		return nil, false
	}
	review, err := values(outer, parser{shared: true})
	if err != nil {
		return nil, false
	}
	request, ok := review["request"].(map[string]any)
	if !ok {
		return nil, false
	}
	for key, object := range objects {
		if request[key], err = values(object, parser{shared: true}); err != nil {
			return nil, false
		}
	}
	return review, true
}

// cut the objects out of a review: outer has a null in place of each. It reads brackets and strings alone, so that
// outer and objects still have to be parsed.
func cut(raw []byte) (outer []byte, objects map[string][]byte) {
	objects = map[string][]byte{}
	key, depth, start, kept := "", 0, -1, 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			end := closing(raw, i)
			if depth == requestDepth {
				key = string(raw[i+1 : max(end, i+1)]) // a key, or a value, which the next key replaces
			}
			i = end
		case '{', '[':
			if depth == requestDepth && (key == "object" || key == "oldObject") {
				start = i
			}
			depth++
		case '}', ']':
			if depth--; depth == requestDepth && start >= 0 {
				objects[key] = raw[start : i+1]
				outer = append(append(outer, raw[kept:start]...), "null"...)
				start, kept = -1, i+1
			}
		}
	}
	return append(outer, raw[min(kept, len(raw)):]...), objects
}

// closing quote of the string that begins at a byte; the last byte for a string that does not end.
func closing(raw []byte, begin int) int {
	for i := begin + 1; i < len(raw); i++ {
		next := bytes.IndexAny(raw[i:], `"\`)
		if next < 0 {
			break
		}
		i += next
		if raw[i] == '"' {
			return i
		}
		i++ // the escaped byte
	}
	return len(raw) - 1
}
