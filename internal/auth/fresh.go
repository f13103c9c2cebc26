package auth

import (
	"context"
	"fmt"

	"github.com/rogpeppe/go-internal/lockedfile"
)

// OnFirstUse sets what is done before a new token lets anybody in for the first
// time: what is kept under its name belongs to a token that had the name before,
// and is to be removed. If it fails, the token lets nobody in yet. It is called
// once for each token, also where several processes have the file, or hubs the
// store; its context ends if another may begin. It may look for principals here,
// and not in another Tokens of the same file, which waits.
func (t *Tokens) OnFirstUse(remove func(ctx context.Context, name string) error) {
	t.first.Store(&remove)
}

// settle makes sure that the token of that name starts with nothing. It is
// called with settling held, and nothing else, since removing may ask for other
// principals.
func (t *Tokens) settle(name string) error {
	remove := t.first.Load()
	if remove == nil {
		return nil
	}
	return t.keeper.settle(name, *remove)
}

func (t *fileTokens) settle(name string, remove func(context.Context, string) error) error {
	unlock, err := lockedfile.MutexAt(t.path + ".lock").Lock()
	if err != nil {
		return fmt.Errorf("lock %s: %w", t.path, err)
	}
	defer unlock()
	s := load(t.path)
	if s.err != nil {
		return s.err
	}
	for i := range s.tokens {
		if s.tokens[i].Name != name || !s.tokens[i].Fresh {
			continue // another process may have been first
		}
		if err := remove(context.Background(), name); err != nil {
			return fmt.Errorf("remove what a token named %q kept that is revoked: %w", name, err)
		}
		s.tokens[i].Fresh = false
		if err := save(t.path, s.tokens); err != nil {
			return err
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen.Store(load(t.path))
	return nil
}
