// Package chapters plays the chapters of the story as tests, with the parts of Kausality
// together and each by itself.
package chapters
