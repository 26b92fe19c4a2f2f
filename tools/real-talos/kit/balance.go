package main

import (
	"io"
	"log"
	"net"
	"time"
)

// balance listens where the cluster's endpoint is and passes each connection to
// the next control plane that takes it.
func balance(spec *spec) error {
	var servers []string
	for _, node := range spec.Nodes {
		if node.ControlPlane {
			servers = append(servers, node.Address+":6443")
		}
	}
	listener, err := net.Listen("tcp", hubAddress+":6443")
	if err != nil {
		return err
	}
	go func() {
		for turn := 0; ; turn++ {
			client, err := listener.Accept()
			if err != nil {
				log.Fatal(err)
			}
			go pass(client, append(servers[turn%len(servers):len(servers):len(servers)], servers[:turn%len(servers)]...))
		}
	}()
	return nil
}

func pass(client net.Conn, servers []string) {
	defer client.Close()
	for _, address := range servers {
		server, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			continue
		}
		defer server.Close()
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.(*net.TCPConn).CloseWrite()
		}()
		_, _ = io.Copy(client, server)
		return
	}
}
