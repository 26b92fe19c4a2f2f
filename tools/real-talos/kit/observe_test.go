package main

import (
	"testing"
	"time"
)

func TestSlowEtcd(t *testing.T) {
	const (
		etcd  = "500: [+]ping ok\n[-]etcd-readiness failed: reason withheld\n[+]informer-sync ok"
		start = "500: [-]etcd-readiness failed\n[-]poststarthook/start-apiextensions-controllers failed"
	)
	slow, began := &slowness{}, time.Now()
	for _, step := range []struct {
		after   time.Duration
		problem string
		down    bool
	}{
		{0, "connection refused", true},
		{1, etcd, false},
		{5, etcd, false},
		{6, etcd, true},
		{7, "", false},
		{8, etcd, false},
		{9, start, true},
	} {
		said := slow.judge(step.problem, began.Add(step.after*time.Second))
		if (said != "") != step.down {
			t.Errorf("after %d s, %q: %q", step.after, step.problem, said)
		}
	}
}
