package playground

import "fmt"

// Page is what a user of the playground needs to know: programs, users, and how to stop it.
func (p *Playground) Page() string {
	return fmt.Sprintf(`
The playground runs until Ctrl-C here, or make demo-stop. In another terminal:

  . %s

  kubectl kausality                     the plugin; kubectl and crossplane are on the PATH, too
  kubectl --context alice …             as another user than hans
  kubectl kausality ui --context alice  the page, on which alice decides what waits
  soon TEXT COMMAND …                   the command, repeated until it prints the text
  curl $CLOUD/databases                 the cloud; what was written to it: curl $CLOUD/_log

  hans   of the group shop: has XDatabases in Namespace default, and may not approve
  alice  of the group dba: approves, rejects and freezes
  bob    of the group dba, likewise
  admin  installs: Compositions, policies, ApprovalRules

15 minutes through all of it: docs/try.md. To begin:

  kubectl apply -f examples/getting-started/xr.yaml
  kubectl kausality trace xdatabase/orders

The logs are in %s/logs.
`, p.EnvFile(), p.Dir())
}
