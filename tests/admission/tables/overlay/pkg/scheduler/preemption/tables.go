package preemption

import (
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler/flavorassigner"
	"sigs.k8s.io/kueue/pkg/tables"
	"sigs.k8s.io/kueue/pkg/workload"
)

// writeTargets writes the input of a search for preemption targets, and the targets.
func writeTargets(p *Preemptor, wl workload.Info, assignment flavorassigner.Assignment, snapshot *schdcache.Snapshot, search func() []*Target) []*Target {
	admitted := []*kueue.Workload{}
	for _, queue := range snapshot.ClusterQueues() {
		for _, other := range queue.Workloads {
			admitted = append(admitted, other.Obj)
		}
	}
	contested := []map[string]any{}
	for fr := range flavorResourcesNeedPreemption(assignment) {
		contested = append(contested, map[string]any{"flavor": fr.Flavor, "resource": fr.Resource})
	}
	usage := []map[string]any{}
	for fr, number := range assignment.TotalRequestsFor(&wl) {
		usage = append(usage, map[string]any{"flavor": fr.Flavor, "resource": fr.Resource, "quantity": number})
	}
	targets := search()
	names := []map[string]any{}
	for _, target := range targets {
		names = append(names, map[string]any{
			"name": target.WorkloadInfo.Obj.Namespace + "/" + target.WorkloadInfo.Obj.Name, "reason": target.Reason,
		})
	}
	tables.Write("targets", map[string]any{
		"queue": wl.ClusterQueue, "workload": wl.Obj, "admitted": admitted, "contested": contested, "usage": usage,
		"fairSharing": p.enableFairSharing, "admissionFairSharing": p.enabledAfs, "targets": names,
	})
	return targets
}
