package main

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// recorder passes the scheduler's events, which are those of events.k8s.io since v0.18, on to a case.
type recorder struct{ court *court }

func (r recorder) Eventf(object, _ runtime.Object, kind, reason, _, format string, arguments ...any) {
	r.court.observe(object, kind, reason, formatted(format, arguments))
}
