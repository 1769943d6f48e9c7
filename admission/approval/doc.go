// Package approval reads the decisions of users on a parent: approvals, rejections, freeze and snooze, in all their
// forms. It keeps the record of the use of each approval in the claims annotation (KR-05-30 to KR-05-38).
//
// It decides which approval fits a change, and returns the claims after a use, a new entry or an intent. It writes
// nothing: using an approval up is an effect that the adapters carry out before they let a change pass.
package approval
