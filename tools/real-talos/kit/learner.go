package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// nowhere is where the learner would listen.
const nowhere = "https://10.5.0.99:2380"

type etcdMember struct {
	ID        string   `json:"ID"`
	PeerURLs  []string `json:"peerURLs"`
	IsLearner bool     `json:"isLearner"`
}

// learner adds an etcd member that never starts, or removes it, with the keys of
// a node that runs.
func (m *machine) learner(action string) error {
	client, err := m.etcdClient()
	if err != nil {
		return err
	}
	base := "https://" + m.node.Address + ":2379/v3/cluster/member/"
	if action == "add" {
		return post(client, base+"add", map[string]any{"peerURLs": []string{nowhere}, "isLearner": true}, nil)
	}
	var list struct {
		Members []etcdMember `json:"members"`
	}
	if err := post(client, base+"list", map[string]any{}, &list); err != nil {
		return err
	}
	for _, member := range list.Members {
		if member.IsLearner {
			if err := post(client, base+"remove", map[string]any{"ID": member.ID}, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// etcdClient has the keys that the node made for itself; they are in its memory.
func (m *machine) etcdClient() (*http.Client, error) {
	root, err := m.root()
	if err != nil {
		return nil, err
	}
	folder := filepath.Join(root, "system/secrets/etcd")
	pair, err := tls.LoadX509KeyPair(filepath.Join(folder, "admin.crt"), filepath.Join(folder, "admin.key"))
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(filepath.Join(folder, "ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(authority)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}}
	return &http.Client{Transport: transport, Timeout: 20 * time.Second}, nil
}

func post(client *http.Client, address string, question, into any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return err
	}
	answer, err := client.Post(address, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", address, answer.Status, text)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}
