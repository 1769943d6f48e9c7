// Package recovery restores clusters from a backup, as Velero does it, with the same names, new UIDs
// and old annotations. What is outside is compared before and after: nothing is written there that was
// not requested, and afterwards changes reach it again.
package recovery
