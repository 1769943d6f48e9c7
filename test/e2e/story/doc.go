// Package story is Kausality's main job from end to end, on a real control
// plane with a real Crossplane, our processes and two providers: hans's
// database, from its creation to its deletion. `make demo` plays it for users,
// test/e2e for machines; both go through the same steps.
package story
