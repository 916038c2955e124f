// Answers by Kueue's own code whether, where and at whose expense workloads are admitted.
//
// The program reads a JSON list of cases from standard input and writes a list of answers to standard output. For each
// case it fills Kueue's scheduler cache and queue manager with the case's objects, starts Kueue's scheduler, and submits
// the case's workloads one after the other, each at the head of its queue. There is no API server: the scheduler writes
// to a client that keeps objects in memory, and its events end an attempt.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/pkg/workload"
)

// Case is a cluster and the workloads submitted to it.
type Case struct {
	// Objects are all others, in any order. Workloads with reserved quota use it; others of them are ignored.
	Objects []json.RawMessage `json:"objects"`
	// Submit are the workloads whose admission is asked, in their order. One that is not admitted is withdrawn.
	Submit []json.RawMessage `json:"submit"`
	// Alone makes each workload's answer independent of the others: an admitted one is withdrawn too, and after one that
	// preempts others the next one is asked on the same cluster again.
	Alone bool `json:"alone"`
	// Together are workloads that wait together, instead of Submit.
	Together *Together `json:"together"`
	// Configuration is Kueue's; fairSharing, resources, waitForPodsReady and featureGates of it are used.
	Configuration json.RawMessage `json:"configuration"`
	// Now is when the first workload is submitted, in RFC 3339. Each later one is submitted a second after.
	Now *time.Time `json:"now"`
}

// Answer has one verdict for each submitted workload, unless Alone is set up to the first that preempts others.
type Answer struct {
	Verdicts []Verdict `json:"verdicts,omitempty"`
	// Rounds are the states after the rounds of Together.
	Rounds []Round `json:"rounds,omitempty"`
	Error  string  `json:"error,omitempty"`
}

// Verdict is what Kueue decides about one workload.
type Verdict struct {
	Name string `json:"name"`
	// Mode is Fit, Preempt or NoFit; NoFit if the workload is pending for any reason.
	Mode         string `json:"mode"`
	ClusterQueue string `json:"clusterQueue,omitempty"`
	// PodSets are the admission's assignments, as in a Workload's status.
	PodSets []PodSetAssignment `json:"podSets,omitempty"`
	// Placements are the topology domains of pod sets, by the name of the pod set.
	Placements map[string]Placement `json:"placements,omitempty"`
	// Borrowed is what the cluster queue borrows afterwards, by `flavor/resource`.
	Borrowed map[string]string `json:"borrowed,omitempty"`
	// Targets are the preempted workloads, by `namespace/name`, with the reason; without those whose eviction had begun.
	Targets  map[string]string `json:"targets,omitempty"`
	Message  string            `json:"message,omitempty"`
	Attempts int               `json:"attempts"`
}

// attemptLimit bounds the cycles of one workload; Kueue needs one for each flavor at most.
const attemptLimit = 100

// pendingPreemption begins the number of preempted workloads in a message of the scheduler.
const pendingPreemption = "Pending the preemption of"

// patience bounds one workload's cycles in time. It is far more than they take.
const patience = 20 * time.Second

