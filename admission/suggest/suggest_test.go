package suggest

import "testing"

// TestNearest suggests what differs little, and nothing else (KR-12-24).
func TestNearest(t *testing.T) {
	names := []string{"approve", "approvals", "mode", "freeze", "snooze", "xdatabases"}
	for name, want := range map[string]string{
		"aprove": "approve", "APPROVE": "approve", "appvore": "approve", "approvls": "approvals", "moed": "mode", "mod": "mode", "freez": "freeze",
		"xdatabses": "xdatabases", "m": "", "reject": "", "": "", "snoozing": "",
	} {
		if have := Nearest(name, names); have != want {
			t.Errorf("%q: %q, want %q", name, have, want)
		}
	}
	if have := Nearest("abc", nil); have != "" {
		t.Errorf("of no names: %q", have)
	}
}
