package main

// Workloads that wait together: what Kueue makes of them until nothing changes any more.

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/kueue/pkg/workload"
)

// Together are workloads that stay in their queues. What is evicted holds its quota for ever.
type Together struct {
	// Rounds are submitted one after the other, each when nothing changes any more. The workloads of the first round are
	// queued before the scheduler starts; later rounds have one workload each, or their order would be chance.
	Rounds [][]json.RawMessage `json:"rounds"`
	// Cycles is how many scheduling cycles without a change end a round.
	Cycles int `json:"cycles"`
}

// Round is the state after a round.
type Round struct {
	Workloads []*Workload `json:"workloads"`
	// Attempts are the failed ones of the round, by `namespace/name`.
	Attempts map[string]int `json:"attempts"`
	// Preempting are those with an attempt in the round that preempts others. A later one may fail with other flavors.
	Preempting map[string]bool `json:"preempting"`
}

// fence is the name of a cluster queue of its own. A workload in it is admitted in one cycle, in which the head of every
// other queue is tried, and after an admission the scheduler does not pause.
const fence = "kueue-judge-fence"

// crowd are the workloads of the rounds.
type crowd struct {
	lock       sync.Mutex
	changes    int
	attempts   map[string]int
	preempting map[string]bool
	passed     chan struct{}
	// evicted are the workloads whose eviction the cache knows of.
	evicted map[string]bool
	// queued are the workloads that entered a queue.
	queued []*Workload
}

// observe counts what the scheduler's events report.
func (c *crowd) observe(w *Workload, reason, message string) {
	if w.Namespace == fence {
		if reason == "QuotaReserved" {
			c.passed <- struct{}{}
		}
		return
	}
	c.lock.Lock()
	defer c.lock.Unlock()
	switch reason {
	case "QuotaReserved", "Preempted":
		c.changes++
	case "Pending":
		key := string(workload.Key(w))
		c.attempts[key]++
		if strings.Contains(message, pendingPreemption) {
			c.preempting[key] = true
		}
	}
}

func (c *crowd) count() int {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.changes
}

// addFence adds the queue of the fences to a case's objects.
func (c *court) addFence() error {
	for _, object := range []string{
		`{"kind": "Namespace", "metadata": {"name": "%[1]s"}}`,
		`{"kind": "ResourceFlavor", "metadata": {"name": "%[1]s"}}`,
		`{"kind": "ClusterQueue", "metadata": {"name": "%[1]s"}, "spec": {"namespaceSelector": {}, "resourceGroups": [` +
			`{"coveredResources": ["cpu"], "flavors": [{"name": "%[1]s", "resources": [{"name": "cpu", "nominalQuota": "1M"}]}]}]}}`,
		`{"kind": "LocalQueue", "metadata": {"name": "%[1]s", "namespace": "%[1]s"}, "spec": {"clusterQueue": "%[1]s"}}`,
	} {
		if err := c.add(json.RawMessage(fmt.Sprintf(object, fence))); err != nil {
			return err
		}
	}
	return nil
}

// queue puts a workload into its queue. It stays out if its queue is missing or stopped.
func (c *court) queue(raw json.RawMessage) error {
	var w Workload
	if err := decode(raw, &w); err != nil {
		return err
	}
	withDefaults(&w)
	if w.UID == "" {
		w.UID = types.UID(w.Name)
	}
	if w.CreationTimestamp.IsZero() {
		w.CreationTimestamp = metav1.NewTime(c.clock.Now())
	}
	c.clock.seconds.Store(max(c.clock.seconds.Load(), w.CreationTimestamp.Unix()))
	c.objects.put(&w)
	if enqueue(c.queues, c.adjusted(&w)) == nil && w.Namespace != fence {
		c.crowd.queued = append(c.crowd.queued, &w)
	}
	return nil
}

