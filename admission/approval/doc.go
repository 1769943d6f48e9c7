// Package approval reads what users decided on a parent: approvals,
// rejections, freeze and snooze, in all their forms, and keeps the record of
// what became of each approval in the claims annotation (KR-05-30 to KR-05-38).
//
// It decides which approval fits a change and what the claims look like after a
// use, a new entry or an intent. It writes nothing: using an approval up is an
// effect that the adapters carry out before they let a change pass.
package approval
