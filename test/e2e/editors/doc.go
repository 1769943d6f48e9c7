// Package editors plays users with the roles that the real Crossplane's RBAC manager gives the editors of composites.
package editors
