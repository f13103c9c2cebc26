package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// watch finds out when a failure is over. It sleeps while there is none.
func (s *Store) watch() {
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.health.changed:
		}
		for n := 0; s.State() != nil && s.ctx.Err() == nil; n++ {
			if s.recovered() {
				s.health.set(nil, false)
				s.log.Info("the store writes again")
				break
			}
			if wait(s.ctx, s.ctx, min(time.Second, 50*time.Millisecond<<min(n, 5))) != nil {
				return
			}
		}
	}
}

// recovered tries whether the engine is able again.
func (s *Store) recovered() bool {
	ctx, cancel := context.WithTimeout(s.ctx, s.o.Timeout)
	defer cancel()
	if s.folder != nil && s.health.broken().Err() != nil {
		if err := s.restart(ctx); err != nil {
			s.log.Debug("the engine cannot be started again yet", "err", err)
			return false
		}
		return true
	}
	return s.leaders(ctx) == nil
}

// leaders asks for the state of every stream, which only its leader tells.
func (s *Store) leaders(ctx context.Context) error {
	js := s.engine.Load().js
	if _, err := js.AccountInfo(ctx); err != nil {
		return err
	}
	var missing []error
	s.streams.Range(func(name, _ any) bool {
		st, err := js.Stream(ctx, name.(string))
		if err != nil {
			missing = append(missing, err)
			return false
		}
		if c := st.CachedInfo().Cluster; c != nil && c.Leader == "" {
			missing = append(missing, fmt.Errorf("%s has no leader", name))
			return false
		}
		return true
	})
	return errors.Join(missing...)
}

// roomNeeded is what must be free before a full disk counts as having room
// again; the engine writes its index when it ends.
const roomNeeded = 1 << 20

// restart replaces the embedded engine, which writes nothing more to a stream
// after one failed write. What it acknowledged is in its files.
func (s *Store) restart(ctx context.Context) error {
	probe := filepath.Join(s.folder.dir, "probe.tmp")
	err := writeFile(probe, make([]byte, roomNeeded))
	_ = os.Remove(probe) // gone, or never made
	if err != nil {
		return err
	}
	old := s.engine.Load()
	old.close()
	if err := s.folder.check(); err != nil {
		return err
	}
	e, err := startEngine(ctx, s.folder, s.o, s.health)
	if err != nil {
		return err
	}
	s.engine.Store(e)
	return nil
}
