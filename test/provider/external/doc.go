// Package external is the provider's side of the cloud: it observes, creates,
// updates and deletes external resources for crossplane-runtime's managed
// reconciler. Which of these happens is the reconciler's decision; this package
// decides only whether an external resource exists, is up to date and is ready.
//
// It is generic: a Kind maps one kind of managed resource to one collection of
// the cloud, as Databases and Instances do.
//
// Asynchronous operations follow upjet v2.2.0 (pkg/controller/
// external_async_tfpluginsdk.go and api.go, pkg/resource/conditions.go), because
// the gate has to cope with what upjet's providers report:
//
//   - Create, Update and Delete return at once. A goroutine makes the request,
//     waits until the cloud has finished and reports by a status update.
//   - LastAsyncOperation is True/Success or False/Async…Failure. While the
//     operation goes on it keeps its old value.
//   - AsyncOperation is False/Ongoing from the first reconcile during the
//     operation on, and True/Finished afterwards. Upjet sets it only for
//     providers that run the Terraform CLI; those built on the Terraform plugin
//     SDK and framework (AWS, GCP and Azure today) never do.
//   - While an operation goes on, Observe reports that the resource exists and
//     is up to date, without comparing it. The status keeps the old atProvider.
//   - An error is returned by the next Create, Update or Delete, until an
//     observation finds the resource up to date.
//   - Synced as set by the report has no observedGeneration.
//
// Two differences: a report that meets a conflict is repeated, where upjet only
// logs it, and it has a deadline of its own, where upjet uses the operation's,
// which after a timeout has passed already.
package external
