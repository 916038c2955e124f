package main

// Topologies: where pods are placed, and several questions about one cluster.

import (
	corev1 "k8s.io/api/core/v1"
	utiltas "sigs.k8s.io/kueue/pkg/util/tas"
)

// Placement is where the pods of a pod set are placed.
type Placement struct {
	// Levels are labels of nodes, the widest first.
	Levels  []string `json:"levels"`
	Domains []Domain `json:"domains"`
}

// Domain is a part of the topology.
type Domain struct {
	// Values are the labels' values, by level.
	Values []string `json:"values"`
	// Count is the number of pods in it.
	Count int32 `json:"count"`
}

func placements(podSets []PodSetAssignment) map[string]Placement {
	found := map[string]Placement{}
	for i := range podSets {
		if podSets[i].TopologyAssignment != nil {
			found[string(podSets[i].Name)] = placement(&podSets[i])
		}
	}
	return found
}

// isPlaced reports whether Kueue has placed a pod: the usage of such pods is in their Workload's status.
func isPlaced(pod *corev1.Pod) bool { return utiltas.IsTAS(pod) }

// answer judges a case. If its workloads are asked alone, a preemption ends the work of a scheduler, and another one
// continues with the next workload.
func answer(c *Case) ([]Verdict, error) {
	var all []Verdict
	rest := *c
	for {
		verdicts, err := judge(&rest)
		all = append(all, verdicts...)
		rest.Submit = rest.Submit[min(len(verdicts), len(rest.Submit)):]
		if err != nil || !c.Alone || len(rest.Submit) == 0 || len(verdicts) == 0 {
			return all, err
		}
	}
}

// remove takes an admitted workload away.
func (c *court) remove(w *Workload) error {
	key := w.Namespace + "/" + w.Name
	c.objects.lock.Lock()
	admitted := c.objects.workloads[key]
	delete(c.objects.workloads, key)
	c.objects.lock.Unlock()
	return release(c.cache, admitted)
}
