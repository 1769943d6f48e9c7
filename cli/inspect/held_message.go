package inspect

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/kausality-io/function-kausality/admission"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// This file is the only one that reads a fact back from a message. It is the
// fallback for composites without annotations: those that the function of the
// previous release reconciled last (to be removed after the next release), and
// those of which no composed resource exists that could be annotated.

var (
	linePattern    = regexp.MustCompile(`^resource "([^"]+)": (.*)$`)
	commandPattern = regexp.MustCompile(`kubectl annotate .*kausality\.io/approve-([0-9a-f]{16})=\w+`)
	// changePattern is how a refusal begins; its parts are only displayed.
	changePattern = regexp.MustCompile(`^\w+: (changing|creating|deleting) (?:(.+) of )?(\w+) ` +
		`(?:([^ /]+)/)?([^ ]+|\(name to be generated\))(?: by [^ ]+)? is not allowed`)
)

var operationOf = map[string]admission.Operation{"changing": admission.Update, "creating": admission.Create, "deleting": admission.Delete}

// messageChanges of the message of the condition Kausality: one line for each
// composed resource that is held.
func messageChanges(message string, composed []*unstructured.Unstructured) []heldChange {
	var out []heldChange
	for line := range strings.Lines(message) {
		h, ok := parseHeld(strings.TrimSpace(line))
		if !ok {
			continue
		}
		for _, o := range composed {
			if c := childOf(o); c.Resource == h.child.Resource {
				h.child = c
			}
		}
		out = append(out, h)
	}
	return out
}

// parseHeld parses one line; not ok where it holds no command that approves.
func parseHeld(line string) (heldChange, bool) {
	m := linePattern.FindStringSubmatch(line)
	if m == nil {
		return heldChange{}, false
	}
	command := commandPattern.FindStringSubmatch(m[2])
	if command == nil {
		return heldChange{}, false
	}
	h := heldChange{child: v1alpha1.ObjectReference{Resource: m[1]}, id: command[1], approve: command[0], operation: string(admission.Update)}
	if w := changePattern.FindStringSubmatch(m[2]); w != nil {
		h.operation, h.child.Kind, h.child.Namespace, h.child.Name = string(operationOf[w[1]]), w[3], w[4], w[5]
		if w[2] != "" {
			h.paths = strings.Split(w[2], ", ")
		}
		if strings.HasPrefix(h.child.Name, "(") {
			h.child.Name = ""
		}
	}
	return h, true
}
