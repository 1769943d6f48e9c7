// Package states has the states of objects, by kind: from watches, or live. A watch
// begins when its kind comes under guard or is requested, and ends when it is not
// needed any more, or with its CRD; what it kept goes with it.
//
// Of the claims of an object it shows those that count, and it seals those that it
// writes (KR-13-69). It writes only what it is handed: a Patch, or claims.
package states
