// Package world is what a decision reads of a cluster. World is implemented by each adapter: the webhook by caches and live
// reads, the composition function by its request, the command-line tools by what was recorded. Nothing answers what an adapter
// cannot know.
package world
