package llmtest_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stoahub/stoa/internal/llm"
	"github.com/stoahub/stoa/internal/llm/llmtest"
)

// TestHerd has many ask at once where few may within a second. Were all of them
// to wait for themselves, they would begin again together each time, and most
// would give up.
func TestHerd(t *testing.T) {
	const askers, perSecond = 60, 10
	for _, api := range llmtest.APIs() {
		t.Run(api.Name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var window time.Time
				in := 0
				fake := llmtest.NewFake(t, api, func(int, llmtest.Asked) llmtest.Reply {
					mu.Lock()
					defer mu.Unlock()
					if now := time.Now(); now.Sub(window) >= time.Second {
						window, in = now, 0
					}
					if in++; in > perSecond {
						return api.Limited("Retry-After", "1")
					}
					return api.Answer(fine)
				})
				client, end := fake.InMemory()
				defer end()
				var hold llm.Hold // of two models with one key
				var group sync.WaitGroup
				for range 2 {
					m, err := open(api.Name, llm.Options{HTTP: client, Hold: &hold})
					if err != nil {
						t.Fatal(err)
					}
					for range askers / 2 {
						group.Go(func() {
							if a, err := llm.Collect(m.Stream(t.Context(), llm.Request{Messages: []llm.Message{llm.Say(llm.User, "Look.")}})); err != nil || a.Message.Text() != "Fine." {
								t.Errorf("%q, %v", a.Message.Text(), err)
							}
						})
					}
				}
				group.Wait()
				// The first wave is refused for the most part, since nobody knows yet; then a
				// few in each second.
				if n := len(fake.Asked()); n > 3*askers {
					t.Errorf("%d requests for %d answers", n, askers)
				}
			})
		})
	}
}