// settle passes as many fences as a round needs cycles, until nothing changes meanwhile. They wait together, so that each
// cycle admits one.
func (c *court) settle(cycles int, fences *int) (Round, error) {
	for {
		changes := c.crowd.count()
		for range cycles {
			raw := fmt.Sprintf(`{"metadata": {"name": "f%[2]d", "namespace": "%[1]s"}, "spec": {"queueName": "%[1]s", "podSets": [`+
				`{"name": "main", "count": 1, "template": {"spec": {"containers": [{"name": "one", "resources": {"requests": {"cpu": "1"}}}]}}}]}}`,
				fence, *fences)
			*fences++
			if err := c.queue(json.RawMessage(raw)); err != nil {
				return Round{}, err
			}
		}
		for range cycles {
			select {
			case <-c.crowd.passed:
			case cause := <-c.panics:
				return Round{}, fmt.Errorf("Kueue's scheduler panics: %v", cause)
			case <-time.After(patience):
				return Round{}, fmt.Errorf("no cycle within %v", patience)
			}
		}
		for c.isAdmitting() {
			time.Sleep(100 * time.Microsecond)
		}
		c.clock.seconds.Add(1)
		c.countEvictions()
		if c.crowd.count() == changes {
			return c.round(), nil
		}
	}
}

// isAdmitting reports whether a workload has left its queue, and its admission, which Kueue writes beside its cycles, is
// not written yet.
func (c *court) isAdmitting() bool {
	for _, w := range c.crowd.queued {
		name, _ := c.queues.ClusterQueueForWorkload(w)
		isPending := slices.ContainsFunc(c.queues.PendingWorkloadsInfo(name), func(info *workload.Info) bool {
			return workload.Key(info.Obj) == workload.Key(w)
		})
		if !isPending && !workload.HasQuotaReservation(c.objects.workload(w.Namespace+"/"+w.Name)) {
			return true
		}
	}
	return false
}

// countEvictions lets the cache know whose eviction has begun, as Kueue's controller does.
func (c *court) countEvictions() {
	for key := range c.objects.targets() {
		w := c.objects.workload(key)
		if meta.IsStatusConditionTrue(w.Status.Conditions, evicted) && !c.crowd.evicted[key] {
			c.crowd.evicted[key] = true
			c.cache.AddOrUpdateWorkload(logr.Discard(), c.adjusted(w))
		}
	}
}

// round returns the workloads without fences, and begins to count attempts again.
func (c *court) round() Round {
	c.crowd.lock.Lock()
	defer c.crowd.lock.Unlock()
	round := Round{Attempts: c.crowd.attempts, Preempting: c.crowd.preempting}
	c.crowd.attempts, c.crowd.preempting = map[string]int{}, map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(c.objects.workloads)) {
		if !strings.HasPrefix(key, fence+"/") {
			round.Workloads = append(round.Workloads, c.objects.workload(key))
		}
	}
	return round
}

// together submits the rounds, each when the state after the one before is known.
func together(c *Case) ([]Round, error) {
	var rounds []Round
	court, end, err := start(c, func(court *court) error {
		court.crowd = &crowd{attempts: map[string]int{}, preempting: map[string]bool{}, passed: make(chan struct{}, c.Together.Cycles), evicted: map[string]bool{}}
		return court.queueAll(c.Together.Rounds[0])
	})
	defer end()
	if err != nil {
		return nil, err
	}
	fences := 0
	for i, workloads := range c.Together.Rounds {
		if i > 0 {
			if err := court.queueAll(workloads); err != nil {
				return rounds, fmt.Errorf("rounds[%d]: %w", i, err)
			}
		}
		round, err := court.settle(c.Together.Cycles, &fences)
		if err != nil {
			return rounds, fmt.Errorf("rounds[%d]: %w", i, err)
		}
		rounds = append(rounds, round)
	}
	return rounds, nil
}

func (c *court) queueAll(workloads []json.RawMessage) error {
	for _, raw := range workloads {
		if err := c.queue(raw); err != nil {
			return err
		}
	}
	return nil
}
