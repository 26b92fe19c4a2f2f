package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
)

// spec is the cluster as `cargo xtask real-talos` wants it.
type spec struct {
	// Folder holds everything that changes: nodes, logs, the control socket.
	Folder string `json:"folder"`
	// Images is the folder that the registry serves.
	Images string `json:"images"`
	// Discovery is the discovery service.
	Discovery string `json:"discovery"`
	// Roots are root filesystems by Talos version.
	Roots map[string]string `json:"roots"`
	// Cgroup is the name of the control group that all nodes are below.
	Cgroup string `json:"cgroup"`
	// OffSeconds is how long a machine is dark between two boots.
	OffSeconds int        `json:"offSeconds"`
	Nodes      []nodeSpec `json:"nodes"`
}

type nodeSpec struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	// ControlPlane nodes are behind the load balancer.
	ControlPlane bool `json:"controlPlane"`
	// Pods is the third byte of the network that its pods have.
	Pods int `json:"pods"`
	// Config is the file with its machine config.
	Config string `json:"config"`
	// Version is what its first boot runs.
	Version string `json:"version"`
}

// The hub's network. It exists inside our namespaces only.
const (
	hubAddress = "10.5.0.1"
	hubPrefix  = "/24"
)

func readSpec(path string) (*spec, error) {
	contents, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var read spec
	return &read, json.Unmarshal(contents, &read)
}

func (s *spec) node(name string) (nodeSpec, error) {
	for _, node := range s.Nodes {
		if node.Name == name {
			return node, nil
		}
	}
	return nodeSpec{}, fmt.Errorf("no node is called %s", name)
}

// place is a path in the folder of a node.
func (s *spec) place(node string, parts ...string) string {
	return filepath.Join(append([]string{s.Folder, "nodes", node}, parts...)...)
}

func (n nodeSpec) podNetwork() string { return fmt.Sprintf("10.244.%d.0/24", n.Pods) }

// card is the hardware address of its network card, the same at every boot.
func (n nodeSpec) card() string {
	bytes := netip.MustParseAddr(n.Address).As4()
	return fmt.Sprintf("02:00:%02x:%02x:%02x:%02x", bytes[0], bytes[1], bytes[2], bytes[3])
}
