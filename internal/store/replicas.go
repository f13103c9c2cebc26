package store

import "github.com/nats-io/nats.go/jetstream"

// fit makes a wanted config one that a stream can be given. Another hub may have
// been told of more replicas: they are never fewer than there are. How a stream is
// written to the disk cannot be changed, and one that is acknowledged before it is
// there cannot have replicas.
func (s *Store) fit(have, want *jetstream.StreamConfig) {
	want.PersistMode = have.PersistMode
	switch {
	case s.o.Keep || want.Replicas < have.Replicas:
		want.Replicas = have.Replicas
	case want.Replicas > 1 && have.PersistMode == jetstream.AsyncPersistMode:
		s.log.Info("one server keeps this log: an earlier release made it in a way that allows no replicas", "log", want.Name, "do", "To have it replicated, stop all hubs and remove the stream; what is in it is lost.")
		want.Replicas = have.Replicas
	}
	if want.Replicas > s.o.Replicas && !s.o.Keep && s.more.CompareAndSwap(0, int64(want.Replicas)) {
		s.log.Warn("the store has more replicas than are configured here, and keeps them", "replicas", want.Replicas, "configured", s.o.Replicas)
	}
}

// Replicas are how many servers are to keep what this store makes, and, if that is
// fewer than what is there already has, how many keep that; else 0.
func (s *Store) Replicas() (configured, more int) { return s.o.Replicas, int(s.more.Load()) }

// isReplicated reports whether followers may answer for a stream that have not heard
// yet of what was appended. Another hub may have its replicas raised at any time, so
// this does not rest on what was there when it was opened alone.
func (s *Store) isReplicated(stream string) bool {
	n, _ := s.streams.Load(stream)
	known, _ := n.(int)
	return known > 1 || s.o.Replicas > 1 || s.folder == nil && s.engine.Load().isClustered()
}

// isClustered reports whether the engine is one of several servers.
func (e *engine) isClustered() bool { return e.nc.ConnectedClusterName() != "" }
