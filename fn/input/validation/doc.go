// Package validation decodes and validates the Input of the function. Errors name the field.
package validation
