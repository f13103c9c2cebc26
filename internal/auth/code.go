package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/stoahub/stoa/internal/elapsed"
)

const (
	// CodeLife is how long a code can be used.
	CodeLife = 2 * time.Minute

	maxCodes    = 8     // unused ones of a principal; the oldest makes room
	maxAllCodes = 1_024 // unused ones of everybody but the owner

	// codeLetters are those of Crockford's base 32: no two look alike.
	codeLetters = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	codeLength  = 12 // 60 bits, of which nobody finds a noticeable part within CodeLife
	codeGroup   = 4
)

// ErrBadCode is the answer to a code that lets nobody in.
var ErrBadCode = errors.New("the code is not valid: it was used, has expired, or is mistyped")

// ErrTooMany is the answer to who has as many of something as one may have, or
// makes them too fast.
var ErrTooMany = errors.New("there are too many")

// ErrNoCode is the answer about a code that nothing is known of any more.
var ErrNoCode = errors.New("no such code")

// Codes are what a person carries from a terminal to a browser, to sign in
// there as whoever asked for the code. Each is good once, within CodeLife. They
// are kept in memory only, so that none outlives the hub, unless hubs share them;
// the zero value has none.
type Codes struct {
	Now func() time.Time // the clock; nil means time.Now

	shared *sharedCodes // nil: they are in memory

	mu    sync.Mutex
	made  []*code // oldest first, also used ones, until they expire
	fails attempts
}

// Code is what is known of a code, which is everything but the code.
type Code struct {
	ID      string    `json:"id"`
	Expires time.Time `json:"expires"`
	Used    bool      `json:"used"`
}

type code struct {
	Code
	hash [sha256.Size]byte
	who  *Principal
}

func (c *Codes) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

// Create returns a code for the holder of a token, or the owner.
func (c *Codes) Create(who *Principal) (Code, string, error) {
	if err := mayPassOn(who); err != nil {
		return Code{}, "", err
	}
	if c.shared != nil {
		return c.shared.create(c.now(), who)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	c.sweep(now)
	oldest, mine, all := -1, 0, 0
	for i, one := range c.made {
		if all++; one.who.Name != who.Name {
			continue
		}
		if mine++; oldest < 0 {
			oldest = i
		}
	}
	if mine >= maxCodes {
		c.made = append(c.made[:oldest], c.made[oldest+1:]...)
	} else if all >= maxAllCodes && !who.IsOwner() {
		return Code{}, "", ErrTooMany
	}
	text := newCode()
	one := &code{Code{ID: newID("c_"), Expires: now.Add(CodeLife)}, sha256.Sum256([]byte(text)), who}
	c.made = append(c.made, one)
	return one.Code, grouped(text), nil
}

// Redeem returns whose code it is. The code is good for nothing afterwards. Who
// guesses from one address is told to wait; the right code gets in all the
// same, or anybody on this machine could keep its owner out.
func (c *Codes) Redeem(text, remote string) (who *Principal, wait time.Duration, err error) {
	if c.shared != nil {
		who, err = c.shared.redeem(c.now(), plain(text))
	} else {
		who, err = c.redeem(plain(text))
	}
	if errors.Is(err, ErrBadCode) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.fails.now = c.now
		wait, _ = c.fails.failed(remote)
	}
	return who, wait, err
}

func (c *Codes) redeem(text string) (*Principal, error) {
	hash := sha256.Sum256([]byte(text))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep(c.now())
	for _, one := range c.made {
		if one.hash == hash && !one.Used {
			one.Used = true
			return one.who, nil
		}
	}
	return nil, ErrBadCode
}

// State says whether a code of a principal was used.
func (c *Codes) State(id string, who *Principal) (Code, error) {
	if c.shared != nil {
		return c.shared.state(c.now(), id, who)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sweep(c.now())
	for _, one := range c.made {
		if one.ID == id && one.who.Name == who.Name {
			return one.Code, nil
		}
	}
	return Code{}, ErrNoCode
}

// sweep forgets what has expired. Called with mu held.
func (c *Codes) sweep(now time.Time) {
	for len(c.made) > 0 && elapsed.Past(c.made[0].Expires, now) {
		c.made = c.made[1:]
	}
}

func newCode() string {
	var b [codeLength]byte
	rand.Read(b[:])
	for i := range b {
		b[i] = codeLetters[b[i]%byte(len(codeLetters))]
	}
	return string(b[:])
}

// grouped is a code as people read it.
func grouped(text string) string {
	var parts []string
	for ; len(text) > codeGroup; text = text[codeGroup:] {
		parts = append(parts, text[:codeGroup])
	}
	return strings.Join(append(parts, text), "-")
}

// plain is a code without what people add to it or mistake in it.
func plain(text string) string {
	if len(text) > 4*codeLength {
		return ""
	}
	return strings.NewReplacer("-", "", " ", "", "O", "0", "I", "1", "L", "1").Replace(strings.ToUpper(text))
}
