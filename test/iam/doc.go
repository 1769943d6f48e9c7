// Package iam evaluates policies of AWS IAM over recorded requests, as the IAM User Guide describes the evaluation within one account and across two. It
// exists for the policies in docs/aws.md, and is strict: an element, an operator, a condition key or a principal that it does not know is an error, so
// that no policy passes a test because a part of it was ignored.
//
// A request has the form of an event of CloudTrail, with the tags of its principal, which no event has. Not modelled: session policies, resource policies
// other than the trust policy of a role, and levels of an organization.
package iam
