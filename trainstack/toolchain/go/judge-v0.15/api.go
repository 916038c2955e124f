package main

// Kueue's API v1beta2: the names of its types and the defaults of its schemas.

import (
	"k8s.io/utils/ptr"
	config "sigs.k8s.io/kueue/apis/config/v1beta2"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	utiltas "sigs.k8s.io/kueue/pkg/util/tas"
)

type (
	AdmissionCheck   = kueue.AdmissionCheck
	ClusterQueue     = kueue.ClusterQueue
	Cohort           = kueue.Cohort
	LocalQueue       = kueue.LocalQueue
	LocalQueueList   = kueue.LocalQueueList
	PodSetAssignment = kueue.PodSetAssignment
	ResourceFlavor   = kueue.ResourceFlavor
	Topology         = kueue.Topology
	Workload         = kueue.Workload
	WorkloadList     = kueue.WorkloadList
	Configuration    = config.Configuration
)

const (
	evicted       = kueue.WorkloadEvicted
	finished      = kueue.WorkloadFinished
	preempted     = kueue.WorkloadPreempted
	quotaReserved = kueue.WorkloadQuotaReserved
	requeued      = kueue.WorkloadRequeued
)

func sharesFairly(c *Configuration) bool { return c.FairSharing != nil }

// isHeld reports whether a local queue is stopped.
func isHeld(queue *LocalQueue) bool {
	return ptr.Deref(queue.Spec.StopPolicy, kueue.None) != kueue.None
}

func placement(pods *PodSetAssignment) Placement {
	assignment := utiltas.InternalFrom(pods.TopologyAssignment)
	found := Placement{Levels: assignment.Levels}
	for _, domain := range assignment.Domains {
		found.Domains = append(found.Domains, Domain{Values: domain.Values, Count: domain.Count})
	}
	return found
}

// withQueueDefaults sets what the schema of a ClusterQueue sets.
func withQueueDefaults(queue *ClusterQueue) {
	spec := &queue.Spec
	setDefault(&spec.QueueingStrategy, kueue.BestEffortFIFO)
	if spec.StopPolicy == nil {
		spec.StopPolicy = ptr.To(kueue.None)
	}
	if spec.FlavorFungibility == nil {
		spec.FlavorFungibility = &kueue.FlavorFungibility{}
	}
	setDefault(&spec.FlavorFungibility.WhenCanBorrow, kueue.MayStopSearch)
	setDefault(&spec.FlavorFungibility.WhenCanPreempt, kueue.TryNextFlavor)
	if spec.Preemption == nil {
		spec.Preemption = &kueue.ClusterQueuePreemption{}
	}
	setDefault(&spec.Preemption.ReclaimWithinCohort, kueue.PreemptionPolicyNever)
	setDefault(&spec.Preemption.WithinClusterQueue, kueue.PreemptionPolicyNever)
	if spec.Preemption.BorrowWithinCohort == nil {
		spec.Preemption.BorrowWithinCohort = &kueue.BorrowWithinCohort{}
	}
	setDefault(&spec.Preemption.BorrowWithinCohort.Policy, kueue.BorrowWithinCohortPolicyNever)
}

// withDefaults sets what the schema of a Workload sets.
func withDefaults(w *Workload) {
	if w.Spec.Active == nil {
		w.Spec.Active = ptr.To(true)
	}
	for i := range w.Spec.PodSets {
		setDefault(&w.Spec.PodSets[i].Name, kueue.DefaultPodSetName)
	}
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
