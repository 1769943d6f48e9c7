package identity

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/kausality-io/function-kausality/admission/approval"
	"github.com/kausality-io/function-kausality/admission/parent"
	"github.com/kausality-io/function-kausality/admission/trace"
	"github.com/kausality-io/function-kausality/api/v1alpha1"
)

// Describe returns the name of an object in messages: Kind namespace/name.
func Describe(ref parent.Ref) string {
	name := cmp.Or(ref.Name, "(name to be generated)")
	if ref.Namespace != "" {
		name = ref.Namespace + "/" + name
	}
	return ref.Kind + " " + name
}

// Target returns the target of a kubectl command: the arguments after the verb, quoted for a shell where
// need be (KR-13-10).
func Target(ref parent.Ref, kind Kind) string {
	resource := kind.Resource
	if resource == "" {
		resource = strings.ToLower(ref.Kind)
		if ref.Group != "" {
			resource += "." + ref.Group
		}
	}
	out := resource + " " + ref.Name
	if !plain(ref.Name) {
		out = quoted(resource + "/" + ref.Name)
	}
	if ref.Namespace != "" {
		out = "-n " + ref.Namespace + " " + out
	}
	return out
}

// plain reports whether a shell and kubectl take a name for nothing but a name. Those
// of some kinds, as of Roles, are any text that is one segment of a path.
func plain(name string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:"
	return strings.Trim(name, letters) == "" && !strings.HasPrefix(name, "-")
}

// quoted returns the text in single quotes, as one argument for a POSIX shell.
func quoted(text string) string {
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// ApproveCommand returns the command that approves one difference, on the object that holds approvals for it. It works
// also where an approval of an earlier occurrence is written or recorded there (KR-05-39).
func ApproveCommand(holder *parent.State, kind Kind, id string) string {
	key, set := v1alpha1.AnnotationKeyApprovePrefix+id, approval.Set{Claims: approval.ParseClaims(holder.Annotations[v1alpha1.AnnotationKeyClaims])}
	intent, _ := trace.Intent(holder)
	out, value := "kubectl annotate "+Target(holder.Ref, kind)+" "+key+"=", set.Value(id, v1alpha1.ApprovalOnce, intent.Generation)
	if value == string(v1alpha1.ApprovalOnce) {
		return out + value
	}
	if out += quoted(value); holder.Annotations[key] != "" {
		out += " --overwrite"
	}
	return out
}

// BreakGlassCommand returns the command by which a user approves a difference alone, with a reason.
func BreakGlassCommand(holder parent.Ref, kind Kind, id string) string {
	return "kubectl annotate " + Target(holder, kind) + " " + v1alpha1.AnnotationKeyApprovePrefix + id + "=" + quoted(approval.ValueBreakGlass+" REASON")
}

// frozen completes a clause: by whom, when, why, and until when.
func frozen(what string, f v1alpha1.Freeze) string {
	by := ""
	if f.User != "" {
		by = " by " + f.User
	}
	if f.At != nil {
		by += " at " + f.At.UTC().Format(time.RFC3339)
	}
	if f.Message != "" {
		by += fmt.Sprintf(" (%s)", f.Message)
	}
	if f.Expiry != nil {
		by += " until " + f.Expiry.UTC().Format(time.RFC3339)
	}
	return what + by
}

// Rejected states that a rejection on an object forbids a change, as a clause.
func Rejected(ref parent.Ref, r v1alpha1.Rejection) string {
	return fmt.Sprintf("a rejection on %s forbids it: %s", Describe(ref), r.Reason)
}
