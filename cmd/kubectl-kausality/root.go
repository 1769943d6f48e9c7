package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/kausality-io/function-kausality/api/v1alpha1"
	"github.com/kausality-io/function-kausality/cli/inspect"
)

// cli is what all commands share.
type cli struct {
	genericiooptions.IOStreams
	kube  *genericclioptions.ConfigFlags
	paint paint
	now   func() time.Time

	defaultMode string
}

func root(streams genericiooptions.IOStreams) (*cobra.Command, error) {
	c := &cli{IOStreams: streams, kube: genericclioptions.NewConfigFlags(true), now: time.Now}
	cmd := &cobra.Command{
		Use:   "kubectl-kausality",
		Short: "Who caused what, what waits for approval, and approving it.",
		Long: "Kausality for people at a terminal: who caused a resource to be as it is, what would happen if its " +
			"controller changed it now, what waits for approval; and approving, rejecting, freezing and snoozing.",
		Annotations:       map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl kausality"},
		Args:              cobra.ArbitraryArgs,
		PersistentPreRunE: func(*cobra.Command, []string) error { c.paint = painted(c.Out); return c.checkMode() },
		RunE:              func(cmd *cobra.Command, args []string) error { return c.none(cmd, args) },
	}
	c.kube.AddFlags(cmd.PersistentFlags())
	cmd.PersistentFlags().StringVar(&c.defaultMode, "default-mode", "",
		"Mode where neither object nor Namespace says: log or enforce. By default it is told from the webhook configuration.")
	offer(cmd.PersistentFlags().Lookup("default-mode"), string(v1alpha1.ModeLog), string(v1alpha1.ModeEnforce))
	cmd.AddCommand(
		c.traceCommand(), c.explainCommand(), c.pendingCommand(),
		c.approveCommand(), c.rejectCommand(), c.freezeCommand(), c.unfreezeCommand(), c.snoozeCommand(), c.ungateCommand(),
		c.coverageCommand(), c.previewCommand(), versionCommand(),
	)
	for _, sub := range append(cmd.Commands(), cmd) {
		if err := completeFlags(sub); err != nil {
			return nil, fmt.Errorf("cannot offer completions of %s: %w", sub.Name(), err)
		}
		sub.SilenceErrors, sub.SilenceUsage = true, true
		sub.SetFlagErrorFunc(func(sub *cobra.Command, err error) error {
			return usageError{fmt.Errorf("%w; see %s --help", err, sub.CommandPath())}
		})
	}
	cmd.SetIn(streams.In)
	cmd.SetOut(streams.Out)
	cmd.SetErr(streams.ErrOut)
	return cmd, nil
}

// none of the commands was named.
func (c *cli) none(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return cmd.Help()
	}
	return usageError{fmt.Errorf("unknown command %q; see %s --help", args[0], cmd.CommandPath())}
}

func (c *cli) checkMode() error {
	switch v1alpha1.Mode(c.defaultMode) {
	case "", v1alpha1.ModeLog, v1alpha1.ModeEnforce:
		return nil
	}
	return usageError{fmt.Errorf("--default-mode must be log or enforce, not %q", c.defaultMode)}
}

// config of the connection. A person's tool may be as fast as the API server
// lets it.
func (c *cli) config() (*rest.Config, error) {
	config, err := c.kube.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot read the kubeconfig: %w", err)
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = -1, 0
	config.UserAgent = "kubectl-kausality/" + version()
	config.WarningHandler = rest.NewWarningWriter(c.ErrOut, rest.WarningWriterOptions{Deduplicate: true})
	return config, nil
}

func (c *cli) client() (dynamic.Interface, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("cannot make a client: %w", err)
	}
	return client, nil
}

// namespace that is meant where none is named.
func (c *cli) namespace() (string, error) {
	ns, _, err := c.kube.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return "", fmt.Errorf("cannot read the kubeconfig: %w", err)
	}
	return ns, nil
}

func (c *cli) mapper() (meta.RESTMapper, error) {
	m, err := c.kube.ToRESTMapper()
	if err != nil {
		return nil, fmt.Errorf("cannot discover resources: %w", err)
	}
	return m, nil
}

func (c *cli) inspector(ctx context.Context) (*inspect.Inspector, error) {
	config, err := c.config()
	if err != nil {
		return nil, err
	}
	mapper, err := c.mapper()
	if err != nil {
		return nil, err
	}
	return inspect.New(ctx, config, inspect.Options{Mapper: mapper, DefaultMode: v1alpha1.Mode(c.defaultMode), Now: c.now})
}
