// Package approval reads what people decided on a parent: approvals,
// rejections, freeze and snooze, in all their forms, and keeps the record of
// what became of each approval in the claims annotation (spec 5, Approvals).
//
// It says which approval fits a change and what the claims look like after a
// use, a new entry or an intent. It writes nothing: using an approval up is an
// effect that the adapters carry out before they let a change pass.
package approval
