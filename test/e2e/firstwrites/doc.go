// Package firstwrites compares traces with what two versions of provider-kubernetes write first
// on an Object of each form.
package firstwrites
