package view

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
)

// TestReadAfterWrite: what was read before the user wrote is not shown as what is stored now, while it is being read again as well (KR-17-18).
func TestReadAfterWrite(t *testing.T) {
	var v *View
	reads := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		reads++
		assert.Nil(t, v.fresh(), "it is being read")
		v.forget()
		http.Error(w, "down", http.StatusInternalServerError)
	}))
	t.Cleanup(s.Close)
	var err error
	v, err = New(Options{Config: &rest.Config{Host: s.URL}, Mapper: meta.NewDefaultRESTMapper(nil)})
	require.NoError(t, err)
	v.have.Store(&Snapshot{})
	v.live.Store(true)
	require.NotNil(t, v.fresh())
	v.forget()
	require.Nil(t, v.fresh())
	_, err = v.Pending(t.Context())
	require.Error(t, err)
	require.NotZero(t, reads)
	require.Nil(t, v.fresh(), "the user wrote while it was read")
}
