package queue

import (
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/tables"
	"sigs.k8s.io/kueue/pkg/workload"
)

// writeHead writes the pending workloads of a queue and which of them is its head.
func writeHead(c *ClusterQueue, pop func() *workload.Info) *workload.Info {
	pending := []*kueue.Workload{}
	sticky := ""
	c.rwm.RLock()
	for _, info := range c.heap.List() {
		pending = append(pending, info.Obj)
		if key := workload.Key(info.Obj); c.sw.matches(key) {
			sticky = string(key)
		}
	}
	c.rwm.RUnlock()
	head := pop()
	if head != nil {
		tables.Write("head", map[string]any{"pending": pending, "sticky": sticky, "head": workload.Key(head.Obj)})
	}
	return head
}
