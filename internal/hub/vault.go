package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/stoahub/stoa/internal/config"
	"github.com/stoahub/stoa/internal/owned"
	"github.com/stoahub/stoa/internal/store"
	"github.com/stoahub/stoa/internal/vault"
)

// Hubs on one store share secrets if they are given the same cluster key. See
// docs/adr/0015-cluster-key.md.

const (
	keyTime      = 30 * time.Second // for store.keyCommand
	keyBytes     = 4 << 10          // of its output
	vaultTries   = 5
	signingName  = "signing"
	vaultBucket  = "vault"
	keyElsewhere = "Give this hub the cluster key of the others by store.keyFile, store.keyCommand or STOA_STORE_KEY. " +
		"To begin with another key, stop all hubs and remove the streams bucket_vault, bucket_tokens, bucket_signins, bucket_codes, bucket_tickets and bucket_agents from the store; tokens have to be made again then"
)

// shared is what a hub has in common with the others on its store.
type shared struct {
	key     *vault.Key
	signing []byte // signs what clients bring back
}

// openShared opens what hubs on a store share, or returns nil if this hub shares
// nothing: nobody else can use the store, or no cluster key is configured.
func openShared(ctx context.Context, st *store.Store, cfg config.Store) (*shared, error) {
	if st == nil || st.Alone() {
		return nil, nil
	}
	key, err := clusterKey(ctx, cfg)
	if err != nil {
		return nil, err
	}
	bucket, err := st.Bucket(ctx, store.BucketOptions{Name: vaultBucket})
	if err != nil {
		return nil, fmt.Errorf("open what hubs on the store share: %w", err)
	}
	s := &shared{key: key}
	for range vaultTries {
		var v store.Value
		v, err = bucket.Get(ctx, signingName)
		switch {
		case err == nil && key == nil:
			return nil, fmt.Errorf("the hubs on this store share secrets under a cluster key, and this hub has none. %s", keyElsewhere)
		case err == nil:
			if s.signing, err = key.Open(vaultBucket+"."+signingName, v.Data); err != nil {
				return nil, fmt.Errorf("the cluster key is not the one of the other hubs on this store: the key in the store cannot be decrypted: %w. %s", err, keyElsewhere)
			}
			return s, nil
		case !errors.Is(err, store.ErrNotFound):
			return nil, fmt.Errorf("open what hubs on the store share: %w", err)
		case key == nil:
			return nil, nil
		}
		// Whoever is first makes it; then all read what there is.
		_, err = bucket.Create(ctx, signingName, key.Seal(vaultBucket+"."+signingName, vault.Random()), 0)
		if _, conflict := errors.AsType[*store.Conflict](err); err != nil && !conflict && !errors.Is(err, store.ErrUncertain) {
			return nil, fmt.Errorf("make a key for the hubs on the store: %w", err)
		}
	}
	return nil, fmt.Errorf("make a key for the hubs on the store: %w", err)
}

// clusterKey is the configured one, or nil.
func clusterKey(ctx context.Context, cfg config.Store) (*vault.Key, error) {
	text, where := cfg.Key.Reveal(), "store.key"
	switch {
	case cfg.KeyFile != "":
		where = "store.keyFile " + cfg.KeyFile
		b, err := readKey(cfg.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("read the cluster key: %w", err)
		}
		text = string(b)
	case cfg.KeyCommand != nil:
		where = "the output of store.keyCommand"
		var err error
		if text, err = printedKey(ctx, cfg.KeyCommand); err != nil {
			return nil, fmt.Errorf("get the cluster key: store.keyCommand: %w", err)
		}
	case text == "":
		return nil, nil
	}
	key, err := vault.NewKey(strings.TrimSpace(text))
	if err != nil {
		return nil, fmt.Errorf("the cluster key (%s) cannot be used: %w", where, err)
	}
	return key, nil
}

// readKey reads a file that only we can read. Its folder may be another's, as
// where secrets are mounted into a container.
func readKey(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if err := owned.Owner(path, info); err != nil {
		return nil, err
	}
	if mode := info.Mode(); !mode.IsRegular() || mode.Perm()&0o077 != 0 {
		return nil, fmt.Errorf("other users can read or write %s (mode %04o): run `chmod 600 %s`", path, mode.Perm(), path)
	}
	return io.ReadAll(io.LimitReader(f, keyBytes))
}

// printedKey runs a command and returns what it prints, which is in no error.
func printedKey(ctx context.Context, argv []string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, keyTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.WaitDelay = time.Second // for the pipes, if it has left processes behind
	out, said := &clipped{most: keyBytes}, &clipped{most: 300}
	cmd.Stdout, cmd.Stderr = out, said
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("%s did not end within %v", argv[0], keyTime)
	case err != nil && len(said.kept) > 0:
		return "", fmt.Errorf("%s: %w: %s", argv[0], err, bytes.TrimSpace(said.kept))
	case err != nil:
		return "", fmt.Errorf("%s: %w", argv[0], err)
	case out.more:
		return "", fmt.Errorf("%s printed more than %d bytes", argv[0], keyBytes)
	}
	return string(out.kept), nil
}

// clipped keeps the beginning of what is written to it.
type clipped struct {
	kept []byte
	most int
	more bool // there was more
}

func (c *clipped) Write(p []byte) (int, error) {
	keep := min(len(p), c.most-len(c.kept))
	c.more = c.more || keep < len(p)
	c.kept = append(c.kept, p[:keep]...)
	return len(p), nil
}

// signingKey signs what clients bring back; nil means one that nobody else has.
func (h *Hub) signingKey() []byte {
	switch {
	case h.shared != nil:
		return h.shared.signing
	case h.data != nil:
		return []byte(h.data.key)
	}
	return nil
}

// healthStoreKey is the code of a condition.
const healthStoreKey = "store_key"

// sharedHealth says that this hub shares no secrets with others that may be on
// its store.
func (h *Hub) sharedHealth() []healthItem {
	if h.data == nil || h.shared != nil || h.state.store.Alone() {
		return nil
	}
	return []healthItem{{healthStoreKey, "warning", noKey, noKeyHint}}
}

const (
	noKey     = "no cluster key is configured: tokens, sign-ins of browsers, signatures and registered agents of this hub count at no other hub on its store"
	noKeyHint = "Set store.keyFile, store.keyCommand or STOA_STORE_KEY to the same secret for all hubs on the store."
)
