package results

import (
	"github.com/crossplane/function-sdk-go/errors"
	fnv1 "github.com/crossplane/function-sdk-go/proto/v1"
	"github.com/crossplane/function-sdk-go/response"

	"github.com/kausality-io/function-kausality/admission/annotation"
)

const (
	// MaxMessage is the size of a message in bytes.
	MaxMessage = 2048
	// Max is the number of warnings of one run; one more counts the rest.
	Max = 10
	// Reason of a result that is about no resource in particular.
	Reason = "Kausality"
)

// Warning is a result of severity warning.
type Warning struct {
	// Reason is machine-readable; it becomes that of the event.
	Reason string
	// Text for users.
	Text string
}

// Warn adds the first Max of a list of warnings to a response. Where there are more
// than Max in total, a last one counts those left out, with a reason of its own.
func Warn(rsp *fnv1.RunFunctionResponse, list []Warning, total int, rest string) {
	for _, w := range list[:min(len(list), Max)] {
		response.Warning(rsp, errors.New(Cut(w.Text, MaxMessage))).WithReason(w.Reason)
	}
	if total > Max {
		response.Warning(rsp, errors.Errorf("and %d more", total-Max)).WithReason(rest)
	}
}

// Cut cuts a text to at most size bytes of valid UTF-8; what is cut off becomes "…".
func Cut(s string, size int) string {
	if len(s) <= size {
		return s
	}
	return annotation.Cut(s, max(size-len("…"), 0)) + "…"
}
