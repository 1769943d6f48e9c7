// Command rules writes docs/rules.md, the page that leads from each rule of
// docs/specification.md to the code that implements it, to its unit test and to
// the scenario or integration test that shows it on a real API server.
//
// Nothing is registered anywhere: a rule is cited by its id, as in KR-05-13, in a
// comment of product code, in a comment or a string of a Go test, or in the rules
// of a conformance scenario. What kind of citation it is follows from the file it
// is in. Check reports rules without citations of one kind, ids that no rule has,
// ids that two rules share, and ids in texts that users see.
package main
