// Package controlplane boots a real Kubernetes control plane, with Crossplane's core if wanted, as
// plain processes on loopback, and ends them again. The integration tests, the end-to-end story and
// the demo run on it; there is no Docker, no kubelet and no scheduler, so Pods stay Pending.
//
// Start builds what is missing (package parts), boots etcd, kube-apiserver and
// kube-controller-manager, and returns once they do their work: the API server is ready and a
// controller has created the default ServiceAccount. With Options.Crossplane it also installs
// Crossplane's CRDs and starts its core, as the ServiceAccount crossplane-system/crossplane; it is
// ready once one of its controllers has answered an object. Crossplane's package manager runs
// nothing: functions and providers are processes that the caller starts (Run) and announces
// (RegisterFunction).
//
// Processes: each is its own process group, logs to DIR/logs/NAME.log, and dies with this process
// (on Linux even if this process is killed). Stop, or the end of the context given to Start, ends
// exactly those that were started here. An error about a process names it, shows the last lines of
// its log and where the log is. The end of a process that tests rely on (Serve, and the control plane's
// own) fails the tests that are waiting, and no others: what Serve started is started again.
//
// Apply takes manifests as kubectl does and waits for their kinds; Define makes kinds that a test
// needs (Kind).
//
// Everything is below one directory (Options.Dir): etcd's data, keys, logs, kubeconfigs. A control
// plane always starts empty; it does not take up the data of an earlier one.
//
// Two things of a cluster are missing: Crossplane's webhook for Usages, and limits to Crossplane's
// access (it is cluster-admin).
package controlplane
