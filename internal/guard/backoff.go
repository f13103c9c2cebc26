package guard

import (
	"math/rand/v2"
	"time"
)

// Backoff spaces the attempts to restart or reconnect: each pause is up to
// twice the last, never longer than the maximum, and partly random, so that
// many that failed together do not come back together.
//
// It belongs to the one goroutine that makes the attempts.
type Backoff struct {
	base, max time.Duration
	rand      func() float64
	attempts  int
}

// NewBackoff returns a Backoff whose first pause is at most base and whose
// longest is at most limit; limit below base means base. random returns
// numbers in [0,1); nil means the runtime's generator. A base that is not
// positive means 100 ms.
func NewBackoff(base, limit time.Duration, random func() float64) *Backoff {
	if base <= 0 {
		base = 100 * time.Millisecond
	}
	if random == nil {
		random = rand.Float64
	}
	return &Backoff{base: base, max: max(base, limit), rand: random}
}

// Next returns the pause before the next attempt: between half of the step's
// length and all of it.
func (b *Backoff) Next() time.Duration {
	step := b.base
	for range b.attempts {
		if step >= b.max/2 {
			step = b.max
			break
		}
		step *= 2
	}
	b.attempts++
	half := step / 2
	return half + time.Duration(b.rand()*float64(step-half))
}

// Attempts is how many pauses were handed out since the last Reset.
func (b *Backoff) Attempts() int { return b.attempts }

// Reset makes the next pause the first again. Call it when an attempt has
// proved good for a while, not at the first sign of life: a process that dies
// just after its start would otherwise be restarted without pause.
func (b *Backoff) Reset() { b.attempts = 0 }
