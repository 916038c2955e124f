package main

// What differs from one minor release of Kueue to the next.

import (
	"github.com/go-logr/logr"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	utilpod "sigs.k8s.io/kueue/pkg/util/pod"
)

// newQueues returns the queue manager, and the scheduler's options that belong to it.
func newQueues(o *objects, cache *schdcache.Cache, options []qcache.Option) (*qcache.Manager, []scheduler.Option) {
	// Both record which preemptions have begun.
	begun := expectations.New()
	options = append(options, qcache.WithPreemptionExpectations(begun))
	queues := qcache.NewManager(o, cache, qcache.NewRequeuer(), options...)
	return queues, []scheduler.Option{scheduler.WithPreemptionExpectations(begun)}
}

// schedulerOptions returns the scheduler's options that only some releases have.
func schedulerOptions(c *Configuration) []scheduler.Option {
	if c.Resources == nil || c.Resources.QuotaCheckStrategy == nil {
		return nil
	}
	return []scheduler.Option{scheduler.WithQuotaCheckStrategy(*c.Resources.QuotaCheckStrategy)}
}

// addNodes gives the cache the nodes of topologies, and the usage of the pods on them that Kueue has not placed.
func addNodes(cache *schdcache.Cache, o *objects) {
	for i := range o.nodes {
		cache.TASCache().SyncNode(&o.nodes[i])
	}
	for i := range o.pods {
		if pod := &o.pods[i]; pod.Spec.NodeName != "" && !utilpod.IsTerminated(pod) {
			cache.TASCache().Update(pod, logr.Discard())
		}
	}
}
