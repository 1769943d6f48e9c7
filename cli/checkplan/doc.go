// Package checkplan checks a plan of Terraform or OpenTofu, as terraform show
// -json prints it, against allowances of relation External, action by action
// (KR-08-41). It reads files or standard input and prints; which action an
// allowance covers is decided by admission/external.
package checkplan
