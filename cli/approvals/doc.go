// Package approvals lists approvals that are not used up, and who may give them by RBAC.
package approvals
