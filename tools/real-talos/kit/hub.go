package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// hub is the first process in the outer namespaces. When it ends, the kernel
// ends every process in them, and with those go all mounts and networks.
func hub(arguments []string) error {
	if len(arguments) != 1 {
		return fmt.Errorf("usage: kit hub SPEC")
	}
	spec, err := readSpec(arguments[0])
	if err != nil {
		return err
	}
	if err := network(spec); err != nil {
		return err
	}
	images, err := net.Listen("tcp", hubAddress+":5000")
	if err != nil {
		return err
	}
	go func() { log.Fatal(http.Serve(images, registry(spec.Images))) }()
	if err := discovery(spec); err != nil {
		return err
	}
	if err := balance(spec); err != nil {
		return err
	}

	machines := map[string]*machine{}
	for _, node := range spec.Nodes {
		if err := prepare(spec, node); err != nil {
			return fmt.Errorf("%s: %w", node.Name, err)
		}
		machines[node.Name] = &machine{spec: spec, path: arguments[0], node: node}
	}
	socket := filepath.Join(spec.Folder, "control.sock")
	_ = os.Remove(socket)
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go func() { log.Fatal(http.Serve(listener, control(machines))) }()
	log.Print("hub is ready")

	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	<-ended
	return nil
}

func run(name string, arguments ...string) error {
	output, err := exec.Command(name, arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(arguments, " "), err, strings.TrimSpace(string(output)))
	}
	return nil
}

// all runs commands of `ip`, one on each line.
func all(lines string) error {
	for _, line := range strings.Split(strings.TrimSpace(lines), "\n") {
		if err := run("ip", strings.Fields(line)...); err != nil {
			return err
		}
	}
	return nil
}

// network makes a bridge for the cables of the nodes, and routes between the networks of
// their pods. Nothing leads out.
func network(spec *spec) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("private mounts: %w", err)
	}
	// Names of network namespaces are files below /run/netns: ours, not the host's.
	if err := syscall.Mount("tmpfs", "/run", "tmpfs", 0, "mode=755"); err != nil {
		return fmt.Errorf("a /run of our own: %w", err)
	}
	if err := all("link set lo up\n" +
		"link add br0 type bridge\n" +
		"addr add " + hubAddress + hubPrefix + " dev br0\n" +
		"link set br0 up"); err != nil {
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644); err != nil {
		return err
	}
	for _, node := range spec.Nodes {
		if err := all("route add " + node.podNetwork() + " via " + node.Address); err != nil {
			return err
		}
	}
	return nil
}

// plugging: one at a time, since `ip` prepares the folder of the namespaces as it goes.
var plugging sync.Mutex

// plug gives a node a network namespace with one cable to the bridge, a new one for each
// boot: rules, bridges and addresses of the last boot are gone, as on a machine.
func plug(node nodeSpec) error {
	plugging.Lock()
	defer plugging.Unlock()
	_ = run("ip", "link", "del", node.Name)
	_ = run("ip", "netns", "del", node.Name)
	replace := strings.NewReplacer("NODE", node.Name, "ADDRESS", node.Address+hubPrefix, "HUB", hubAddress,
		"CARD", node.card())
	return all(replace.Replace(`netns add NODE
		-n NODE link set lo up
		link add NODE type veth peer name eth0 netns NODE
		link set NODE master br0
		-n NODE link set eth0 address CARD
		-n NODE addr add ADDRESS dev eth0
		-n NODE link set eth0 up
		-n NODE route add default via HUB`))
}

func discovery(spec *spec) error {
	output, err := logFile(spec, "discovery")
	if err != nil {
		return err
	}
	command := exec.Command(spec.Discovery, "-addr", hubAddress+":3000",
		"-landing-addr", "", "-metrics-addr", "", "-snapshots-enabled=false")
	command.Stdout, command.Stderr = output, output
	if err := command.Start(); err != nil {
		return err
	}
	go func() { log.Fatalf("discovery service ended: %v", command.Wait()) }()
	return nil
}

func logFile(spec *spec, name string) (*os.File, error) {
	path := filepath.Join(spec.Folder, "log", name+".log")
	return os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
}

// machine is a node's hardware: a power switch, and boots while it is on.
type machine struct {
	spec *spec
	path string
	node nodeSpec

	lock  sync.Mutex
	on    bool
	boots int
	child *os.Process
	done  chan struct{}
}

// control answers POST /NODE/on, /NODE/off, /NODE/learner/add, /NODE/learner/remove
// and GET /.
func control(machines map[string]*machine) http.Handler {
	mux := http.NewServeMux()
	act := func(action func(*machine) error) http.HandlerFunc {
		return func(answer http.ResponseWriter, request *http.Request) {
			machine := machines[request.PathValue("node")]
			if machine == nil {
				http.Error(answer, "no such node", http.StatusNotFound)
			} else if err := action(machine); err != nil {
				http.Error(answer, err.Error(), http.StatusInternalServerError)
			}
		}
	}
	mux.HandleFunc("POST /{node}/on", act((*machine).switchOn))
	mux.HandleFunc("POST /{node}/off", act((*machine).switchOff))
	for _, action := range []string{"add", "remove"} {
		mux.HandleFunc("POST /{node}/learner/"+action, act(func(m *machine) error { return m.learner(action) }))
	}
	mux.HandleFunc("GET /{$}", func(answer http.ResponseWriter, _ *http.Request) {
		states := map[string]any{}
		for name, machine := range machines {
			machine.lock.Lock()
			states[name] = map[string]any{"on": machine.on, "boots": machine.boots}
			machine.lock.Unlock()
		}
		_ = json.NewEncoder(answer).Encode(states)
	})
	return mux
}

