// Package permissions checks what users may do, by SubjectAccessReviews of the API server, and keeps the
// answers for a short time.
package permissions
