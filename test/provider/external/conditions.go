package external

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	xpv2 "github.com/crossplane/crossplane/apis/v2/core/v2"

	"github.com/kausality-io/function-kausality/test/provider/cloud"
)

// Conditions and reasons, as in upjet's pkg/resource/conditions.go (v2.2.0).
const (
	TypeLastAsyncOperation xpv2.ConditionType = "LastAsyncOperation"
	TypeAsyncOperation     xpv2.ConditionType = "AsyncOperation"

	ReasonAsyncCreateFailure xpv2.ConditionReason = "AsyncCreateFailure"
	ReasonAsyncUpdateFailure xpv2.ConditionReason = "AsyncUpdateFailure"
	ReasonAsyncDeleteFailure xpv2.ConditionReason = "AsyncDeleteFailure"
	ReasonSuccess            xpv2.ConditionReason = "Success"
	ReasonOngoing            xpv2.ConditionReason = "Ongoing"
	ReasonFinished           xpv2.ConditionReason = "Finished"
)

// LastAsyncOperation is the condition that reports how an operation of this type
// ended. A nil error is success.
func LastAsyncOperation(t OperationType, err error) xpv2.Condition {
	if err == nil {
		return condition(TypeLastAsyncOperation, corev1.ConditionTrue, ReasonSuccess)
	}
	reasons := map[OperationType]xpv2.ConditionReason{
		OperationCreate: ReasonAsyncCreateFailure,
		OperationUpdate: ReasonAsyncUpdateFailure,
		OperationDelete: ReasonAsyncDeleteFailure,
	}
	return condition(TypeLastAsyncOperation, corev1.ConditionFalse, reasons[t]).WithMessage(err.Error())
}

// AsyncOperationOngoing is the condition while an operation goes on.
func AsyncOperationOngoing() xpv2.Condition {
	return condition(TypeAsyncOperation, corev1.ConditionFalse, ReasonOngoing)
}

// AsyncOperationFinished is the condition when no operation goes on.
func AsyncOperationFinished() xpv2.Condition {
	return condition(TypeAsyncOperation, corev1.ConditionTrue, ReasonFinished)
}

func condition(t xpv2.ConditionType, s corev1.ConditionStatus, r xpv2.ConditionReason) xpv2.Condition {
	return xpv2.Condition{Type: t, Status: s, LastTransitionTime: metav1.Now(), Reason: r}
}

// ready is the condition Ready of a managed resource whose external resource
// is like this. As with most providers it carries no observedGeneration, and a
// resource stays available while it is updated.
func ready(m cloud.Meta) xpv2.Condition {
	switch m.Status {
	case cloud.StatusCreating, cloud.StatusIncomplete:
		return xpv2.Creating()
	case cloud.StatusDeleting:
		return xpv2.Deleting()
	case cloud.StatusFailed:
		return xpv2.Unavailable().WithMessage(m.Message)
	case cloud.StatusAvailable, cloud.StatusUpdating:
	}
	return xpv2.Available()
}
