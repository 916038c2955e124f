package main

// How workloads enter and leave Kueue's queues and cache, since v0.16.

import (
	"github.com/go-logr/logr"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/workload"
)

func enqueue(queues *qcache.Manager, w *Workload) error {
	return queues.AddOrUpdateWorkload(logr.Discard(), w)
}

func withdraw(queues *qcache.Manager, w *Workload) {
	queues.DeleteWorkload(logr.Discard(), workload.Key(w))
}

// release gives back what an admitted workload uses.
func release(cache *schdcache.Cache, w *Workload) error {
	return cache.DeleteWorkload(logr.Discard(), workload.Key(w))
}
