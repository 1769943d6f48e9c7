package change

import "strings"

// escapes of RFC 6901, section 3. strings.Replacer replaces in one pass, so that
// the "~" of an escape is not escaped again.
var escapes = strings.NewReplacer("~", "~0", "/", "~1")

// Pointer returns the JSON Pointer (RFC 6901) to a field by the keys on the way to it, each escaped, as in
// /metadata/annotations/kausality.io~1claims. Without keys it returns "", the whole document. It is safe for
// concurrent use.
func Pointer(keys ...string) string {
	var out strings.Builder
	for _, k := range keys {
		out.WriteByte('/')
		out.WriteString(escapes.Replace(k))
	}
	return out.String()
}
