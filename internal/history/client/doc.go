// Package client reads records from the server of a store. It holds no credentials: the http.Client that it is
// given does.
package client
