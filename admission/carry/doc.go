// Package carry writes the cause of a change into the fields of a managed resource that take it to the outside: tags of AWS, and
// environment variables of Terraform runs.
package carry
