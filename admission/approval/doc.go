// Package approval reads the decisions of users on a parent: approvals, rejections, freeze and snooze, in all their
// forms. It keeps the votes for each approval and the record of its use in the claims annotation (KR-05-30 to
// KR-05-38, KR-14-01).
//
// It decides which approval fits a change (match.go), and returns the claims after a use, a new entry or an intent
// (keep.go), with the vote of the user who writes (votes.go). It writes nothing: using an approval up is an effect
// that the adapters carry out before they let a change pass. Which stored claims count is decided by Keys, before
// anything else reads them (proof.go, KR-13-69).
package approval