func main() {
	var cases []Case
	if err := json.NewDecoder(os.Stdin).Decode(&cases); err != nil {
		log.Fatalf("standard input is not a JSON list of cases: %v", err)
	}
	ctrl.SetLogger(logr.Discard())
	// A panic of Kueue's scheduler is an answer about the case, not the end of all cases.
	utilruntime.ReallyCrash = false
	answers := make([]Answer, len(cases))
	for i := range cases {
		var err error
		if cases[i].Together != nil {
			answers[i].Rounds, err = together(&cases[i])
		} else {
			answers[i].Verdicts, err = answer(&cases[i])
		}
		if err != nil {
			answers[i].Error = err.Error()
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		log.Fatal(err)
	}
}

// steps is a clock that stands still between submissions, so that no verdict depends on the machine's speed.
type steps struct {
	clock.RealClock
	seconds atomic.Int64
}

func (s *steps) Now() time.Time                  { return time.Unix(s.seconds.Load(), 0).UTC() }
func (s *steps) Since(t time.Time) time.Duration { return s.Now().Sub(t) }

// court is a case in progress.
type court struct {
	ctx     context.Context
	clock   *steps
	objects *objects
	cache   *schdcache.Cache
	queues  *qcache.Manager
	// asked is the workload in the queues.
	asked *Workload
	// seen are the states from which attempts at it have begun.
	seen map[string]bool
	// attempts counts them.
	attempts int
	verdicts chan Verdict
	panics   chan any
	// crowd are workloads that wait together; nil if they are asked one by one.
	crowd *crowd
}

// equivalenceHashing is a gate that releases have since v0.17. For workloads that are asked one by one it is disabled,
// since Kueue would skip one if an equivalent one did not fit, and give no answer.
const equivalenceHashing = "SchedulingEquivalenceHashing"

// start returns a case in progress, whose scheduler has begun, and the function that ends it. queued fills the queues
// before the scheduler begins.
func start(c *Case, queued func(*court) error) (*court, func(), error) {
	nothing := func() {}
	var configuration Configuration
	if len(c.Configuration) > 0 {
		if err := json.Unmarshal(c.Configuration, &configuration); err != nil {
			return nil, nothing, fmt.Errorf("configuration: %w", err)
		}
	}
	restore, err := setGates(configuration.FeatureGates, c.Together == nil)
	if err != nil {
		return nil, restore, err
	}
	now := time.Now()
	if c.Now != nil {
		now = *c.Now
	}
	ctx, cancel := context.WithCancel(ctrl.LoggerInto(context.Background(), logr.Discard()))
	end := func() { cancel(); restore() }
	court := &court{ctx: ctx, clock: &steps{}, objects: newObjects(), verdicts: make(chan Verdict, 1), panics: make(chan any, 1)}
	court.clock.seconds.Store(now.Unix())
	court.cache = schdcache.New(court.objects, cacheOptions(&configuration)...)
	queues, options := newQueues(court.objects, court.cache, append(queueOptions(&configuration), qcache.WithClock(court.clock)))
	court.queues = queues
	for i, raw := range c.Objects {
		if err := court.add(raw); err != nil {
			return nil, end, fmt.Errorf("objects[%d]: %w", i, err)
		}
	}
	if c.Together != nil {
		if err := court.addFence(); err != nil {
			return nil, end, err
		}
	}
	if err := errors.Join(court.fill(), queued(court)); err != nil {
		return nil, end, err
	}
	utilruntime.PanicHandlers = []func(context.Context, any){func(_ context.Context, cause any) { court.panics <- cause }}
	go court.queues.CleanUpOnContext(ctx)
	options = append(options, scheduler.WithFairSharing(configuration.FairSharing), scheduler.WithClock(nil, court.clock))
	options = append(options, schedulerOptions(&configuration)...)
	return court, end, scheduler.New(court.queues, court.cache, court.objects, recorder{court}, options...).Start(ctx)
}

func judge(c *Case) (verdicts []Verdict, err error) {
	court, end, err := start(c, func(*court) error { return nil })
	defer end()
	if err != nil {
		return nil, err
	}
	for i, raw := range c.Submit {
		var w Workload
		if err := decode(raw, &w); err != nil {
			return verdicts, fmt.Errorf("submit[%d]: %w", i, err)
		}
		verdict, err := court.submit(&w)
		if err != nil {
			return verdicts, fmt.Errorf("submit[%d]: %w", i, err)
		}
		verdicts = append(verdicts, verdict)
		if verdict.Mode == "Preempt" {
			break
		}
		if c.Alone && verdict.Mode == "Fit" {
			if err := court.remove(&w); err != nil {
				return verdicts, fmt.Errorf("submit[%d]: %w", i, err)
			}
		}
		court.clock.seconds.Add(1)
	}
	return verdicts, nil
}

// setGates sets feature gates; the returned function restores them. evaluatesAll disables equivalenceHashing.
func setGates(given map[string]bool, evaluatesAll bool) (func(), error) {
	gates, before := map[string]bool{}, map[string]bool{}
	maps.Copy(gates, given)
	for feature := range utilfeature.DefaultMutableFeatureGate.GetAll() {
		name := string(feature)
		if name == equivalenceHashing && evaluatesAll {
			gates[name] = false
		}
		if _, ok := gates[name]; ok {
			before[name] = utilfeature.DefaultFeatureGate.Enabled(feature)
		}
	}
	err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates)
	return func() { _ = utilfeature.DefaultMutableFeatureGate.SetFromMap(before) }, err
}

func cacheOptions(c *Configuration) []schdcache.Option {
	options := []schdcache.Option{schdcache.WithFairSharing(sharesFairly(c))}
	if c.Resources != nil {
		options = append(options,
			schdcache.WithExcludedResourcePrefixes(c.Resources.ExcludeResourcePrefixes),
			schdcache.WithResourceTransformations(c.Resources.Transformations))
	}
	return options
}

