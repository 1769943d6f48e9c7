package cli

import (
	"slices"
	"testing"
)

// TestTypesAndNames reads arguments in both spellings (KR-12-25).
func TestTypesAndNames(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want []typeAndName
	}{
		"Slash":  {[]string{"xdatabase/a", "databases.example.org/b"}, []typeAndName{{"xdatabase", "a"}, {"databases.example.org", "b"}}},
		"Words":  {[]string{"xdatabases.example.org", "a", "b"}, []typeAndName{{"xdatabases.example.org", "a"}, {"xdatabases.example.org", "b"}}},
		"Type":   {[]string{"xdatabases"}, []typeAndName{{kind: "xdatabases"}}},
		"NoName": {[]string{"xdatabases/"}, []typeAndName{{kind: "xdatabases"}}},
	} {
		if have := typesAndNames(c.args); !slices.Equal(have, c.want) {
			t.Errorf("%s: %+v", name, have)
		}
	}
}
