package cluster

import (
	"context"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/internal/telemetry"
)

const (
	// compareEvery is how often the API server's clock is read, at least: most processes have more answers than that.
	compareEvery = 10 * time.Second
	// tolerated skew of clocks, beyond which it is logged, and how often.
	tolerated, warnEvery = 5 * time.Second, 10 * time.Minute
)

var clockSkew = telemetry.NewGauge("kausality_clock_skew_seconds").WithLabelValues()

// dated compares the clock of the API server with this machine's at each of its answers (KR-13-25).
type dated struct{ next http.RoundTripper }

// RoundTrip sends a request.
func (d dated) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := clock.Local()
	resp, err := d.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if date, err := http.ParseTime(resp.Header.Get("Date")); err == nil { // an answer without one shows nothing
		clock.Observe(date, sent, clock.Local())
	}
	return resp, nil
}

// compareClocks until the context ends, and log and count how far they are apart.
func (c *Cluster) compareClocks(ctx context.Context) {
	var warned time.Time
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		// Any answer has a Date, also that it is forbidden; without an answer, nothing can be compared.
		_ = c.Kubernetes.Discovery().RESTClient().Get().AbsPath("/version").Timeout(compareEvery).Do(ctx).Error()
		if skew, known := clock.Skew(); known {
			clockSkew.Set(skew.Seconds())
			if skew.Abs() > tolerated && time.Since(warned) > warnEvery {
				warned = time.Now()
				c.Log.Info("the clock of this machine differs from the API server's, whose time is used for decisions; set this one right",
					"aheadOfThisMachine", skew.Round(time.Second).String())
			}
		}
	}, compareEvery)
}
