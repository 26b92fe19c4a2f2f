// config: machine configs, a talosconfig and a secrets bundle for a cluster of
// real Talos nodes in namespaces.
//
//	config FOLDER CLUSTER KUBERNETES HUB control-plane:NAME=ADDRESS... worker:NAME=ADDRESS...
//
// HUB is the address where the registry (port 5000), the discovery service (port
// 3000) and the load balancer of the API servers (port 6443) listen.
package main

import (
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/config"
	"github.com/siderolabs/talos/pkg/machinery/config/configpatcher"
	"github.com/siderolabs/talos/pkg/machinery/config/generate"
	"github.com/siderolabs/talos/pkg/machinery/config/generate/secrets"
	"github.com/siderolabs/talos/pkg/machinery/config/machine"
)

// What makes a config fit nodes in namespaces; NODE and HUB are filled in.
//
//go:embed patch.yaml
var patch string

// The same for control planes alone.
//
//go:embed control-plane.yaml
var controlPlanePatch string

type node struct {
	kind          machine.Type
	name, address string
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "config:", err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) < 5 {
		return fmt.Errorf("usage: config FOLDER CLUSTER KUBERNETES HUB KIND:NAME=ADDRESS...")
	}
	folder, cluster, kubernetes, hub := arguments[0], arguments[1], arguments[2], arguments[3]
	nodes, controlPlanes, err := parseNodes(arguments[4:])
	if err != nil {
		return err
	}
	contract := config.TalosVersion1_13
	// Valid since an hour ago: the clocks of a cluster may differ a little.
	bundle, err := secrets.NewBundle(secrets.NewFixedClock(time.Now().Add(-time.Hour)), contract)
	if err != nil {
		return err
	}
	input, err := generate.NewInput(cluster, "https://"+hub+":6443", kubernetes,
		generate.WithVersionContract(contract),
		generate.WithSecretsBundle(bundle),
		generate.WithEndpointList(controlPlanes),
		generate.WithAdditionalSubjectAltNames(controlPlanes),
		generate.WithInstallDisk("/dev/vda"),
	)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if err := write(folder, hub, input, node); err != nil {
			return fmt.Errorf("%s: %w", node.name, err)
		}
	}
	talosconfig, err := input.Talosconfig()
	if err != nil {
		return err
	}
	talosconfig.Contexts[cluster].Endpoints = controlPlanes
	talosconfig.Contexts[cluster].Nodes = controlPlanes[:1]
	return talosconfig.Save(filepath.Join(folder, "talosconfig"))
}

func parseNodes(arguments []string) (nodes []node, controlPlanes []string, err error) {
	for _, argument := range arguments {
		kind, rest, _ := strings.Cut(argument, ":")
		name, address, found := strings.Cut(rest, "=")
		if !found {
			return nil, nil, fmt.Errorf("%q is not KIND:NAME=ADDRESS", argument)
		}
		switch kind {
		case "control-plane":
			nodes = append(nodes, node{machine.TypeControlPlane, name, address})
			controlPlanes = append(controlPlanes, address)
		case "worker":
			nodes = append(nodes, node{machine.TypeWorker, name, address})
		default:
			return nil, nil, fmt.Errorf("%q is neither control-plane nor worker", kind)
		}
	}
	if len(controlPlanes) == 0 {
		return nil, nil, fmt.Errorf("no control plane")
	}
	return nodes, controlPlanes, nil
}

func write(folder, hub string, input *generate.Input, node node) error {
	generated, err := input.Config(node.kind)
	if err != nil {
		return err
	}
	texts := []string{patch}
	if node.kind == machine.TypeControlPlane {
		texts = append(texts, controlPlanePatch)
	}
	var patches []configpatcher.Patch
	for _, text := range texts {
		text = strings.NewReplacer("NODE", node.name, "HUB", hub).Replace(text)
		parsed, err := configpatcher.LoadPatch([]byte(text))
		if err != nil {
			return err
		}
		patches = append(patches, parsed)
	}
	patched, err := configpatcher.Apply(configpatcher.WithConfig(generated), patches)
	if err != nil {
		return err
	}
	contents, err := patched.Bytes()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, node.name+".yaml"), contents, 0o600)
}
