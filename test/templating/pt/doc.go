// Package pt is the composition function: it renders the templates of its
// input into desired composed resources, as function-patch-and-transform does.
//
// It decides nothing but what the resources look like and which of them are
// ready. What it returns depends on the request alone; equal requests get equal
// responses, and the request is never modified. Faults of the author become
// fatal results that name the field, never Go errors.
//
// Semantics are those of the original (v0.8): patches read observed state and
// write desired state; a missing source skips the patch; a missing required
// source keeps a resource that does not exist yet from being created and is
// only a warning for one that does; ready is set per resource, never for the
// composite. Unlike the original it does not copy the composition environment
// into the pipeline's context.
package pt
