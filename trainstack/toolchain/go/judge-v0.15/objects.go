package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// objects are a case's objects. As a client it answers what the cache, the queues and the scheduler ask; any other call
// is a nil dereference, so that nothing is answered wrongly in silence.
type objects struct {
	client.Client

	flavors       []*ResourceFlavor
	topologies    []*Topology
	checks        []*AdmissionCheck
	cohorts       []*Cohort
	clusterQueues []*ClusterQueue
	localQueues   []*LocalQueue
	namespaces    map[string]*corev1.Namespace
	limits        []corev1.LimitRange
	classes       map[string]*nodev1.RuntimeClass
	nodes         []corev1.Node
	pods          []corev1.Pod

	lock      sync.Mutex
	workloads map[string]*Workload
	preempted map[string]string
}

func newObjects() *objects {
	return &objects{
		namespaces: map[string]*corev1.Namespace{},
		classes:    map[string]*nodev1.RuntimeClass{},
		workloads:  map[string]*Workload{},
		preempted:  map[string]string{},
	}
}

// add reads an object; kinds that admission does not depend on are ignored.
func (o *objects) add(kind string, raw json.RawMessage) error {
	switch kind {
	case "ResourceFlavor":
		return read(raw, &o.flavors)
	case "Topology":
		return read(raw, &o.topologies)
	case "AdmissionCheck":
		return read(raw, &o.checks)
	case "Cohort":
		return read(raw, &o.cohorts)
	case "ClusterQueue":
		if err := read(raw, &o.clusterQueues); err != nil {
			return err
		}
		withQueueDefaults(o.clusterQueues[len(o.clusterQueues)-1])
	case "LocalQueue":
		return read(raw, &o.localQueues)
	case "Namespace":
		var namespace corev1.Namespace
		if err := decode(raw, &namespace); err != nil {
			return err
		}
		if namespace.Labels == nil {
			namespace.Labels = map[string]string{}
		}
		// The API server sets it.
		namespace.Labels[corev1.LabelMetadataName] = namespace.Name
		o.namespaces[namespace.Name] = &namespace
	case "LimitRange":
		var limits corev1.LimitRange
		if err := decode(raw, &limits); err != nil {
			return err
		}
		withLimitDefaults(&limits)
		o.limits = append(o.limits, limits)
	case "RuntimeClass":
		var class nodev1.RuntimeClass
		if err := decode(raw, &class); err != nil {
			return err
		}
		o.classes[class.Name] = &class
	case "Node":
		var node corev1.Node
		if err := decode(raw, &node); err != nil {
			return err
		}
		o.nodes = append(o.nodes, node)
	case "Pod":
		var pod corev1.Pod
		if err := decode(raw, &pod); err != nil {
			return err
		}
		if !isPlaced(&pod) {
			o.pods = append(o.pods, pod)
		}
	case "Workload":
		var w Workload
		if err := decode(raw, &w); err != nil {
			return err
		}
		withDefaults(&w)
		o.put(&w)
	}
	return nil
}

// read decodes an object into a new item of a list.
func read[T any](raw json.RawMessage, list *[]*T) error {
	object := new(T)
	if err := decode(raw, object); err != nil {
		return err
	}
	*list = append(*list, object)
	return nil
}

func (o *objects) put(w *Workload) {
	o.lock.Lock()
	defer o.lock.Unlock()
	o.workloads[w.Namespace+"/"+w.Name] = w.DeepCopy()
}

// workload returns a copy of a workload, with its status.
func (o *objects) workload(key string) *Workload {
	o.lock.Lock()
	defer o.lock.Unlock()
	return o.workloads[key].DeepCopy()
}

// targets returns the workloads that were preempted, with the reason.
func (o *objects) targets() map[string]string {
	o.lock.Lock()
	defer o.lock.Unlock()
	return maps.Clone(o.preempted)
}

// condition returns a condition of a workload that the scheduler has written, or nil.
func (o *objects) condition(w *Workload, kind string) *metav1.Condition {
	o.lock.Lock()
	defer o.lock.Unlock()
	return meta.FindStatusCondition(o.workloads[w.Namespace+"/"+w.Name].Status.Conditions, kind)
}

// Get returns a namespace, runtime class or workload.
func (o *objects) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch into := into.(type) {
	case *corev1.Namespace:
		if found, ok := o.namespaces[key.Name]; ok {
			*into = *found.DeepCopy()
			return nil
		}
	case *nodev1.RuntimeClass:
		if found, ok := o.classes[key.Name]; ok {
			*into = *found.DeepCopy()
			return nil
		}
	case *Workload:
		o.lock.Lock()
		defer o.lock.Unlock()
		if found, ok := o.workloads[key.String()]; ok {
			*into = *found.DeepCopy()
			return nil
		}
	default:
		return fmt.Errorf("unexpected read of %T %s", into, key)
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.String())
}

// List returns limit ranges, nodes, or pods without a topology. Queues and workloads are passed on explicitly.
func (o *objects) List(_ context.Context, into client.ObjectList, options ...client.ListOption) error {
	wanted := &client.ListOptions{}
	wanted.ApplyOptions(options)
	switch into := into.(type) {
	case *corev1.LimitRangeList:
		for _, limits := range o.limits {
			if limits.Namespace == wanted.Namespace {
				into.Items = append(into.Items, limits)
			}
		}
	case *corev1.NodeList:
		for _, node := range o.nodes {
			if isUsable(&node) && (wanted.LabelSelector == nil || wanted.LabelSelector.Matches(labels.Set(node.Labels))) {
				into.Items = append(into.Items, node)
			}
		}
	case *corev1.PodList:
		into.Items = append(into.Items, o.pods...)
	case *LocalQueueList, *WorkloadList:
	default:
		return fmt.Errorf("unexpected list of %T", into)
	}
	return nil
}

// isUsable reports whether topologies count a node: it is ready and schedulable.
func isUsable(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue && !node.Spec.Unschedulable
		}
	}
	return false
}

// Status returns the writer of workloads' status.
func (o *objects) Status() client.SubResourceWriter { return status{objects: o} }

type status struct {
	client.SubResourceWriter
	objects *objects
}

// Patch applies the status that the scheduler owns: admission, conditions and the state of requeueing.
func (s status) Patch(_ context.Context, object client.Object, _ client.Patch, _ ...client.SubResourcePatchOption) error {
	patch, ok := object.(*Workload)
	if !ok {
		return errors.New("only the status of workloads is written")
	}
	s.objects.lock.Lock()
	defer s.objects.lock.Unlock()
	key := patch.Namespace + "/" + patch.Name
	live, ok := s.objects.workloads[key]
	if !ok {
		return apierrors.NewNotFound(schema.GroupResource{}, key)
	}
	if cause := meta.FindStatusCondition(patch.Status.Conditions, preempted); cause != nil && meta.IsStatusConditionTrue(patch.Status.Conditions, evicted) {
		s.objects.preempted[key] = cause.Reason
	}
	live.Status.Admission = patch.Status.Admission.DeepCopy()
	live.Status.RequeueState = patch.Status.RequeueState.DeepCopy()
	for _, condition := range patch.Status.Conditions {
		meta.SetStatusCondition(&live.Status.Conditions, condition)
	}
	return nil
}
