package history

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// hashed begins what replaces a name.
const hashed = "hmac:"

// hash of a text in the place of the text: the same for the same text, and itself for
// one that was replaced already.
func hash(key []byte, text string) string {
	if strings.HasPrefix(text, hashed) || text == "" {
		return text
	}
	m := hmac.New(sha256.New, key)
	m.Write([]byte(text))
	return hashed + hex.EncodeToString(m.Sum(nil)[:16])
}

// impersonal are the texts of a record that are no name and no free text. A * is any item of a list.
var impersonal = func() map[string]bool {
	out := map[string]bool{}
	for _, p := range strings.Fields(`schema id type time cluster.name cluster.uid external operation reason causedBy.* differences.* paths.* verbs.*
		object.apiVersion object.kind object.namespace object.name object.uid parent.apiVersion parent.kind parent.namespace parent.name parent.uid
		actor.via approvers.*.via approval.mode approval.policy approval.rules.* trace.*.kind trace.*.namespace trace.*.name causes.*.kind`) {
		out[p] = true
	}
	return out
}()

// decodeRaw record with all of its fields, also those of a later version. Numbers stay as they are written.
func decodeRaw(raw []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var out map[string]any
	return out, d.Decode(&out)
}

// encodeRaw is JSON in one form: keys in order, no escaped HTML, no newline.
func encodeRaw(fields map[string]any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(fields)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// personal replaces each text of a record that may be or contain a name.
func personal(fields map[string]any, replace func(string) string) {
	walk(fields, "", nil, func(path, text string, siblings map[string]any) string {
		switch {
		case impersonal[path]:
			return text
		case path == "causes.*.name" && siblings["kind"] != "User":
			return text
		}
		return replace(text)
	})
}

// walk returns a value with what f returns in the place of each text. siblings are the fields beside the value; nil in a list.
func walk(v any, path string, siblings map[string]any, f func(path, text string, siblings map[string]any) string) any {
	switch v := v.(type) {
	case string:
		return f(path, v, siblings)
	case map[string]any:
		for k, item := range v {
			v[k] = walk(item, strings.TrimPrefix(path+"."+k, "."), v, f)
		}
	case []any:
		for n, item := range v {
			v[n] = walk(item, path+".*", nil, f)
		}
	}
	return v
}

// sealed returns a record in the form that is exported and hashed: with the hashes of names and free
// texts. It is the same before and after a name was forgotten (KR-16-34).
func sealed(key, raw []byte) ([]byte, error) {
	fields, err := decodeRaw(raw)
	if err != nil {
		return nil, err
	}
	personal(fields, func(text string) string { return hash(key, text) })
	return encodeRaw(fields)
}

// without a name: each text that contains it is replaced by its hash. changed is false, and the
// record the same, where none does.
func without(key, raw []byte, name string) (out []byte, changed bool, err error) {
	fields, err := decodeRaw(raw)
	if err != nil {
		return nil, false, err
	}
	personal(fields, func(text string) string {
		if !contains(text, name) {
			return text
		}
		changed = true
		return hash(key, text)
	})
	if !changed {
		return raw, false, nil
	}
	out, err = encodeRaw(fields)
	return out, true, err
}

// contains reports whether a text is a name, or has it as a word.
func contains(text, name string) bool {
	for from := 0; ; {
		n := strings.Index(text[from:], name)
		if n < 0 {
			return false
		}
		begin, end := from+n, from+n+len(name)
		if (begin == 0 || !letter(text[begin-1])) && (end == len(text) || !letter(text[end])) {
			return true
		}
		from = begin + 1
	}
}

// letter of a name; bytes of letters beyond ASCII count as letters.
func letter(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
