package call

import (
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/stoahub/stoa/internal/hubtest/sleep"
)

func TestCacheIsBounded(t *testing.T) {
	c := newCache()
	now := time.Now()
	key := func(s string) cacheKey { return sha256.Sum256([]byte(s)) }
	put := func(s string, size int) {
		c.put(&cached{key: key(s), result: make([]byte, size), born: now, ends: now.Add(time.Minute)})
	}
	held := func(names string) {
		t.Helper()
		n := 0
		for _, s := range strings.Fields("a b c d e") {
			if has := c.get(key(s), now) != nil; has != strings.Contains(names, s) {
				t.Errorf("%s is there: %t; want %q", s, has, names)
			} else if has {
				n++
			}
		}
		if entries, bytes := c.figures(); entries != n || n == 0 && bytes != 0 {
			t.Errorf("%d entries, %d bytes; want %d", entries, bytes, n)
		}
	}
	c.bound(3, 10_000)
	put("a", 10)
	put("b", 10)
	put("c", 10)
	c.get(key("a"), now) // b is now what was not used for longest
	put("d", 10)
	held("a c d")
	put("e", 9_000) // by bytes
	if _, bytes := c.figures(); bytes > 10_000 || c.get(key("e"), now) == nil {
		t.Errorf("%d bytes are held", bytes)
	}
	if c.fits(9_000) || !c.fits(900) {
		t.Error("one result may take more than its share")
	}
	c.bound(1, 10_000)
	held("e")
	now = now.Add(time.Minute)
	held("")
	put("a", 10)
	put("a", 20)
	if entries, bytes := c.figures(); entries != 1 || bytes != 20+cacheCost {
		t.Errorf("the same again: %d entries, %d bytes", entries, bytes)
	}
	if c.get(key("a"), sleep.For(now, time.Hour)) != nil {
		t.Error("a result is reused after the machine has slept for longer than it may be")
	}
}

func TestCanonical(t *testing.T) {
	for raw, want := range map[string]string{
		`{ "b":1, "a":[1, {"d":2,"c":3}] }`:  `{"a":[1,{"c":3,"d":2}],"b":1}`,
		`{"n":12345678901234567890,"f":1.0}`: `{"f":1.0,"n":12345678901234567890}`,
		`{"required":["b","a"]}`:             `{"required":["b","a"]}`, // its order may say something
		`{"a":1,"a":2}`:                      `{"a":1,"a":2}`,
		`{"a":"\ud800"}`:                     `{"a":"\ud800"}`,
		"{\"a\":\"\u00fc\"}":                 "{\"a\":\"\u00fc\"}",
		`{"a":"\u00fc"}`:                     "{\"a\":\"\u00fc\"}",
	} {
		if got := string(canonical([]byte(raw))); got != want {
			t.Errorf("%s becomes %s, want %s", raw, got, want)
		}
	}
}
