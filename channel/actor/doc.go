// Package actor carries out decisions about pending changes as a user (KR-17-01): it reads the annotations of the object that holds them, writes
// what channel.Decide returned, and describes what that has led to. Whose requests they are is in the configuration of its client. It decides
// nothing: the API server, with the rights of that user, and admission do. Its functions are safe for concurrent use.
package actor
