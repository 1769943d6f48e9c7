// Command screens draws docs/images/pending.svg from a screen of `kubectl kausality
// pending` that test/kubectl records on a real control plane, so that the picture shows
// what the plugin prints. What differs between runs has the same value in each picture.
package main
