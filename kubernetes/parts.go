package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	apiserveroptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	controllermanageroptions "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	scheduleroptions "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
)

const (
	apiServerName         = "kube-apiserver"
	controllerManagerName = "kube-controller-manager"
	schedulerName         = "kube-scheduler"

	askEvery = 50 * time.Millisecond
)

// parseParts reads the arguments of the parts: the name of each, and then its own. It returns the API
// server, what is closed when that is ready, and those of its clients that are named.
//
// What is global in a process is the API server's to set: logging and the feature gates.
func parseParts(arguments []string) (part, <-chan struct{}, []part, error) {
	own, err := split(arguments)
	if err != nil {
		return part{}, nil, nil, err
	}
	if _, named := own[apiServerName]; !named {
		return part{}, nil, nil, fmt.Errorf("%s is not named", apiServerName)
	}
	ready := make(chan struct{})
	server, err := parseAPIServer(own[apiServerName], ready)
	if err != nil {
		return part{}, nil, nil, fmt.Errorf("%s: %w", apiServerName, err)
	}
	var clients []part
	for name, parse := range map[string]func([]string) (part, error){
		controllerManagerName: parseControllerManager,
		schedulerName:         parseScheduler,
	} {
		given, named := own[name]
		if !named {
			continue
		}
		client, err := parse(given)
		if err != nil {
			return part{}, nil, nil, fmt.Errorf("%s: %w", name, err)
		}
		clients = append(clients, client)
	}
	return server, ready, clients, nil
}

func split(arguments []string) (map[string][]string, error) {
	own := map[string][]string{}
	name := ""
	for _, argument := range arguments {
		switch {
		case argument == apiServerName || argument == controllerManagerName || argument == schedulerName:
			name = argument
			own[name] = []string{}
		case name == "":
			return nil, fmt.Errorf("%q precedes the name of a part", argument)
		default:
			own[name] = append(own[name], argument)
		}
	}
	return own, nil
}

func parseFlags(name string, sets *cliflag.NamedFlagSets, arguments []string) error {
	globalflag.AddGlobalFlags(sets.FlagSet("global"), name, logs.SkipLoggingConfigurationFlags())
	flags := pflag.NewFlagSet(name, pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected arguments: %q", flags.Args())
	}
	return nil
}

func parseAPIServer(arguments []string, ready chan<- struct{}) (part, error) {
	if err := shareEtcdConnection(); err != nil {
		return part{}, err
	}
	options := apiserveroptions.NewServerRunOptions()
	sets := options.Flags()
	if err := parseFlags(apiServerName, &sets, arguments); err != nil {
		return part{}, err
	}
	registry := options.GenericServerRunOptions.ComponentGlobalsRegistry
	if err := registry.Set(); err != nil {
		return part{}, err
	}
	gates := registry.FeatureGateFor(compatibility.DefaultKubeComponent)
	if err := logsapi.ValidateAndApply(options.Logs, gates); err != nil {
		return part{}, err
	}
	// Its clients of itself would log what it warns of.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	gates.(featuregate.MutableFeatureGate).AddMetrics()
	registry.AddMetrics()
	run := func(ctx context.Context) error {
		completed, err := options.Complete(ctx)
		if err != nil {
			return err
		}
		if errs := completed.Validate(); len(errs) != 0 {
			return errors.Join(errs...)
		}
		return runAPIServer(ctx, completed, ready)
	}
	return part{apiServerName, run}, nil
}

// runAPIServer is apiserver.Run that also tells when the server is ready.
func runAPIServer(ctx context.Context, options apiserveroptions.CompletedOptions, ready chan<- struct{}) error {
	config, err := apiserver.NewConfig(options)
	if err != nil {
		return err
	}
	completed, err := config.Complete()
	if err != nil {
		return err
	}
	server, err := apiserver.CreateServerChain(completed)
	if err != nil {
		return err
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(server.GenericAPIServer.LoopbackClientConfig)
	if err != nil {
		return err
	}
	go func() {
		for ctx.Err() == nil {
			if client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil {
				close(ready)
				return
			}
			time.Sleep(askEvery)
		}
	}()
	return prepared.Run(ctx)
}

func parseControllerManager(arguments []string) (part, error) {
	options, err := controllermanageroptions.NewKubeControllerManagerOptions()
	if err != nil {
		return part{}, err
	}
	known := controllermanager.KnownControllers()
	disabled := controllermanager.ControllersDisabledByDefault()
	aliases := controllermanager.ControllerAliases()
	sets := options.Flags(known, disabled, aliases)
	options.ParsedFlags = &sets
	if err := parseFlags(controllerManagerName, &sets, arguments); err != nil {
		return part{}, err
	}
	run := func(ctx context.Context) error {
		config, err := options.Config(ctx, known, disabled, aliases)
		if err != nil {
			return err
		}
		return controllermanager.Run(ctx, config.Complete())
	}
	return part{controllerManagerName, run}, nil
}

func parseScheduler(arguments []string) (part, error) {
	options := scheduleroptions.NewOptions()
	if err := parseFlags(schedulerName, options.Flags, arguments); err != nil {
		return part{}, err
	}
	run := func(ctx context.Context) error {
		config, binder, err := scheduler.Setup(ctx, options)
		if err != nil {
			return err
		}
		return scheduler.Run(ctx, config, binder)
	}
	return part{schedulerName, run}, nil
}
