package main

import (
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// prepare makes the folders that stay over the boots of a node: its disk.
func prepare(spec *spec, node nodeSpec) error {
	for _, folder := range []string{
		"var", "state", "boot", "root", "opt", "etc/cni/net.d", "etc/kubernetes/manifests", "usr/libexec/kubernetes",
	} {
		if err := os.MkdirAll(spec.place(node.Name, folder), 0o755); err != nil {
			return err
		}
	}
	next := spec.place(node.Name, "boot", "next")
	if _, err := os.Stat(next); errors.Is(err, os.ErrNotExist) {
		if err := os.WriteFile(next, []byte(node.Version), 0o644); err != nil {
			return err
		}
		plugins := filepath.Join(spec.Roots[node.Version], "opt", ".")
		if err := run("cp", "-r", plugins+"/.", spec.place(node.Name, "opt")); err != nil {
			return err
		}
	}
	return os.WriteFile(spec.place(node.Name, networkFile), []byte(node.networkConfig()), 0o644)
}

// networkFile is the configuration of the pods' network, on the disk of a node and in its root.
const networkFile = "etc/cni/net.d/10-pods.conflist"

func (n nodeSpec) networkConfig() string {
	return `{"cniVersion":"0.4.0","name":"pods","plugins":[` +
		`{"type":"bridge","bridge":"cni0","isGateway":true,"ipMasq":false,"hairpinMode":true,` +
		`"ipam":{"type":"host-local","ranges":[[{"subnet":"` + n.podNetwork() + `"}]],"routes":[{"dst":"0.0.0.0/0"}]}}]}`
}

// boot is one boot of a node. It runs in the network namespace of the node, and
// with it dies the node.
func boot(arguments []string) error {
	// The kernel sends the death signal when this thread ends, not the process.
	runtime.LockOSThread()
	if len(arguments) != 2 {
		return fmt.Errorf("usage: kit boot SPEC NODE")
	}
	spec, err := readSpec(arguments[0])
	if err != nil {
		return err
	}
	groups, err := controlGroups(spec.Cgroup, arguments[1])
	if err != nil {
		return err
	}
	if err := join(groups); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := exec.Command(self, "init", arguments[0], arguments[1])
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWCGROUP,
		Pdeathsig:  syscall.SIGKILL,
	}
	return command.Run()
}

// becomeNode runs in the new namespaces: it builds the root of this boot from
// the version that was installed last, and becomes its init.
func becomeNode(arguments []string) error {
	if len(arguments) != 2 {
		return fmt.Errorf("usage: kit init SPEC NODE")
	}
	spec, err := readSpec(arguments[0])
	if err != nil {
		return err
	}
	node, err := spec.node(arguments[1])
	if err != nil {
		return err
	}
	version, err := os.ReadFile(spec.place(node.Name, "boot", "next"))
	if err != nil {
		return err
	}
	source, found := spec.Roots[strings.TrimSpace(string(version))]
	if !found {
		return fmt.Errorf("there is no root filesystem for version %q", version)
	}
	configuration, err := os.ReadFile(node.Config)
	if err != nil {
		return err
	}
	if err := syscall.Sethostname([]byte(node.Name)); err != nil {
		return err
	}
	builder := &rootBuilder{root: spec.place(node.Name, "root"), disk: spec.place(node.Name)}
	builder.build(source)
	if builder.err != nil {
		return builder.err
	}
	return syscall.Exec("/sbin/init", []string{"/sbin/init"}, []string{
		"PATH=/usr/bin",
		"PLATFORM=container",
		"TALOSSKU=2CPU-2048RAM",
		"USERDATA=" + base64.StdEncoding.EncodeToString(configuration),
	})
}

// rootBuilder does one thing after the other until the first error.
type rootBuilder struct {
	root, disk string
	err        error
}

func (b *rootBuilder) do(what string, action func() error) {
	if b.err == nil {
		if err := action(); err != nil {
			b.err = fmt.Errorf("%s: %w", what, err)
		}
	}
}

func (b *rootBuilder) at(path string) string { return filepath.Join(b.root, path) }

