package scheduler

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/cache/queue"
	"sigs.k8s.io/kueue/pkg/scheduler/flavorassigner"
	"sigs.k8s.io/kueue/pkg/tables"
	"sigs.k8s.io/kueue/pkg/util/admissionfairsharing"
	"sigs.k8s.io/kueue/pkg/util/wait"
	"sigs.k8s.io/kueue/pkg/workload"
)

// writeCycle writes the state before and after a cycle.
func writeCycle(ctx context.Context, s *Scheduler, cycle func() wait.SpeedSignal) wait.SpeedSignal {
	namespaces, ranges := corev1.NamespaceList{}, corev1.LimitRangeList{}
	local := kueue.LocalQueueList{}
	if err := s.client.List(ctx, &namespaces); err != nil {
		panic(err)
	}
	if err := s.client.List(ctx, &ranges); err != nil {
		panic(err)
	}
	if err := s.client.List(ctx, &local); err != nil {
		panic(err)
	}
	snapshot, err := s.cache.Snapshot(ctx)
	if err != nil {
		panic(err)
	}
	admitted := []*kueue.Workload{}
	for _, cq := range snapshot.ClusterQueues() {
		for _, other := range cq.Workloads {
			admitted = append(admitted, other.Obj)
		}
	}
	pending := map[kueue.ClusterQueueReference][]*kueue.Workload{}
	for _, name := range s.queues.GetClusterQueueNames() {
		for _, info := range s.queues.PendingWorkloadsInfo(name) {
			pending[name] = append(pending[name], info.Obj)
		}
	}
	tables.Write("cycle", map[string]any{
		"namespaces": namespaces.Items, "limitRanges": ranges.Items, "localQueues": local.Items, "admitted": admitted,
		"pending": pending, "inadmissible": s.queues.DumpInadmissible(),
		"fairSharing": s.fairSharing != nil, "admissionFairSharing": admissionfairsharing.Enabled(s.admissionFairSharing),
	})
	signal := cycle()
	tables.Write("queues", map[string]any{"active": s.queues.Dump(), "inadmissible": s.queues.DumpInadmissible()})
	return signal
}

// writeHeads writes what a cycle decides about each head.
func writeHeads(nominated, inadmissible []entry) {
	heads := []map[string]any{}
	for _, e := range nominated {
		heads = append(heads, described(e))
	}
	for _, e := range inadmissible {
		heads = append(heads, described(e))
	}
	tables.Write("heads", heads)
}

func described(e entry) map[string]any {
	targets := []workload.Reference{}
	for _, target := range e.preemptionTargets {
		targets = append(targets, workload.Key(target.WorkloadInfo.Obj))
	}
	return map[string]any{
		"queue": e.ClusterQueue, "name": workload.Key(e.Obj), "workload": e.Obj, "status": e.status,
		"preempts": e.requeueReason == queue.RequeueReasonPendingPreemption, "reason": fmt.Sprint(e.requeueReason),
		"message": e.inadmissibleMsg, "targets": targets, "assignment": flavorassigner.Described(e.assignment),
	}
}
