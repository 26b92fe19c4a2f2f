package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// observe samples a cluster once a second until it is ended, and prints one JSON
// object on a line for each sample:
//
//	kit observe KUBECONFIG NAME=ADDRESS...
//
// The addresses are those of the control planes. Each API server is asked for
// /readyz and each etcd member for /health, again and again, all beside each other;
// a sample is what was known last. So one that refuses is down in the next sample,
// and one that is merely slow is up until it has not answered for `patience`. An API
// server whose only complaint is that etcd did not answer it in time is slow as well.
func observe(arguments []string) error {
	if len(arguments) < 2 {
		return fmt.Errorf("usage: kit observe KUBECONFIG NAME=ADDRESS...")
	}
	client, err := clientOf(arguments[0])
	if err != nil {
		return err
	}
	known := &known{sample: sample{API: map[string]string{}, Etcd: map[string]string{}}}
	var addresses []string
	for _, node := range arguments[1:] {
		name, address, _ := strings.Cut(node, "=")
		addresses = append(addresses, address)
		known.sample.API[name], known.sample.Etcd[name] = unasked, unasked
		slow := &slowness{}
		go known.follow(func() func(*sample) {
			problem := slow.judge(ask(client, "https://"+address+":6443/readyz", "ok"), time.Now())
			return func(sample *sample) { sample.API[name] = problem }
		})
		go known.follow(func() func(*sample) {
			problem := ask(client, "http://"+address+":2381/health", `"health":"true"`)
			return func(sample *sample) { sample.Etcd[name] = problem }
		})
	}
	go known.follow(func() func(*sample) { return pods(client, addresses) })
	for tick := time.NewTicker(time.Second); ; <-tick.C {
		if err := known.print(); err != nil {
			return err
		}
	}
}

type sample struct {
	// Milliseconds since 1970.
	Time int64 `json:"time"`
	// Problems by control plane: empty means that it answered well.
	API  map[string]string `json:"api"`
	Etcd map[string]string `json:"etcd"`
	// Ready pods by "namespace/app", of those with a label "app" or "k8s-app";
	// absent when no API server answered.
	Pods map[string]int `json:"pods,omitempty"`
	// All such pods that are not ready, with their node.
	Unready []string `json:"unready,omitempty"`
}

const (
	patience = 5 * time.Second
	unasked  = "not asked yet"
)

// known is what was learned last.
type known struct {
	lock   sync.Mutex
	sample sample
}

// follow asks every half second, and notes the answer.
func (k *known) follow(question func() func(*sample)) {
	for {
		note := question()
		k.lock.Lock()
		note(&k.sample)
		k.lock.Unlock()
		time.Sleep(500 * time.Millisecond)
	}
}

func (k *known) print() error {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.sample.Time = time.Now().UnixMilli()
	return json.NewEncoder(os.Stdout).Encode(k.sample)
}

func ask(client *http.Client, address, wanted string) string {
	answer, err := client.Get(address)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err != nil {
		return err.Error()
	}
	if answer.StatusCode != http.StatusOK || !strings.Contains(string(body), wanted) {
		return fmt.Sprintf("%s: %.400s", answer.Status, complaints(string(body)))
	}
	return ""
}

// complaints are the lines of /readyz that say what is not ready; any other answer is
// returned as it is.
func complaints(body string) string {
	var found []string
	for _, line := range strings.Split(body, "\n") {
		if strings.HasPrefix(line, "[-]") {
			found = append(found, line)
		}
	}
	if len(found) == 0 {
		return strings.TrimSpace(body)
	}
	return strings.Join(found, "; ")
}

// slowness remembers since when an API server that was up waits for etcd.
type slowness struct {
	down  bool
	since time.Time
}

// judge takes a complaint about etcd alone seriously once it is `patience` old, or if the
// server was down before. An API server asks etcd twice, for being healthy and for being
// ready, within two seconds each.
func (s *slowness) judge(problem string, now time.Time) string {
	etcd := strings.Count(problem, "[-]etcd failed") + strings.Count(problem, "[-]etcd-readiness failed")
	if etcd == 0 || strings.Count(problem, "[-]") != etcd {
		s.down, s.since = problem != "", time.Time{}
		return problem
	}
	if s.since.IsZero() {
		s.since = now
	}
	if !s.down && now.Sub(s.since) < patience {
		return ""
	}
	s.down = true
	return problem
}

// pods are read from the first API server that has them.
func pods(client *http.Client, addresses []string) func(*sample) {
	for _, address := range addresses {
		if ready, unready, err := podsAt(client, address); err == nil {
			return func(sample *sample) { sample.Pods, sample.Unready = ready, unready }
		}
	}
	return func(sample *sample) { sample.Pods, sample.Unready = nil, nil }
}

func podsAt(client *http.Client, address string) (map[string]int, []string, error) {
	answer, err := client.Get("https://" + address + ":6443/api/v1/pods?resourceVersion=0")
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, nil, fmt.Errorf("%s", answer.Status)
	}
	var list struct {
		Items []struct {
			Metadata struct {
				Namespace, Name   string
				Labels            map[string]string
				DeletionTimestamp *string
			}
			Spec   struct{ NodeName string }
			Status struct {
				Conditions []struct{ Type, Status string }
			}
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&list); err != nil {
		return nil, nil, err
	}
	counts, unready := map[string]int{}, []string{}
	for _, pod := range list.Items {
		app := pod.Metadata.Labels["app"]
		if app == "" {
			app = pod.Metadata.Labels["k8s-app"]
		}
		if app == "" {
			continue
		}
		ready := false
		for _, condition := range pod.Status.Conditions {
			ready = ready || condition.Type == "Ready" && condition.Status == "True"
		}
		if ready && pod.Metadata.DeletionTimestamp == nil {
			counts[pod.Metadata.Namespace+"/"+app]++
		} else {
			unready = append(unready, pod.Metadata.Namespace+"/"+pod.Metadata.Name+" on "+pod.Spec.NodeName)
		}
	}
	return counts, unready, nil
}

// clientOf reads the certificates of a kubeconfig. Talos writes each on a line
// of its own, so that no YAML parser is needed.
func clientOf(path string) (*http.Client, error) {
	contents, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	field := func(name string) ([]byte, error) {
		for _, line := range strings.Split(string(contents), "\n") {
			if value, found := strings.CutPrefix(strings.TrimSpace(line), name+": "); found {
				return base64.StdEncoding.DecodeString(value)
			}
		}
		return nil, fmt.Errorf("%s: there is no %s", path, name)
	}
	authority, err := field("certificate-authority-data")
	if err != nil {
		return nil, err
	}
	certificate, err := field("client-certificate-data")
	if err != nil {
		return nil, err
	}
	key, err := field("client-key-data")
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s: no certificate of an authority", path)
	}
	return &http.Client{
		Timeout: patience,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}},
			// A connection from before a reboot would answer for the wrong boot.
			DisableKeepAlives: true,
		},
	}, nil
}
