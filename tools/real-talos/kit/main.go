// kit: the few small programs that stand around real Talos nodes in namespaces.
//
// One static binary with several names, because it also has to run inside node
// images that hold nothing else:
//
//	kit hub SPEC          the first process of the outer namespaces: network,
//	                      registry, discovery, and one node after the other
//	kit boot SPEC NODE    one boot of one node, in the network namespace of the node
//	kit init SPEC NODE    builds the root of that boot and becomes Talos' init
//	kit image ...         writes a one-layer image into the registry's folder
//	kit observe ...       samples a running cluster once a second
//	pause                 what a pod sandbox runs
//	installer             stands in for the installer image
//	runc                  edits a bundle for a host without all capabilities
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	name, arguments := filepath.Base(os.Args[0]), os.Args[1:]
	if programs[name] == nil && len(arguments) > 0 {
		name, arguments = arguments[0], arguments[1:]
	}
	program := programs[name]
	if program == nil {
		fmt.Fprintln(os.Stderr, "usage: kit hub|boot|init|image|observe ...")
		os.Exit(2)
	}
	if err := program(arguments); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

var programs map[string]func([]string) error

func init() {
	programs = map[string]func([]string) error{
		"hub":       hub,
		"boot":      boot,
		"init":      becomeNode,
		"image":     image,
		"observe":   observe,
		"pause":     pause,
		"installer": installer,
		"runc":      runc,
	}
}
