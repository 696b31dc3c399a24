// Command modelplane-kubernetes is a whole Kubernetes control plane in one
// static binary: etcd, kube-apiserver, kube-controller-manager and
// kube-scheduler, the last three also as one process, with kubectl for
// whoever has none, and with helm, which installs what serving needs on a
// cluster.
//
// The first argument, or the name the binary is called by, picks the program;
// the rest are that program's own arguments, unchanged.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	kubectlutil "k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

// programs maps the name of each program to its entry point. An entry point
// reads os.Args and returns the exit status.
var programs = map[string]func() int{
	"etcd":                    serve(runEtcd, 0),
	"control-plane":           serve(runControlPlane, startBytes),
	"kube-apiserver":          func() int { return run(apiserver.NewAPIServerCommand()) },
	"kube-controller-manager": func() int { return run(controllermanager.NewControllerManagerCommand()) },
	"kube-scheduler":          func() int { return run(scheduler.NewSchedulerCommand()) },
	"kubectl":                 runKubectl,
	"helm":                    runHelm,
}

// serve makes of a program one that runs for long on a machine with other things to do.
func serve(program func() int, startBytes int) func() int {
	return func() int {
		// Nobody reads the profile, which takes megabytes.
		runtime.MemProfileRate = 0
		go giveBackMemory(startBytes)
		return program()
	}
}

func runEtcd() int {
	etcdmain.Main(os.Args)
	return 0
}

func run(command *cobra.Command) int { return cli.Run(command) }

func runKubectl() int {
	if err := cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand()); err != nil {
		kubectlutil.CheckErr(err)
	}
	return 0
}

func main() {
	name := filepath.Base(os.Args[0])
	program, ok := programs[name]
	if !ok && len(os.Args) > 1 {
		name = os.Args[1]
		if program, ok = programs[name]; ok {
			os.Args = os.Args[1:]
		}
	}
	if !ok {
		fmt.Fprintf(os.Stderr, "usage: %s PROGRAM [ARGUMENT ...]\nprograms: %s\n",
			filepath.Base(os.Args[0]), strings.Join(names(), ", "))
		os.Exit(2)
	}
	os.Exit(program())
}

func names() []string {
	all := make([]string, 0, len(programs))
	for name := range programs {
		all = append(all, name)
	}
	sort.Strings(all)
	return all
}
