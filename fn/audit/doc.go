// Package audit is the function as a step of an Operation (KR-09-15). There is no
// composite, and nothing is desired: it reads the watched resource and those that the
// step's requirements name, and reports its findings as the step's output (an
// input.Audit) and in results, which become events of the Operation. It changes
// nothing.
//
// It shows what packages settling, gating and mask decide about the objects as they
// are, and what is stored on them; it has no rule of its own.
package audit
