// The status that kstatus computes of objects, as Flux, cli-utils and other deployment tools do.
//
// Standard input has one object a line, standard output one answer a line, in the same order:
//
//	{"status": STATUS, "message": WHY}
package main

import (
	"bufio"
	"encoding/json"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

type answer struct {
	Status  string `json:"status"`
	Message string `json:"message"`
}

func main() {
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<22)
	output := json.NewEncoder(os.Stdout)
	for input.Scan() {
		var object unstructured.Unstructured
		if err := object.UnmarshalJSON(input.Bytes()); err != nil {
			log.Fatal(err)
		}
		computed, err := status.Compute(&object)
		if err != nil {
			log.Fatal(err)
		}
		if err := output.Encode(answer{computed.Status.String(), computed.Message}); err != nil {
			log.Fatal(err)
		}
	}
	if err := input.Err(); err != nil {
		log.Fatal(err)
	}
}
