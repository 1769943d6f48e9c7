package plugin

import (
	"testing"
)

func TestFirst(t *testing.T) {
	mr, err := the.MR(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"trace", "database/" + mr.GetName()}, {"trace", "database/" + mr.GetName(), "-o", "yaml"}, {"explain", "database", mr.GetName()}, {"explain", "xdatabase/orders"}, {"pending"}, {"pending", "-A"}, {"freeze", "database/" + mr.GetName()}, {"explain", "database", mr.GetName(), "--patch", `{"spec":{"forProvider":{"size":9}}}`}, {"--help"}, {"approve", "-h"}} {
		r := the.terminal(t, "", args...)
		t.Logf("%v → %d\n%s", args, r.code, r.screen())
	}
}
