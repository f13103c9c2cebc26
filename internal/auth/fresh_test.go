package auth

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// What is removed before a token's first use is removed once, whoever else has
// the file, and nobody gets in before.
func TestFirstUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	tokens := tokensAt(t, path)
	_, bob, err := tokens.Create("bob", Scopes{"*"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, carol, err := tokens.Create("carol", Scopes{"*"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	tokens.OnFirstUse(func(context.Context, string) error { return errors.New("the disk is full") })
	if who, err := tokens.Verify(ctx, bob); err == nil || errors.Is(err, ErrBadToken) {
		t.Errorf("let in before what was there is removed: %v, %v", who, err)
	}
	var mu sync.Mutex
	var removed []string
	remover := func(tokens *Tokens) func(context.Context, string) error {
		return func(_ context.Context, name string) error {
			// Those whose things are removed may be looked for meanwhile.
			if who, err := tokens.Named(name); who != nil || err != nil {
				t.Errorf("%s is there already: %v, %v", name, who, err)
			}
			mu.Lock()
			defer mu.Unlock()
			removed = append(removed, name)
			return nil
		}
	}
	other := tokensAt(t, path)
	tokens.OnFirstUse(remover(tokens))
	other.OnFirstUse(remover(other))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if who, err := []*Tokens{tokens, other}[i%2].Verify(ctx, bob); err != nil || who.Name != "bob" {
				t.Errorf("%v, %v", who, err)
			}
		})
	}
	wg.Wait()
	// Looking for somebody removes nothing, and finds nobody who was never here.
	if who, err := other.Named("carol"); err != nil || who != nil {
		t.Errorf("carol before she was here: %v, %v", who, err)
	}
	if who, err := other.Holder("carol"); err != nil || who == nil {
		t.Errorf("the holder of carol's token: %v, %v", who, err)
	}
	if len(removed) != 1 {
		t.Errorf("removed for %q by looking", removed)
	}
	if _, err := tokens.Verify(ctx, carol); err != nil {
		t.Error(err)
	}
	if who, err := other.Named("carol"); err != nil || who == nil {
		t.Errorf("carol: %v, %v", who, err)
	}
	if slices.Sort(removed); !slices.Equal(removed, []string{"bob", "carol"}) {
		t.Errorf("removed for %q", removed)
	}
	if _, err := tokens.Revoke("bob"); err != nil {
		t.Fatal(err)
	}
	if _, bob, err = tokens.Create("bob", Scopes{"*"}, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Verify(ctx, bob); err != nil {
		t.Error(err)
	}
	if len(removed) != 3 || removed[2] != "bob" {
		t.Errorf("removed for %q, want bob once more", removed)
	}
}

// Tokens of a file from before this was noted keep what is theirs.
func TestFirstUseOfOldTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	tokens := tokensAt(t, path)
	_, bob, err := tokens.Create("bob", Scopes{"*"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := load(path)
	s.tokens[0].Fresh = false
	if err := save(path, s.tokens); err != nil {
		t.Fatal(err)
	}
	tokens.OnFirstUse(func(_ context.Context, name string) error {
		t.Errorf("what %s has is removed", name)
		return nil
	})
	if _, err := tokens.Verify(context.Background(), bob); err != nil {
		t.Error(err)
	}
}

func tokensAt(t *testing.T, path string) *Tokens {
	t.Helper()
	tokens, err := OpenTokens(path)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// waits is where tokens are kept, with something that happens before a first use
// has its turn.
type waits struct {
	keeper
	meanwhile func()
}

func (w waits) settle(name string, remove func(context.Context, string) error) error {
	w.meanwhile()
	return w.keeper.settle(name, remove)
}

// A token that is revoked while its first use waits for that of another lets
// nobody in, also where there is a new one of its name by then.
func TestRevokedWhileItsFirstUseWaits(t *testing.T) {
	for name, again := range map[string]bool{"revoked": false, "made again": true} {
		t.Run(name, func(t *testing.T) {
			tokens := tokensAt(t, filepath.Join(t.TempDir(), "tokens.json"))
			tokens.OnFirstUse(func(context.Context, string) error { return nil })
			_, bob, err := tokens.Create("bob", Scopes{"*"}, 0)
			if err != nil {
				t.Fatal(err)
			}
			first := tokens.keeper
			tokens.keeper = waits{first, func() {
				tokens.keeper = first
				if _, err := tokens.Revoke("bob"); err != nil {
					t.Error(err)
				}
				if again {
					if _, _, err := tokens.Create("bob", Scopes{"files"}, 0); err != nil {
						t.Error(err)
					}
				}
			}}
			if who, err := tokens.Verify(t.Context(), bob); !errors.Is(err, ErrBadToken) {
				t.Errorf("let in as %v, %v", who, err)
			}
		})
	}
}
