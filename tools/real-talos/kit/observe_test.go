package main

import (
	"testing"
	"time"
)

func TestSlowEtcd(t *testing.T) {
	const (
		etcd  = "500: [+]ping ok\n[-]etcd-readiness failed: reason withheld\n[+]informer-sync ok"
		both  = "500: [-]etcd failed: reason withheld; [-]etcd-readiness failed: reason withheld"
		start = "500: [-]etcd-readiness failed\n[-]poststarthook/start-apiextensions-controllers failed"
	)
	slow, began := &slowness{}, time.Now()
	for _, step := range []struct {
		after   time.Duration
		problem string
		down    bool
	}{
		{0, "", false},
		{1, etcd, false},
		{5, both, false},
		{6, etcd, true},
		{7, both, true},
		{8, "", false},
		{9, both, false},
		{10, start, true},
		{11, etcd, true},
		{12, "", false},
		{13, "connection refused", true},
		{14, etcd, true},
	} {
		said := slow.judge(step.problem, began.Add(step.after*time.Second))
		if (said != "") != step.down {
			t.Errorf("after %d s, %q: %q", step.after, step.problem, said)
		}
	}
}

func TestComplaints(t *testing.T) {
	for body, wanted := range map[string]string{
		"[+]ping ok\n[-]etcd failed: withheld\n[-]log failed\nreadyz check failed\n": "[-]etcd failed: withheld; [-]log failed",
		"starting\n": "starting",
	} {
		if said := complaints(body); said != wanted {
			t.Errorf("%q: %q", body, said)
		}
	}
}
