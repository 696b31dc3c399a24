package main

import (
	"errors"
	"fmt"
	"os"

	helm "helm.sh/helm/v4/pkg/cmd"
	"helm.sh/helm/v4/pkg/kube"
)

// runHelm carries out one command of Helm, as the helm program itself does.
func runHelm() int {
	// Objects name their field manager by the program, which has another name here.
	kube.ManagedFieldsManager = "helm"
	command, err := helm.NewRootCmd(os.Stdout, os.Args[1:], helm.SetupLogging)
	if err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		return 1
	}
	if err := command.Execute(); err != nil {
		var failed helm.CommandError
		if errors.As(err, &failed) {
			return failed.ExitCode
		}
		return 1
	}
	return 0
}
