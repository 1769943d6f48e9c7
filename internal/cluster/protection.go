package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	kerrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/kausality-io/function-kausality/admission/clock"
	"github.com/kausality-io/function-kausality/admission/identity"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/internal/cluster/heartbeat"
	"github.com/kausality-io/function-kausality/internal/cluster/informer"
)

// WebhookHeartbeat is the Lease in Kausality's own Namespace that the replicas of the webhook write.
const WebhookHeartbeat = v1alpha1.ManagerWebhook + "-heartbeat"

// reportedFor is how old the last heartbeat may be for what it reports to count. Replicas write one every two seconds.
const reportedFor = 15 * time.Second

// errUnreported is why the protection is unknown: no replica of the webhook runs, or none of this release.
var errUnreported = errors.New("no replica of the webhook reports it")

// Protection that the webhook reports; an error where it is unknown.
func (d *Direct) Protection(ctx context.Context) (out heartbeat.Protection, err error) {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	lease, err := d.Dynamic.Resource(heartbeat.Leases).Namespace(identity.HomeNamespace).Get(ctx, WebhookHeartbeat, metav1.GetOptions{})
	if kerrors.IsNotFound(err) {
		return out, errUnreported
	}
	if err != nil {
		return out, err
	}
	reported := lease.GetAnnotations()[v1alpha1.AnnotationKeyProtection]
	if beat := heartbeat.BeatOf(lease); reported == "" || clock.Now().Sub(beat.At) > reportedFor {
		return out, errUnreported
	}
	if err := json.Unmarshal([]byte(reported), &out); err != nil {
		return out, fmt.Errorf("cannot read annotation %s: %w", v1alpha1.AnnotationKeyProtection, err)
	}
	return out, nil
}

var (
	networkPolicies = schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"}
	approvalRules   = v1alpha1.GroupVersion.WithResource(v1alpha1.ResourceApprovalRules)
)

// Reach is who reaches the port of the webhook by the chart's NetworkPolicy.
type Reach string

const (
	// ReachAll: there is no NetworkPolicy.
	ReachAll Reach = "All"
	// ReachAny: it restricts the ports, and not who reaches that of the webhook.
	ReachAny Reach = "Any"
	// ReachListed: it lists who does. Whether it is enforced depends on the network of the cluster.
	ReachListed Reach = "Listed"
)

// ReachOf the webhook. Policies of other names are not read.
func ReachOf(ctx context.Context, client dynamic.Interface) (Reach, error) {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	policy, err := client.Resource(networkPolicies).Namespace(identity.HomeNamespace).Get(ctx, v1alpha1.ManagerWebhook, metav1.GetOptions{})
	if kerrors.IsNotFound(err) {
		return ReachAll, nil
	}
	if err != nil {
		return "", err
	}
	ingress, _, _ := unstructured.NestedSlice(policy.Object, "spec", "ingress") // the API server validated it
	for _, e := range ingress {
		rule, _ := e.(map[string]any)
		if from, _ := rule["from"].([]any); len(from) == 0 && opens(rule, webhookPort) {
			return ReachAny, nil
		}
	}
	return ReachListed, nil
}

// webhookPort of the chart.
const webhookPort = 9443

// opens reports whether a rule of a NetworkPolicy is about a port, or about all.
func opens(rule map[string]any, port int64) bool {
	ports, _ := rule["ports"].([]any)
	return len(ports) == 0 || slices.ContainsFunc(ports, func(e any) bool {
		p, _ := e.(map[string]any)
		first, numbered := p["port"].(int64)
		last, ranged := p["endPort"].(int64)
		if !ranged {
			last = first
		}
		return !numbered || first <= port && port <= last
	})
}

// ApprovalRules returns the names of all ApprovalRules, sorted; nil for none.
func ApprovalRules(ctx context.Context, client dynamic.Interface) (out []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, directTimeout)
	defer cancel()
	for o, err := range informer.Items(ctx, client.Resource(approvalRules), informer.PageSize) {
		if kerrors.IsNotFound(err) {
			return nil, nil // no CRD, no rules
		}
		if err != nil {
			return nil, err
		}
		out = append(out, o.GetName())
	}
	slices.Sort(out)
	return out, nil
}
