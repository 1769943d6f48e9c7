// Package cli implements the commands of kubectl kausality: it reads the command
// line, calls the packages below it, and prints.
//
//   - inspect reads the cluster and answers what caused an object, what would
//     happen to a change, what is pending and what is not protected.
//   - annotate writes approvals, rejections, freezes and snoozes.
//   - approvals lists approvals that are not used, and who may approve by RBAC.
//   - preview renders a Composition for live composites.
//
// The package decides nothing about changes. It needs nothing in the cluster
// except the annotations, Drifts and Rollouts that the webhook, the gate and the
// composition function write; history reads a history server.
//
// Each command has a file and a type of its own, which embeds the session: the
// streams, the connection and the clock that all commands share.
package cli
