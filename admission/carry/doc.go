// Package carry writes the cause of a change, and what is allowed by it, into the fields of a managed resource that take it to the
// outside: tags of AWS, and environment variables of Terraform runs (KR-08-43). What it writes there is no part of the desired state:
// it changes together with an accepted change alone, and the entries of others stay as they are.
package carry
