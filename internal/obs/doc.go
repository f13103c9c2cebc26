// Package obs owns how the hub is observed: the logger with its files and the
// ring of what was logged last, the keys of its attributes, and the metrics
// with their /metrics page.
//
// It is the only package that knows the telemetry libraries. A Metrics is an
// instance with a registry of its own, so that two hubs in one process do not
// mix, and it bounds the number of series whatever names it is given. Counting
// a call under names that were seen before takes no lock of ours.
//
// A Logs never fails whoever logs: what cannot be written to a file is said
// once, counted, and tried again later. Log files are JSON, one record a line;
// ReadFiles and Follow read them without the hub, also while it writes them.
//
// What is worth logging or measuring is decided by the callers.
package obs
