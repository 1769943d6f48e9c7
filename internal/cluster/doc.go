// Package cluster is how Kausality's processes see a cluster. It puts the packages
// below together: which kinds there are (kinds), which of them are guarded (scope)
// and by which policies (policies), the states of their objects (states), and
// whether all that is up to date (heartbeat). Cluster watches it, for the processes
// of an installation; Direct reads what a command needs once.
//
// It decides nothing, and writes only what it is handed.
package cluster
