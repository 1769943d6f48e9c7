// Package postgres runs a PostgreSQL server of the system's packages, as a user other than root, which it refuses to run as.
package postgres