func queueOptions(c *Configuration) []qcache.Option {
	var options []qcache.Option
	if c.WaitForPodsReady != nil && c.WaitForPodsReady.RequeuingStrategy != nil && c.WaitForPodsReady.RequeuingStrategy.Timestamp != nil {
		options = append(options, qcache.WithPodsReadyRequeuingTimestamp(*c.WaitForPodsReady.RequeuingStrategy.Timestamp))
	}
	if c.Resources != nil {
		options = append(options,
			qcache.WithExcludedResourcePrefixes(c.Resources.ExcludeResourcePrefixes),
			qcache.WithResourceTransformations(c.Resources.Transformations))
	}
	return options
}

// add keeps an object for fill.
func (c *court) add(raw json.RawMessage) error {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return err
	}
	return c.objects.add(head.Kind, raw)
}

// fill gives the cache and the queue manager all objects, as Kueue's controllers do when it starts.
func (c *court) fill() error {
	o, silent := c.objects, logr.Discard()
	addNodes(c.cache, o)
	for _, topology := range o.topologies {
		c.cache.AddOrUpdateTopology(silent, topology)
	}
	for _, flavor := range o.flavors {
		c.cache.AddOrUpdateResourceFlavor(silent, flavor)
	}
	for _, check := range o.checks {
		c.cache.AddOrUpdateAdmissionCheck(silent, check)
	}
	for _, cohort := range o.cohorts {
		// A cycle is an error here, and makes its cluster queues inactive.
		_ = c.cache.AddOrUpdateCohort(cohort)
		c.queues.AddOrUpdateCohort(c.ctx, cohort)
	}
	var failed []error
	for _, queue := range o.clusterQueues {
		if err := c.cache.AddClusterQueue(c.ctx, queue); !errors.Is(err, schdcache.ErrCohortHasCycle) {
			failed = append(failed, err)
		}
		failed = append(failed, c.queues.AddClusterQueue(c.ctx, queue))
	}
	for _, queue := range o.localQueues {
		if !isHeld(queue) {
			failed = append(failed, c.cache.AddLocalQueue(queue), c.queues.AddLocalQueue(c.ctx, queue))
		}
	}
	for _, w := range slices.Sorted(maps.Keys(o.workloads)) {
		if admitted := o.workloads[w]; workload.HasQuotaReservation(admitted) && !meta.IsStatusConditionTrue(admitted.Status.Conditions, finished) {
			c.cache.AddOrUpdateWorkload(silent, c.adjusted(admitted))
		}
	}
	return errors.Join(failed...)
}

// adjusted returns a workload with the requests that Kueue adds: of limits, defaults and overheads.
func (c *court) adjusted(w *Workload) *Workload {
	adjusted := w.DeepCopy()
	workload.AdjustResources(c.ctx, c.objects, adjusted)
	return adjusted
}

func (c *court) submit(w *Workload) (Verdict, error) {
	withDefaults(w)
	w.UID = types.UID(cmp.Or(string(w.UID), w.Name))
	if w.CreationTimestamp.IsZero() {
		w.CreationTimestamp = metav1.NewTime(c.clock.Now())
	}
	c.objects.put(w)
	c.asked, c.seen, c.attempts = w, map[string]bool{}, 0
	pending := Verdict{Name: w.Name, Mode: "NoFit"}
	if err := enqueue(c.queues, c.adjusted(w)); err != nil {
		pending.Message = err.Error()
		return pending, nil
	}
	name, _ := c.queues.ClusterQueueForWorkload(w)
	pending.ClusterQueue = string(name)
	if !c.cache.ClusterQueueActive(name) {
		withdraw(c.queues, w)
		_, _, pending.Message = c.cache.ClusterQueueReadiness(name)
		return pending, nil
	}
	if isDelayed(w, c.clock.Now()) {
		withdraw(c.queues, w)
		pending.Message = "the workload waits to be requeued"
		return pending, nil
	}
	select {
	case verdict := <-c.verdicts:
		verdict.Name, verdict.ClusterQueue, verdict.Attempts = w.Name, string(name), max(1, c.attempts)
		return verdict, nil
	case cause := <-c.panics:
		return Verdict{}, fmt.Errorf("workload %s: Kueue's scheduler panics: %v", w.Name, cause)
	case <-time.After(patience):
		return Verdict{}, fmt.Errorf("workload %s: no verdict after %v", w.Name, patience)
	}
}

