package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const cgroupRoot = "/sys/fs/cgroup"

// What a kubelet asks for in the first version of control groups.
var controllers = []string{"cpu", "cpuacct", "cpuset", "memory", "devices", "freezer", "blkio", "pids", "systemd"}

// unified says whether this machine has only the second version.
func unified() bool {
	_, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers"))
	return err == nil
}

// controlGroups are the groups of a node, one for each controller that is mounted,
// below the groups that this process is in.
func controlGroups(parent, node string) (map[string]string, error) {
	file, err := os.Open("/proc/self/cgroup")
	if err != nil {
		return nil, err
	}
	defer file.Close()
	own := map[string]string{}
	for scanner := bufio.NewScanner(file); scanner.Scan(); {
		parts := strings.SplitN(scanner.Text(), ":", 3)
		for _, name := range strings.Split(parts[1], ",") {
			own[strings.TrimPrefix(name, "name=")] = parts[2]
		}
	}
	below := func(path string) string {
		// A process of a node that looks for its siblings.
		if at := strings.Index(path, "/"+parent); at >= 0 {
			path = path[:at]
		}
		return filepath.Join(path, parent, node)
	}
	if unified() {
		return map[string]string{"": filepath.Join(cgroupRoot, below(own[""]))}, nil
	}
	groups := map[string]string{}
	for _, name := range controllers {
		path, found := own[name]
		if !found {
			return nil, fmt.Errorf("the controller %s is not mounted", name)
		}
		groups[name] = filepath.Join(cgroupRoot, name, below(path))
	}
	return groups, nil
}

// join makes the groups and moves this process into them.
func join(groups map[string]string) error {
	for name, path := range groups {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
		if name == "cpuset" {
			if err := inherit(path); err != nil {
				return err
			}
		}
		process := []byte(strconv.Itoa(os.Getpid()))
		if err := os.WriteFile(filepath.Join(path, "cgroup.procs"), process, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// inherit fills in the processors of a group and of the one above it: a new
// group has none, and nothing can join it.
func inherit(path string) error {
	for _, group := range []string{filepath.Dir(path), path} {
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			value, err := os.ReadFile(filepath.Join(filepath.Dir(group), file))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(group, file), value, 0o644); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(group, "cgroup.clone_children"), []byte("1"), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// emptied waits until nothing runs in the groups, and removes what is below them.
func emptied(groups map[string]string, limit time.Duration) error {
	deadline := time.Now().Add(limit)
	for {
		var last error
		for _, path := range groups {
			if err := removeTree(path); err != nil && !os.IsNotExist(err) {
				last = err
			}
		}
		if last == nil || time.Now().After(deadline) {
			return last
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func removeTree(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			if err := removeTree(filepath.Join(path, entry.Name())); err != nil {
				return err
			}
		}
	}
	return os.Remove(path)
}
