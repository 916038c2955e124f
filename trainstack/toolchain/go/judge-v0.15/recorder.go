package main

import (
	"k8s.io/apimachinery/pkg/runtime"
)

// recorder passes the scheduler's events on to a case.
type recorder struct{ court *court }

func (r recorder) Event(object runtime.Object, kind, reason, message string) {
	r.court.observe(object, kind, reason, message)
}

func (r recorder) Eventf(object runtime.Object, kind, reason, format string, arguments ...any) {
	r.court.observe(object, kind, reason, formatted(format, arguments))
}

// AnnotatedEventf is for others; the scheduler does not use it.
func (r recorder) AnnotatedEventf(object runtime.Object, _ map[string]string, kind, reason, format string, arguments ...any) {
	r.Eventf(object, kind, reason, format, arguments...)
}