// observe ends an attempt: the scheduler records an event when it has admitted a workload or requeued it.
// kind is that of the event: the reason of a warning depends on a gate.
func (c *court) observe(object runtime.Object, kind, reason, message string) {
	w, ok := object.(*Workload)
	if ok && c.crowd != nil {
		c.crowd.observe(w, reason, message)
		return
	}
	if !ok || workload.Key(w) != workload.Key(c.asked) {
		return
	}
	switch {
	case reason == "QuotaReserved":
		c.attempts++
		podSets := w.Status.Admission.PodSetAssignments
		c.verdicts <- Verdict{Mode: "Fit", PodSets: podSets, Placements: placements(podSets), Borrowed: c.borrowed(w)}
	case kind == corev1.EventTypeWarning:
		c.attempts++
		if c.preempts() {
			c.end(Verdict{Mode: "Preempt", Targets: c.objects.targets(), Message: message})
		} else if !c.continues() {
			c.end(Verdict{Mode: "NoFit", Message: message})
		}
	}
}

// preempts reports whether the scheduler has evicted workloads, or waits for those whose eviction had begun before. Only
// the condition that it has written shows the latter: it has 32 times as many characters as an event.
func (c *court) preempts() bool {
	if len(c.objects.targets()) > 0 {
		return true
	}
	condition := c.objects.condition(c.asked, quotaReserved)
	return condition != nil && strings.Contains(condition.Message, pendingPreemption)
}

// formatted returns the message of an event; one without arguments may contain percent signs.
func formatted(format string, arguments []any) string {
	if len(arguments) == 0 {
		return format
	}
	return fmt.Sprintf(format, arguments...)
}

// continues reports whether the next attempt begins with other flavors than all before. Without other events Kueue
// would repeat an attempt from the first flavor for ever if the queue is strict, and not at all otherwise.
func (c *court) continues() bool {
	name, _ := c.queues.ClusterQueueForWorkload(c.asked)
	for _, info := range c.queues.PendingWorkloadsInfo(name) {
		if workload.Key(info.Obj) == workload.Key(c.asked) && info.LastAssignment.PendingFlavors() {
			state := fmt.Sprint(info.LastAssignment.LastTriedFlavorIdx)
			again := c.seen[state]
			c.seen[state] = true
			return !again && c.attempts < attemptLimit
		}
	}
	return false
}

// end withdraws the workload, so that the scheduler is idle, and passes the verdict on.
func (c *court) end(verdict Verdict) {
	withdraw(c.queues, c.asked)
	c.verdicts <- verdict
}

// borrowed returns what the workload's cluster queue borrows of the flavors that the workload uses.
func (c *court) borrowed(w *Workload) map[string]string {
	queue := &ClusterQueue{ObjectMeta: metav1.ObjectMeta{Name: string(w.Status.Admission.ClusterQueue)}}
	usage, err := c.cache.Usage(queue)
	if err != nil {
		return nil
	}
	used := map[string]bool{}
	for _, pods := range w.Status.Admission.PodSetAssignments {
		for resource, flavor := range pods.Flavors {
			if amount := pods.ResourceUsage[resource]; !amount.IsZero() {
				used[fmt.Sprintf("%s/%s", flavor, resource)] = true
			}
		}
	}
	borrowed := map[string]string{}
	for _, flavor := range usage.ReservedResources {
		for _, resource := range flavor.Resources {
			key := fmt.Sprintf("%s/%s", flavor.Name, resource.Name)
			if !resource.Borrowed.IsZero() && used[key] {
				borrowed[key] = resource.Borrowed.String()
			}
		}
	}
	return borrowed
}

// decode reads an object strictly: an unknown field would be a field that Kueue would not see.
func decode(raw json.RawMessage, into any) error {
	decoder := json.NewDecoder(strings.NewReader(string(raw)))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// withLimitDefaults sets what the API server adds to a LimitRange: without a default the maximum, and so on.
func withLimitDefaults(limits *corev1.LimitRange) {
	for i := range limits.Spec.Limits {
		item := &limits.Spec.Limits[i]
		if item.Type != corev1.LimitTypeContainer {
			continue
		}
		item.Default = completed(item.Default, item.Max)
		item.DefaultRequest = completed(completed(item.DefaultRequest, item.Default), item.Min)
	}
}

// completed returns a list with the amounts of another one where it has none.
func completed(list, other corev1.ResourceList) corev1.ResourceList {
	result := maps.Clone(other)
	if result == nil {
		result = corev1.ResourceList{}
	}
	maps.Copy(result, list)
	return result
}

// isDelayed reports whether Kueue keeps a workload out of its queue after an eviction.
func isDelayed(w *Workload, now time.Time) bool {
	state := w.Status.RequeueState
	return meta.IsStatusConditionFalse(w.Status.Conditions, requeued) ||
		state != nil && state.RequeueAt != nil && state.RequeueAt.After(now)
}
