package main

// What differs from one minor release of Kueue to the next.

import (
	"github.com/go-logr/logr"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler"
)

// newQueues returns the queue manager, and the scheduler's options that belong to it.
func newQueues(o *objects, cache *schdcache.Cache, options []qcache.Option) (*qcache.Manager, []scheduler.Option) {
	return qcache.NewManager(o, cache, options...), nil
}

// schedulerOptions returns the scheduler's options that only some releases have.
func schedulerOptions(*Configuration) []scheduler.Option { return nil }

func enqueue(queues *qcache.Manager, w *Workload) error { return queues.AddOrUpdateWorkload(w) }

func withdraw(queues *qcache.Manager, w *Workload) { queues.DeleteWorkload(logr.Discard(), w) }

// release gives back what an admitted workload uses.
func release(cache *schdcache.Cache, w *Workload) error {
	return cache.DeleteWorkload(logr.Discard(), w)
}

// addNodes does nothing: the scheduler lists the nodes of topologies itself.
func addNodes(*schdcache.Cache, *objects) {}
