// What Kubernetes' own code answers to questions about device selectors.
//
// The one argument is a file of devices by name. Standard input has one question a line, standard output one
// answer a line, in the same order:
//
//	{"selector": TEXT}  {"refused": WHY} or {"estimate": COST, "devices": {NAME: {"answer": ANSWER, "cost": COST}}}
//	{"quantity": TEXT}  {"refused": WHY} or {"value": DECIMAL, "integer": BOOL}
//
// ANSWER is match, false, failed or "not boolean". A selector is refused when the API server would not store it: it does
// not compile, or its estimated cost is beyond the limit.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/dynamic-resource-allocation/cel"
)

type question struct {
	Selector *string `json:"selector"`
	Quantity *string `json:"quantity"`
}

type reply struct {
	Refused  string             `json:"refused,omitempty"`
	Estimate *uint64            `json:"estimate,omitempty"`
	Devices  map[string]verdict `json:"devices,omitempty"`
	Value    string             `json:"value,omitempty"`
	Integer  bool               `json:"integer,omitempty"`
}

type verdict struct {
	Answer string `json:"answer"`
	Cost   uint64 `json:"cost"`
	Error  string `json:"error,omitempty"`
}

func main() {
	devices := readDevices(os.Args[1])
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<20)
	output := json.NewEncoder(os.Stdout)
	last := compile("")
	for input.Scan() {
		var asked question
		if err := json.Unmarshal(input.Bytes(), &asked); err != nil {
			log.Fatal(err)
		}
		answered := reply{Refused: "neither a selector nor a quantity"}
		if asked.Selector != nil {
			// One whose answer may depend on the order of a map is asked many times in a row.
			if last.text != *asked.Selector {
				last = compile(*asked.Selector)
			}
			answered = answerSelector(last, devices)
		} else if asked.Quantity != nil {
			answered = answerQuantity(*asked.Quantity)
		}
		if err := output.Encode(answered); err != nil {
			log.Fatal(err)
		}
	}
}

func readDevices(path string) map[string]cel.Device {
	text, err := os.ReadFile(path)
	if err != nil {
		log.Fatal(err)
	}
	var read map[string]struct {
		Driver     string
		Attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
		Capacity   map[resourceapi.QualifiedName]resource.Quantity
	}
	if err := json.Unmarshal(text, &read); err != nil {
		log.Fatal(err)
	}
	devices := map[string]cel.Device{}
	for name, device := range read {
		capacity := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
		for key, value := range device.Capacity {
			capacity[key] = resourceapi.DeviceCapacity{Value: value}
		}
		devices[name] = cel.Device{Driver: device.Driver, Attributes: device.Attributes, Capacity: capacity}
	}
	return devices
}

// program is a selector that was compiled.
type program struct {
	text     string
	refused  string
	estimate uint64
	compiled cel.CompilationResult
}

// compile makes a program of a selector, also of one that is refused.
func compile(text string) program {
	if len(text) > resourceapi.CELSelectorExpressionMaxLength {
		return program{text: text, refused: "too long"}
	}
	compiler := cel.GetCompiler(cel.Features{})
	// What the API server asks before it stores a new selector.
	written := environment.NewExpressions
	admitted := compiler.CompileCELExpression(text, cel.Options{EnvType: &written})
	if admitted.Error != nil {
		return program{text: text, refused: admitted.Error.Detail}
	}
	if admitted.MaxCost > resourceapi.CELSelectorExpressionMaxCost {
		return program{text: text, refused: fmt.Sprintf("estimated cost %d", admitted.MaxCost)}
	}
	// What the allocator runs.
	compiled := compiler.CompileCELExpression(text, cel.Options{DisableCostEstimation: true})
	return program{text: text, estimate: admitted.MaxCost, compiled: compiled}
}

func answerSelector(asked program, devices map[string]cel.Device) reply {
	if asked.refused != "" {
		return reply{Refused: asked.refused}
	}
	verdicts := map[string]verdict{}
	for name, device := range devices {
		verdicts[name] = evaluate(asked.compiled, device)
	}
	return reply{Estimate: &asked.estimate, Devices: verdicts}
}

func evaluate(compiled cel.CompilationResult, device cel.Device) verdict {
	// Adding to a large quantity changes the device's own, so each selector gets one of its own.
	capacity := map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{}
	for key, value := range device.Capacity {
		capacity[key] = *value.DeepCopy()
	}
	device.Capacity = capacity
	matches, details, err := compiled.DeviceMatches(context.Background(), device)
	var cost uint64
	if details != nil && details.ActualCost() != nil {
		cost = *details.ActualCost()
	}
	switch {
	case err != nil && strings.HasPrefix(err.Error(), "CEL result of type"):
		return verdict{"not boolean", cost, err.Error()}
	case err != nil:
		return verdict{"failed", cost, err.Error()}
	case matches:
		return verdict{"match", cost, ""}
	default:
		return verdict{"false", cost, ""}
	}
}

func answerQuantity(text string) reply {
	parsed, err := resource.ParseQuantity(text)
	if err != nil {
		return reply{Refused: err.Error()}
	}
	_, integer := parsed.AsInt64()
	return reply{Value: parsed.AsDec().String(), Integer: integer}
}
