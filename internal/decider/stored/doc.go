// Package stored compares reviews with what is stored. A client that is not the API server can send a review, too:
// before anything is read, used or recorded for one, the object that it is about must be the one that is stored.
package stored
