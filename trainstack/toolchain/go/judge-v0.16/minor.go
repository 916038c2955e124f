package main

// What differs from one minor release of Kueue to the next.

import (
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler"
)

// newQueues returns the queue manager, and the scheduler's options that belong to it.
func newQueues(o *objects, cache *schdcache.Cache, options []qcache.Option) (*qcache.Manager, []scheduler.Option) {
	return qcache.NewManager(o, cache, qcache.NewRequeuer(qcache.RequeueBatchPeriodProd), options...), nil
}

// schedulerOptions returns the scheduler's options that only some releases have.
func schedulerOptions(*Configuration) []scheduler.Option { return nil }

// addNodes does nothing: the scheduler lists the nodes of topologies itself.
func addNodes(*schdcache.Cache, *objects) {}
