package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	recordsv1alpha1 "github.com/kausality-io/function-kausality/api/records/v1alpha1"
)

func TestRecordFlags(t *testing.T) {
	const to = "otlp=https://collector:4318"
	cases := map[string]struct {
		reason string
		flags  recordFlags
		err    string
	}{
		"Off":      {flags: recordFlags{size: "256Mi"}, reason: "the default"},
		"On":       {flags: recordFlags{dir: "/x", size: "256Mi", sinks: []string{to, "nats=tls://h"}}, reason: "two sinks"},
		"NoSink":   {flags: recordFlags{dir: "/x", size: "256Mi"}, err: "belong together", reason: "nothing would read the spool"},
		"NoDir":    {flags: recordFlags{size: "256Mi", sinks: []string{to}}, err: "belong together", reason: "records would be lost"},
		"Small":    {flags: recordFlags{dir: "/x", size: "1", sinks: []string{to}}, err: "at least 1Mi", reason: "a batch may be larger"},
		"NoSize":   {flags: recordFlags{dir: "/x", size: "much", sinks: []string{to}}, err: "at least 1Mi", reason: "no quantity"},
		"Twice":    {flags: recordFlags{dir: "/x", size: "1Mi", sinks: []string{to, to}}, err: "given twice", reason: "they would share a cursor"},
		"BadSink":  {flags: recordFlags{dir: "/x", size: "1Mi", sinks: []string{"x"}}, err: "--record-sink", reason: "no sink"},
		"NotPlain": {flags: recordFlags{dir: "/x", size: "1Mi", sinks: []string{"otlp=http://h"}}, err: "https", reason: "records name users"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := tc.flags.options()
			if tc.err == "" {
				assert.NoError(t, err, tc.reason)
				return
			}
			assert.ErrorContains(t, err, tc.err, tc.reason)
		})
	}
}

func TestRecordsAreOff(t *testing.T) {
	r, stop, err := (&recordFlags{size: "256Mi"}).start(nil, "", logr.Discard())
	require.NoError(t, err)
	assert.Nil(t, r)
	stop()
}

// one occurrence.
type one struct{}

func (one) Records(c recordsv1alpha1.Cluster) []recordsv1alpha1.Record {
	r := recordsv1alpha1.Record{Type: recordsv1alpha1.TypeIntent, Time: metav1.NowMicro(), Cluster: c, Object: recordsv1alpha1.Object{Kind: "Part"}}
	r.ID = recordsv1alpha1.ID(c, r.Object, r.Type, r.Time.Time)
	return []recordsv1alpha1.Record{r}
}

// TestRecordsAreDeliveredInTheEnd is that a process which ends delivers what was recorded before.
func TestRecordsAreDeliveredInTheEnd(t *testing.T) {
	cluster := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "metadata.name=kube-system", r.URL.Query().Get("fieldSelector"))
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"NamespaceList","apiVersion":"v1","items":[{"metadata":{"name":"kube-system","uid":"u-1"}}]}`))
	}))
	defer cluster.Close()
	got := make(chan struct{}, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { got <- struct{}{} }))
	defer receiver.Close()
	f := recordFlags{dir: filepath.Join(t.TempDir(), "spool"), size: "1Mi", sinks: []string{"cloudevents=" + receiver.URL + ",plain=true"}}
	r, stop, err := f.start(&rest.Config{Host: cluster.URL}, "prod", logr.Discard())
	require.NoError(t, err)
	r.Add(one{})
	stop()
	assert.Len(t, got, 1)

	r, stop, err = f.start(&rest.Config{Host: cluster.URL}, "prod", logr.Discard())
	require.NoError(t, err)
	_, _, err = f.start(&rest.Config{Host: cluster.URL}, "prod", logr.Discard())
	assert.ErrorContains(t, err, "another process uses", "a spool belongs to one process")
	r.Add(nil)
	stop()
	assert.Len(t, got, 1, "nothing is delivered again")
}

func TestIdentify(t *testing.T) {
	_, err := identify(fake.NewClientset(), "prod")(context.Background())
	require.ErrorContains(t, err, "does not exist")
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "u-1"}}
	c, err := identify(fake.NewClientset(ns), "prod")(context.Background())
	require.NoError(t, err)
	assert.Equal(t, recordsv1alpha1.Cluster{Name: "prod", UID: "u-1"}, c)
}
