package controlplane

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestMetrics(t *testing.T) {
	text := "# TYPE controller_runtime_reconcile_total counter\n" +
		"controller_runtime_reconcile_total{controller=\"gate\",result=\"error\"} 2\ncontroller_runtime_reconcile_total{controller=\"gate\",result=\"success\"} 3\n" +
		"controller_runtime_reconcile_total{controller=\"other\",result=\"success\"} 7\n# TYPE workqueue_depth gauge\n"
	depth := "workqueue_depth{name=\"gate\"} 1\n"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/busy":
			_, _ = io.WriteString(w, text+depth)
		case "/idle":
			_, _ = io.WriteString(w, text+"workqueue_depth{name=\"gate\"} 0\nworkqueue_depth{name=\"other\"} 1\n")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(s.Close)

	for path, busy := range map[string]bool{"/busy": true, "/idle": false} {
		m, err := ReadMetrics(t.Context(), s.URL+path)
		if err != nil {
			t.Fatal(err)
		}

		if n, err := m.Reconciled("gate"); n != 5 || (err != nil) != busy {
			t.Errorf("%s: got %v, %v", path, n, err)
		}

		if n, found := m.Sum("controller_runtime_reconcile_total", "", ""); n != 12 || !found {
			t.Errorf("%s: got %v, %v", path, n, found)
		}

		if _, found := m.Sum("no_such", "", ""); found {
			t.Errorf("%s: found no_such", path)
		}
	}

	if _, err := ReadMetrics(t.Context(), s.URL+"/none"); err == nil {
		t.Error("want an error")
	}
}
