// Package review reads AdmissionReviews and writes the answers to them. It bounds what is read at a time, and decides nothing.
package review
