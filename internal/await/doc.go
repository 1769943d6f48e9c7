// Package await has the waiting of unit tests that cannot run in a bubble of testing/synctest, because they use the network, the file system or
// processes: for a channel, and for a condition that is read again whenever a Signal is raised. A wait fails its test after a minute; tests do not
// depend on how long anything takes. Tests on control planes have package test/controlplane/wait.
package await
