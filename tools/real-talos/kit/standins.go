package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pause waits until somebody ends it.
func pause([]string) error {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGINT, syscall.SIGTERM)
	<-ended
	return nil
}

// bootChoice is where a node finds the version that its next boot runs. Real
// nodes have a boot loader on a disk here.
const bootChoice = "/dev/next-boot"

// installer is what Talos runs as the installer image. It says a few lines and
// then writes the version of its image for the next boot. An image may hold
// /exit (a code to end with instead) and /seconds (how long it takes).
func installer(arguments []string) error {
	fmt.Println("arguments:", strings.Join(arguments, " "))
	configuration, err := io.ReadAll(os.Stdin)
	if err != nil {
		return err
	}
	fmt.Println("machine config on stdin:", len(configuration), "bytes")
	version, err := os.ReadFile("/version")
	if err != nil {
		return err
	}
	seconds := 2
	if text, err := os.ReadFile("/seconds"); err == nil {
		if seconds, err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil {
			return err
		}
	}
	for second := range seconds {
		fmt.Printf("installing %s: second %d of %d\n", version, second+1, seconds)
		time.Sleep(time.Second)
	}
	if text, err := os.ReadFile("/exit"); err == nil {
		code, err := strconv.Atoi(strings.TrimSpace(string(text)))
		if err != nil {
			return err
		}
		fmt.Println("this image ends with code", code, "and writes nothing")
		os.Exit(code)
	}
	// What boots now stays in the other slot, for a rollback.
	next := filepath.Join(bootChoice, "next")
	if current, err := os.ReadFile(next); err == nil && string(current) != string(version) {
		if err := os.WriteFile(filepath.Join(bootChoice, "previous"), current, 0o644); err != nil {
			return err
		}
	}
	if err := os.WriteFile(next, version, 0o644); err != nil {
		return err
	}
	fmt.Printf("installation of %s complete\n", version)
	return nil
}

// runc takes out of a bundle what the kernel refuses where CAP_SYS_RESOURCE is
// missing (negative OOM scores, limits above our own), then runs the real one.
func runc(arguments []string) error {
	bundle, creates := "", false
	for index, argument := range arguments {
		switch argument {
		case "--bundle", "-b":
			if index+1 < len(arguments) {
				bundle = arguments[index+1]
			}
		case "create", "run":
			creates = true
		}
	}
	if creates && bundle != "" {
		if err := relax(filepath.Join(bundle, "config.json")); err != nil {
			return err
		}
	}
	return syscall.Exec("/usr/bin/runc.real", append([]string{"runc"}, arguments...), os.Environ())
}

func relax(path string) error {
	contents, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var bundle map[string]any
	if err := json.Unmarshal(contents, &bundle); err != nil {
		return err
	}
	if process, ok := bundle["process"].(map[string]any); ok {
		delete(process, "oomScoreAdj")
		delete(process, "rlimits")
	}
	if contents, err = json.Marshal(bundle); err != nil {
		return err
	}
	return os.WriteFile(path, contents, 0o644)
}
