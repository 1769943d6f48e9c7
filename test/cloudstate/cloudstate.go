package cloudstate

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"

	"github.com/kausality-io/function-kausality/test/provider/cloud"
)

// Fields of a database, by their JSON names.
type Fields map[string]json.RawMessage

// A Database as the log has it so far. The zero value does not exist.
type Database struct {
	Fields Fields
	Exists bool
}

// NameOf the database that an entry is about; empty for a read.
func NameOf(e cloud.Entry) string {
	if e.Kind == cloud.EntryBackdoor {
		var body struct{ Name string }
		if json.Unmarshal(e.Body, &body) != nil {
			return ""
		}
		return body.Name
	}
	if !e.IsWrite() {
		return ""
	}
	return path.Base(e.Path)
}

// Take what an entry did. A request that was refused did nothing. The error is that of a body that is no JSON object.
func (d *Database) Take(e cloud.Entry) error {
	if !e.Succeeded() {
		return nil
	}
	changes := Fields{}
	if len(e.Body) > 0 {
		if err := json.Unmarshal(e.Body, &changes); err != nil {
			return err
		}
	}
	switch {
	case e.Method == http.MethodDelete, e.Path == "/_control/lose":
		*d = Database{}
		return nil
	case e.Kind == cloud.EntryBackdoor:
		delete(changes, "name")
		delete(changes, "collection")
	case e.Method == http.MethodPut:
		*d = Database{Fields: Fields{"engine": json.RawMessage(strconv.Quote(cloud.DefaultEngine))}, Exists: true}
	}
	if d.Fields == nil {
		d.Fields = Fields{}
	}
	maps.Copy(d.Fields, changes)
	return nil
}

// Changed fields of the body of a write, sorted.
func (d *Database) Changed(body Fields) (out []string) {
	for _, name := range slices.Sorted(maps.Keys(body)) {
		if !bytes.Equal(compact(d.Fields[name]), compact(body[name])) {
			out = append(out, name)
		}
	}
	return out
}

// compact JSON; a field that is missing is null.
func compact(raw json.RawMessage) []byte {
	if raw == nil {
		return []byte("null")
	}
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return raw
	}
	return out.Bytes()
}