func (m *machine) switchOn() error {
	m.lock.Lock()
	defer m.lock.Unlock()
	if m.on {
		return nil
	}
	m.on, m.done = true, make(chan struct{})
	go m.loop(m.done)
	return nil
}

// switchOff is pulling the plug: nothing is told, nothing is written.
func (m *machine) switchOff() error {
	m.lock.Lock()
	on, child, done := m.on, m.child, m.done
	m.on = false
	m.lock.Unlock()
	if !on {
		return nil
	}
	m.cable("down")
	if child != nil {
		// The first process of the node does not always die with the one above it: the kernel
		// forgets the death signal when machined changes the capabilities of that thread.
		below := children(child.Pid)
		_ = child.Kill()
		for _, process := range below {
			_ = syscall.Kill(process, syscall.SIGKILL)
		}
	}
	select {
	case <-done:
		return nil
	case <-time.After(time.Minute):
		return fmt.Errorf("%s still has processes after a minute", m.node.Name)
	}
}

func (m *machine) cable(state string) {
	if err := run("ip", "link", "set", m.node.Name, state); err != nil {
		log.Print(err)
	}
}

func (m *machine) isOn() bool {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.on
}

// loop boots the node until it is switched off.
func (m *machine) loop(done chan struct{}) {
	defer close(done)
	for m.isOn() {
		err := plug(m.node)
		if err == nil {
			m.cable("up")
			err = m.once()
		}
		m.cable("down")
		log.Printf("%s went down: %v", m.node.Name, err)
		groups, _ := controlGroups(m.spec.Cgroup, m.node.Name)
		if err := emptied(groups, time.Minute); err != nil {
			log.Printf("%s: %v", m.node.Name, err)
		}
		for second := 0; second < m.spec.OffSeconds && m.isOn(); second++ {
			time.Sleep(time.Second)
		}
	}
}

func (m *machine) once() error {
	output, err := logFile(m.spec, m.node.Name)
	if err != nil {
		return err
	}
	defer output.Close()
	self, err := os.Executable()
	if err != nil {
		return err
	}
	// Not `ip netns exec`: that would hide the control groups behind a new /sys.
	command := exec.Command("nsenter", "--net=/run/netns/"+m.node.Name, "--", self, "boot", m.path, m.node.Name)
	command.Stdout, command.Stderr = output, output

	m.lock.Lock()
	if !m.on {
		m.lock.Unlock()
		return nil
	}
	err = command.Start()
	if err == nil {
		m.child = command.Process
		m.boots++
		log.Printf("%s boots (%d)", m.node.Name, m.boots)
	}
	m.lock.Unlock()
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	go m.configureNetwork(ended)
	err = command.Wait()
	close(ended)
	m.lock.Lock()
	m.child = nil
	m.lock.Unlock()
	return err
}

// configureNetwork writes the configuration of the pods' network wherever a boot came
// up without it, as the pods of a network plugin do: Talos 1.14 has nothing but memory
// there.
func (m *machine) configureNetwork(ended chan struct{}) {
	for tick := time.NewTicker(time.Second); ; {
		select {
		case <-ended:
			tick.Stop()
			return
		case <-tick.C:
		}
		root, err := m.root()
		if err != nil {
			continue
		}
		file := filepath.Join(root, networkFile)
		if _, err := os.Stat(filepath.Dir(file)); err != nil {
			continue
		}
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			err := os.WriteFile(file, []byte(m.node.networkConfig()), 0o644)
			// Its memory goes first when a node shuts down.
			if err != nil && !errors.Is(err, syscall.EROFS) {
				log.Printf("%s: %v", m.node.Name, err)
			}
		}
	}
}

// root is where the files of a running node are.
func (m *machine) root() (string, error) {
	m.lock.Lock()
	child := m.child
	m.lock.Unlock()
	if child == nil {
		return "", fmt.Errorf("%s is off", m.node.Name)
	}
	for _, process := range children(child.Pid) {
		root := fmt.Sprintf("/proc/%d/root", process)
		// Before it has changed its root, it has the machine's.
		if _, err := os.Stat(filepath.Join(root, "usr/etc/in-container")); err == nil {
			return root, nil
		}
	}
	return "", fmt.Errorf("%s has not begun to boot", m.node.Name)
}

// children of a process, which belong to the threads that started them.
func children(process int) []int {
	var found []int
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", process))
	for _, thread := range threads {
		text, _ := os.ReadFile(thread)
		for _, word := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(word); err == nil {
				found = append(found, child)
			}
		}
	}
	return found
}
