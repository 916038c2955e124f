package main

// What differs from one minor release of Kueue to the next.

import (
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
)

func newQueues(o *objects, cache *schdcache.Cache, options []qcache.Option) *qcache.Manager {
	return qcache.NewManager(o, cache, options...)
}

func enqueue(queues *qcache.Manager, w *Workload) error { return queues.AddOrUpdateWorkload(w) }

func withdraw(queues *qcache.Manager, w *Workload) { queues.DeleteWorkload(w) }
