// Package operations uses Kausality as the Helm chart installs it (package site): its policies, its roles, its metrics and its Service, and kinds
// that leave the policies and come back. The tests share an installation that none of them changes; those that do are in package changes, and
// those of the commands in the documentation in package documented.
package operations
