// Package verb has the verbs of relation External in approvals and allowances: what
// each means for objects of a kind, in Crossplane's verbs. It decides from the group
// and kind alone, reads no object, and never decides whether something is allowed.
package verb
