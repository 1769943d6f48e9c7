// Package history records every version that objects have, as etcd stores them. The
// watches of the API server skip versions when it restarts.
package history
