// Package tables writes what Kueue's unit tests lay down and what Kueue decides, as lines of JSON.
package tables

import (
	"encoding/json"
	"os"
	"sort"
	"sync"

	"k8s.io/apiserver/pkg/util/feature"
)

var (
	lock sync.Mutex
	test string
	file *os.File
)

// Begin names the test to which the following events belong.
func Begin(name string) {
	lock.Lock()
	defer lock.Unlock()
	test = name
}

// Write records an event of the running test; the value is encoded before Write returns.
func Write(event string, value any) {
	lock.Lock()
	defer lock.Unlock()
	if file == nil {
		var err error
		if file, err = os.Create(os.Getenv("KUEUE_TABLES")); err != nil {
			panic(err)
		}
	}
	line := map[string]any{"test": test, "event": event, "value": value, "gates": gates()}
	if err := json.NewEncoder(file).Encode(line); err != nil {
		panic(err)
	}
}

// Object records an object that a test adds to Kueue's cache, or removes from it.
func Object(event, kind string, object any) {
	Write(event, map[string]any{"kind": kind, "object": object})
}

// gates returns the feature gates that differ from their defaults.
func gates() []string {
	changed := []string{}
	for name, spec := range feature.DefaultMutableFeatureGate.GetAll() {
		if enabled := feature.DefaultFeatureGate.Enabled(name); enabled != spec.Default {
			sign := "-"
			if enabled {
				sign = "+"
			}
			changed = append(changed, sign+string(name))
		}
	}
	sort.Strings(changed)
	return changed
}
