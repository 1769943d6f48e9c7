// Package permissions asks the API server what users may do, by SubjectAccessReviews, and keeps the answers
// for a short time.
package permissions
