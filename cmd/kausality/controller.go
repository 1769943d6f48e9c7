package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/kausality-io/function-kausality/cli/choice"
	"github.com/kausality-io/function-kausality/internal/certs"
	"github.com/kausality-io/function-kausality/internal/manifests"
	"github.com/kausality-io/function-kausality/internal/policycontroller"
)

// servicePort of the webhook where --webhook-service names none.
const servicePort = 443

// Values of --certificates.
const (
	certificatesOwn    = "own"
	certificatesSecret = "secret"
)

// webhookTimeoutHelp of the flag --webhook-timeout.
const webhookTimeoutHelp = "Seconds for which the API server waits for the webhook's decision, 1 to 30; then mode log allows and mode enforce refuses."

// controllerCommand runs the policy controller.
func controllerCommand() *cobra.Command {
	p := processFlags{}
	o := policycontroller.Options{Rotation: certs.Rotation{}}
	var service, certificates string
	var hosts []string
	cmd := &cobra.Command{
		Use: "controller", Args: noArgs,
		Short: "Run the policy controller: it writes the webhook configuration that Kausality policies require, and renews the webhook's certificates.",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			o.Manifests.DefaultMode, o.ForeignCertificates = p.mode, certificates == certificatesSecret
			if err := target(&o, service); err != nil {
				return usageError{err}
			}
			o.Rotation.Hosts = append(o.Rotation.Hosts, hosts...)
			return p.run(cmd.Context(), "controller", func(ctx context.Context) error {
				o.Process = p.Process
				return policycontroller.Run(ctx, o)
			})
		},
	}
	p.addProcess(cmd)
	fl := cmd.Flags()
	fl.StringVar(&service, "webhook-service", "", "Service by which the API server reaches the webhook: NAMESPACE/NAME or NAMESPACE/NAME:PORT.")
	fl.StringVar(&o.Manifests.WebhookURL, "webhook-url", "", "https://HOST:PORT where the webhook listens, instead of --webhook-service.")
	fl.Int32Var(&o.Manifests.TimeoutSeconds, "webhook-timeout", manifests.DefaultTimeoutSeconds, webhookTimeoutHelp)
	addApproverRBAC(fl, &o.Manifests.ApproverRBAC, "to change approvals and other decisions, also while the webhook is not called")
	fl.StringArrayVar(&o.Manifests.ComponentUsers, "component-user", nil, "User that webhook or gate run as where it is not their own ServiceAccount; repeatable.")
	fl.StringArrayVar(&hosts, "certificate-host", nil, "Further host that the webhook's certificate is for, as of the history's Service; repeatable.")
	whose := choice.One(&certificates, certificatesOwn, certificatesOwn+" (renew them)",
		certificatesSecret+" (take the bundle from ca.crt of the Secret "+manifests.SecretServing+", which another program writes)")
	fl.Var(whose, "certificates", whose.List()+".")
	fl.DurationVar(&o.Rotation.ServingLife, "certificate-lifetime", certs.DefaultServingLife,
		"How long a serving certificate is valid; it is replaced when a third of that is left.")
	fl.DurationVar(&o.Rotation.AuthorityLife, "authority-lifetime", certs.DefaultAuthorityLife,
		"How long an authority is valid; it is replaced when a third of that is left.")
	fl.StringVar(&o.Owner, "owner", "", "ClusterRole that owns the objects that the controller creates, so that they are deleted with the installation.")
	fl.BoolVar(&o.TraceAuthors, "trace-authors", false,
		"Create the Kausality policy authors, which traces who changes Compositions and Functions, where there is none of that name.")
	return cmd
}

// target of the API server's calls, and the hosts that certificates are for.
func target(o *policycontroller.Options, service string) error {
	if o.Rotation.AuthorityLife < 2*o.Rotation.ServingLife {
		return fmt.Errorf("--authority-lifetime must be at least twice --certificate-lifetime")
	}
	if service == "" {
		u, err := url.Parse(o.Manifests.WebhookURL)
		if err != nil || u.Scheme != "https" || u.Hostname() == "" {
			return fmt.Errorf("give --webhook-service=NAMESPACE/NAME, or --webhook-url=https://HOST:PORT")
		}
		o.Rotation.Hosts = []string{u.Hostname()}
		return nil
	}
	namespace, name, ok := strings.Cut(service, "/")
	name, portText, hasPort := strings.Cut(name, ":")
	port := int64(servicePort)
	if hasPort {
		var err error
		if port, err = strconv.ParseInt(portText, 10, 32); err != nil {
			return fmt.Errorf("--webhook-service: port %q is not a number", portText)
		}
	}
	if !ok || namespace == "" || name == "" {
		return fmt.Errorf("--webhook-service: %q must be NAMESPACE/NAME or NAMESPACE/NAME:PORT", service)
	}
	o.Manifests.Service = &admissionregistrationv1.ServiceReference{Namespace: namespace, Name: name, Port: new(int32(port))}
	o.Rotation.Hosts = []string{name + "." + namespace + ".svc"}
	return nil
}
