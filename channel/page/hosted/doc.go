// Package hosted is the page in the cluster, for users without a kubeconfig (KR-17-28 to KR-17-32): one Page of package page for each user who
// looks, with that user's rights.
//
// Who a user is shows either their own login at an OIDC issuer, as which the process acts by impersonation, or their bearer token, which a
// proxy in front of the process adds and the API server reviews. Sessions are sealed cookies: any replica answers any request.
//
// It decides nothing: admission and the rights of the user do.
package hosted