func (b *rootBuilder) mount(source, place, kind string, flags uintptr, data string) {
	b.do("mounting "+place, func() error { return syscall.Mount(source, b.at(place), kind, flags, data) })
}

func (b *rootBuilder) bind(source, place string) {
	b.mount(source, place, "", syscall.MS_BIND, "")
}

func (b *rootBuilder) folder(place string) {
	b.do("making "+place, func() error { return os.MkdirAll(b.at(place), 0o755) })
}

func (b *rootBuilder) link(place, target string) {
	b.do("linking "+place, func() error { return os.Symlink(target, b.at(place)) })
}

func (b *rootBuilder) build(source string) {
	b.do("private mounts", func() error { return syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, "") })
	b.bind(source, "")
	b.mount("", "", "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, "")
	for _, place := range []string{"run", "system", "tmp"} {
		b.mount("tmpfs", place, "tmpfs", 0, "mode=755")
	}
	b.bind(filepath.Join(b.disk, "var"), "var")
	b.folder("system/state")
	b.bind(filepath.Join(b.disk, "state"), "system/state")
	for _, place := range []string{"etc/cni", "etc/kubernetes", "usr/libexec/kubernetes", "opt"} {
		b.bind(filepath.Join(b.disk, place), place)
	}
	b.mount("proc", "proc", "proc", 0, "")
	b.bootID()
	b.mount("sysfs", "sys", "sysfs", 0, "")
	b.controlGroups()
	b.devices()
	b.do("changing the root", func() error {
		if err := os.Chdir(b.root); err != nil {
			return err
		}
		if err := syscall.PivotRoot(".", "old"); err != nil {
			return err
		}
		if err := syscall.Unmount("/old", syscall.MNT_DETACH); err != nil {
			return err
		}
		return os.Chdir("/")
	})
}

// bootID gives every boot an ID of its own; the kernel's is the host's.
func (b *rootBuilder) bootID() {
	b.do("a boot ID", func() error {
		id, err := os.ReadFile("/proc/sys/kernel/random/uuid")
		if err != nil {
			return err
		}
		return os.WriteFile(b.at("run/.boot_id"), id, 0o444)
	})
	b.bind(b.at("run/.boot_id"), "proc/sys/kernel/random/boot_id")
}

func (b *rootBuilder) controlGroups() {
	if unified() {
		b.mount("cgroup2", "sys/fs/cgroup", "cgroup2", 0, "")
		return
	}
	b.mount("tmpfs", "sys/fs/cgroup", "tmpfs", 0, "mode=755")
	for _, name := range controllers {
		place := "sys/fs/cgroup/" + name
		b.folder(place)
		options := name
		if name == "systemd" {
			options = "none,name=systemd"
		}
		b.mount("cgroup", place, "cgroup", 0, options)
	}
}

func (b *rootBuilder) devices() {
	b.mount("tmpfs", "dev", "tmpfs", 0, "mode=755")
	for _, device := range []struct {
		name         string
		major, minor int
	}{
		{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"kmsg", 1, 11}, {"tty", 5, 0},
	} {
		b.do("making "+device.name, func() error {
			path := b.at("dev/" + device.name)
			if err := syscall.Mknod(path, syscall.S_IFCHR|0o666, device.major<<8|device.minor); err != nil {
				return err
			}
			return os.Chmod(path, 0o666)
		})
	}
	for _, place := range []string{"dev/pts", "dev/shm", "dev/mqueue", bootChoice} {
		b.folder(place)
	}
	b.bind(filepath.Join(b.disk, "boot"), bootChoice)
	b.mount("devpts", "dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=620")
	b.mount("tmpfs", "dev/shm", "tmpfs", 0, "")
	b.mount("mqueue", "dev/mqueue", "mqueue", 0, "")
	b.link("dev/ptmx", "pts/ptmx")
	b.link("dev/fd", "/proc/self/fd")
	for number, name := range []string{"stdin", "stdout", "stderr"} {
		b.link("dev/"+name, fmt.Sprintf("/proc/self/fd/%d", number))
	}
}
