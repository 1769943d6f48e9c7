package drift

import (
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// TestChannel covers KR-17-06: a channel adds its own entry, receivers of DriftReports keep it, and it keeps theirs.
func TestChannel(t *testing.T) {
	now := metav1.NewTime(time.Unix(2000, 0))
	d := &v1alpha1.Drift{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "7642947475a29290"}}
	d.Status = v1alpha1.DriftStatus{Phase: v1alpha1.DriftDetected, Since: &now, Deliveries: []v1alpha1.DriftDelivery{
		{Receiver: "host/0a1b2c3d", Since: &now}, {Receiver: "gone/00000000", Since: &now}}}
	c := driftClient(t, interceptor.Funcs{}, d.DeepCopy())
	read := func() *v1alpha1.Drift {
		out := &v1alpha1.Drift{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(d), out))
		return out
	}
	receivers := func() (out []string) {
		for _, e := range read().Status.Deliveries {
			out = append(out, e.Receiver+" "+string(e.Phase))
		}
		return out
	}
	slack := NewChannel(c, "kausality-slack", "slack", nil, logr.Discard())
	require.Equal(t, []v1alpha1.DriftPhase{v1alpha1.DriftDetected}, slack.Owed(read()), "it gets what is open")
	require.NoError(t, slack.Delivered(t.Context(), read(), v1alpha1.DriftDetected))
	assert.Equal(t, []string{"host/0a1b2c3d ", "gone/00000000 ", "slack Detected"}, receivers())
	assert.Empty(t, slack.Owed(read()))

	reports := (&Deliverer{Client: c, senders: []*Sender{{Name: "host/0a1b2c3d"}}, Log: logr.Discard()})
	require.NoError(t, reports.receiver(reports.senders[0]).record(t.Context(), read(), v1alpha1.DriftDetected, nil))
	assert.Equal(t, []string{"host/0a1b2c3d Detected", "slack Detected"}, receivers(), "a receiver that is configured no more has no entry")

	first := slack.Failed(errors.New("away"), 0)
	assert.WithinDuration(t, time.Now().Add(firstSend), first, time.Second)
	assert.WithinDuration(t, time.Now().Add(time.Minute), slack.Failed(errors.New("busy"), time.Minute), time.Second)
	slack.Show(t.Context(), nil)
	o := &v1alpha1.DriftReceiver{}
	require.NoError(t, c.Get(t.Context(), client.ObjectKey{Name: "kausality-slack-slack"}, o))
	assert.Equal(t, v1alpha1.ReasonDeliveryFailed, o.Status.Conditions[0].Reason)
	slack.Succeeded()
	assert.True(t, slack.Next().IsZero())
}
