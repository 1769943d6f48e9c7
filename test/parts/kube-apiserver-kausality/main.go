// Command kube-apiserver-kausality is kube-apiserver with the admission plugin of Kausality.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/admission"
	genericapiserver "k8s.io/apiserver/pkg/server"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"

	"github.com/kausality-io/function-kausality/apiserver"
)

func main() {
	if err := run(genericapiserver.SetupSignalContext(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "kube-apiserver-kausality:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	o, k := options.NewServerRunOptions(), apiserver.New()
	plugins := o.Admission.GenericAdmission
	k.Register(plugins.Plugins)
	plugins.RecommendedPluginOrder = append(apiserver.Order(plugins.RecommendedPluginOrder), noopName)
	plugins.Plugins.Register(noopName, func(io.Reader) (admission.Interface, error) {
		return noop{admission.NewHandler(admission.Create, admission.Update, admission.Delete)}, nil
	})
	plugins.DefaultOffPlugins.Insert(noopName)

	fs := pflag.NewFlagSet("kube-apiserver-kausality", pflag.ContinueOnError)
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	sets := o.Flags()
	for _, set := range sets.FlagSets {
		fs.AddFlagSet(set)
	}
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil
		}
		return err
	}
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	completed, err := o.Complete(ctx)
	if err != nil {
		return err
	}
	if errs := completed.Validate(); len(errs) > 0 {
		return utilerrors.NewAggregate(errs)
	}
	config, err := app.NewConfig(completed)
	if err != nil {
		return err
	}
	if err := k.AddTo(&config.Aggregator.GenericConfig.Config); err != nil {
		return err
	}
	complete, err := config.Complete()
	if err != nil {
		return err
	}
	server, err := app.CreateServerChain(complete)
	if err != nil {
		return err
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return err
	}
	return prepared.Run(ctx)
}

// noop is a plugin that does nothing: benchmarks compare with it.
type noop struct{ *admission.Handler }

const noopName = "Noop"

func (noop) Admit(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return nil
}

func (noop) Validate(context.Context, admission.Attributes, admission.ObjectInterfaces) error {
	return nil
}
