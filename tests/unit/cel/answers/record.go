//go:build ignore

// Records what Kubernetes' own code answers to the questions on standard input, one JSON object a line:
// {"Kind": "e", "Text": a selector} or {"Kind": "q", "Text": a quantity}. From the folder kubernetes/:
//
//	go run -mod=mod ../tests/unit/cel/answers/record.go < questions
//
// The device is that of test_kubernetes_answers.py. Answers: refused (does not compile), failed (error on this
// device), match, false; for a quantity, its decimal value and whether it is an integer, or error.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/cel"
)

func p[T any](v T) *T { return &v }

func main() {
	dev := cel.Device{Driver: "gpu.nvidia.com",
		Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			"architecture": {StringValue: p("Hopper")}, "cudaComputeCapability": {VersionValue: p("9.0.0")},
			"n": {IntValue: p(int64(8))}, "ecc": {BoolValue: p(true)}, "other.com/x": {StringValue: p("y")}},
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{"memory": {Value: resource.MustParse("80Gi")}}}
	s := bufio.NewScanner(os.Stdin)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var line struct{ Kind, Text string }
		json.Unmarshal(s.Bytes(), &line)
		if line.Kind == "q" {
			q, err := resource.ParseQuantity(line.Text)
			if err != nil {
				fmt.Println("error")
				continue
			}
			_, isint := q.AsInt64()
			fmt.Println(q.AsDec().String(), isint)
			continue
		}
		r := cel.GetCompiler(cel.Features{}).CompileCELExpression(line.Text, cel.Options{DisableCostEstimation: true})
		if r.Error != nil {
			fmt.Println("refused")
			continue
		}
		ok, _, err := r.DeviceMatches(context.Background(), dev)
		switch {
		case err != nil:
			b, _ := json.Marshal(err.Error())
			fmt.Println("failed", string(b))
		case ok:
			fmt.Println("match")
		default:
			fmt.Println("false")
		}
	}
}
