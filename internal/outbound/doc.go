// Package outbound has the HTTP clients by which Kausality sends reports and records to receivers that an operator configures: whom to trust, how
// to authenticate, and that no redirection is followed.
package outbound
