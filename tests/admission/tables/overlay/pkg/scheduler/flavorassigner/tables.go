package flavorassigner

import (
	"fmt"

	"github.com/go-logr/logr"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/resources"
	preemptioncommon "sigs.k8s.io/kueue/pkg/scheduler/preemption/common"
	"sigs.k8s.io/kueue/pkg/tables"
	"sigs.k8s.io/kueue/pkg/workload"
)

type recordingOracle struct {
	preemptionOracle
	answers []map[string]any
}

func (o *recordingOracle) SimulatePreemption(log logr.Logger, cq *schdcache.ClusterQueueSnapshot, wl workload.Info, fr resources.FlavorResource, quantity int64) (preemptioncommon.PreemptionPossibility, int) {
	possibility, level := o.preemptionOracle.SimulatePreemption(log, cq, wl, fr, quantity)
	o.answers = append(o.answers, map[string]any{
		"flavor": fr.Flavor, "resource": fr.Resource, "quantity": quantity,
		"mode": fromPreemptionPossibility(possibility), "level": level,
	})
	return possibility, level
}

// writeAssignment writes the input and the result of an assignment.
func writeAssignment(a *FlavorAssigner, counts []int32, assign func() Assignment) Assignment {
	queues := []*schdcache.ClusterQueueSnapshot{a.cq}
	if a.cq.HasParent() {
		queues = a.cq.Parent().Root().SubtreeClusterQueues()
	}
	usage := map[kueue.ClusterQueueReference][]map[string]any{}
	for _, queue := range queues {
		usage[queue.Name] = amounts(queue.ResourceNode.Usage)
	}
	flavors := []*kueue.ResourceFlavor{}
	for _, flavor := range a.resourceFlavors {
		flavors = append(flavors, flavor)
	}
	value := map[string]any{
		"queue": a.cq.Name, "workload": a.wl.Obj, "counts": counts, "usage": usage, "flavors": flavors,
		"fairSharing": a.enableFairSharing, "slice": a.replaceWorkloadSlice != nil,
	}
	if a.wl.LastAssignment != nil && !lastAssignmentOutdated(a.wl, a.cq) {
		value["tried"] = a.wl.LastAssignment.LastTriedFlavorIdx
	}
	given := a.oracle
	oracle := &recordingOracle{preemptionOracle: given, answers: []map[string]any{}}
	a.oracle = oracle
	assignment := assign()
	a.oracle = given
	value["oracle"] = oracle.answers
	value["result"] = Described(assignment)
	tables.Write("assignment", value)
	return assignment
}

// Described returns an assignment as plain data.
func Described(assignment Assignment) map[string]any {
	podSets := []map[string]any{}
	for _, podSet := range assignment.PodSets {
		flavors := map[string]any{}
		for resource, flavor := range podSet.Flavors {
			flavors[string(resource)] = map[string]any{
				"name": flavor.Name, "mode": fmt.Sprint(flavor.Mode), "tried": flavor.TriedFlavorIdx,
			}
		}
		podSets = append(podSets, map[string]any{"name": podSet.Name, "count": podSet.Count, "flavors": flavors})
	}
	return map[string]any{
		"mode": fmt.Sprint(assignment.RepresentativeMode()), "podSets": podSets, "level": assignment.Borrowing,
		"usage": amounts(assignment.Usage.Quota),
	}
}

func amounts(quantities resources.FlavorResourceQuantities) []map[string]any {
	found := []map[string]any{}
	for fr, number := range quantities {
		found = append(found, map[string]any{"flavor": fr.Flavor, "resource": fr.Resource, "quantity": number})
	}
	return found
}
