package policy

import (
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/stoahub/stoa/internal/wire"
)

// fresh is a character that hardly a rule names.
const fresh = '\ue000'

// parts are what the conditions on one argument compare it with.
type parts struct {
	patterns [][]token // of globs, and of texts to be equal to
	raw      [][]byte  // values to be equal to
	bounds   []float64
	texts    []string // that may match what has no samples
	unclear  bool     // there is a folder or a regular expression
	compares bool     // there is a number to be above or below of
	globbed  bool
}

func (p *parts) collect(c *condition) {
	for i := range c.any {
		p.collect(&c.any[i])
	}
	if c.not != nil {
		p.collect(c.not)
	}
	if c.is != nil {
		p.literal(c.is.text)
		switch {
		case c.is.kind == '"':
			p.raw = append(p.raw, wire.Quote(c.is.text))
		case c.is.num != nil:
			p.raw, p.bounds = append(p.raw, []byte(c.is.text)), append(p.bounds, c.is.num.float)
		default:
			p.raw = append(p.raw, []byte(c.is.text))
		}
	}
	if c.glob != nil {
		p.globbed = true
		p.patterns = append(p.patterns, c.glob.steps())
	}
	for _, n := range []*number{c.above, c.below} {
		if n != nil {
			p.compares, p.bounds = true, append(p.bounds, n.float)
		}
	}
	if c.under != nil {
		p.unclear = true
		p.texts = append(p.texts, c.under.dir, c.under.dir+"/"+string(fresh))
	}
	if c.matches != nil {
		p.unclear = true
		prefix, _ := c.matches.LiteralPrefix()
		p.texts = append(p.texts, prefix, prefix+"a", prefix+"0")
	}
}

func (p *parts) literal(text string) {
	var tokens []token
	for _, r := range text {
		tokens = append(tokens, token{kind: tokenRune, r: r})
	}
	p.patterns = append(p.patterns, tokens)
}

// steps are the tokens of a glob, also of one that is matched without them.
func (g *glob) steps() (out []token) {
	if g.how == matchTokens {
		return g.tokens
	}
	star := token{kind: tokenStar}
	if g.how == matchSuffix || g.how == matchInner || g.how == matchAll {
		out = append(out, star)
	}
	for _, r := range g.text {
		out = append(out, token{kind: tokenRune, r: r})
	}
	if g.how == matchPrefix || g.how == matchInner {
		out = append(out, star)
	}
	return out
}

// samples are values to try, the likeliest first; complete reports whether they
// stand for all values there are.
func (p *parts) samples() (out [][]byte, complete bool) {
	texts, complete := sampleTexts(p.patterns)
	out = append(out, nil, wire.Quote(string(fresh)))
	for _, s := range slices.Concat(texts, p.texts) {
		out = append(out, wire.Quote(s))
	}
	out = append(out, p.raw...)
	out = append(out, []byte("null"), []byte("true"), []byte("false"), []byte("[]"), []byte("{}"))
	for _, f := range between(p.bounds) {
		out = append(out, strconv.AppendFloat(nil, f, 'g', -1, 64))
	}
	// A number's text may match a pattern, too: no sample stands for these.
	return out, complete && !p.unclear && !(p.compares && p.globbed)
}

// between returns the numbers, one between each two of them, and one at either
// end.
func between(bounds []float64) []float64 {
	if len(bounds) == 0 {
		return []float64{1e9 + 0.5}
	}
	bounds = slices.Clone(bounds)
	slices.Sort(bounds)
	out := []float64{bounds[0] - 1}
	for i, f := range bounds {
		out = append(out, f)
		if i+1 < len(bounds) {
			out = append(out, f+(bounds[i+1]-f)/2)
		}
	}
	return append(out, bounds[len(bounds)-1]+1)
}

// maxStates bounds the work of sampleTexts.
const maxStates = 2000

// sampleTexts returns a text for each combination of patterns that can match
// together while the others do not: a search through all of them at once, one
// character at a time. It gives up on patterns that are long or many.
func sampleTexts(patterns [][]token) (out []string, complete bool) {
	start := make([]uint64, len(patterns))
	for i, p := range patterns {
		if len(p) > 62 {
			return nil, false
		}
		start[i] = closure(p, 1)
	}
	type state struct {
		at   []uint64
		text string
	}
	signs := alphabet(patterns)
	queue := []state{{start, ""}}
	visited, seen := map[string]bool{stateKey(start): true}, map[string]bool{}
	for len(queue) > 0 {
		now := queue[0]
		queue = queue[1:]
		matched := make([]byte, len(patterns))
		for i, p := range patterns {
			if now.at[i]&(1<<len(p)) != 0 {
				matched[i] = 1
			}
		}
		if !seen[string(matched)] {
			seen[string(matched)] = true
			out = append(out, now.text)
		}
		for _, r := range signs {
			next := make([]uint64, len(patterns))
			for i, p := range patterns {
				next[i] = follow(p, now.at[i], r)
			}
			if k := stateKey(next); !visited[k] {
				if visited[k] = true; len(visited) > maxStates {
					return out, false
				}
				queue = append(queue, state{next, now.text + string(r)})
			}
		}
	}
	return out, true
}

func stateKey(at []uint64) string {
	var b []byte
	for _, m := range at {
		b = strconv.AppendUint(append(b, ' '), m, 36)
	}
	return string(b)
}

// follow returns the places in a pattern that can be reached from those in at
// by r.
func follow(p []token, at uint64, r rune) (next uint64) {
	for i := range p {
		switch {
		case at&(1<<i) == 0:
		case p[i].kind == tokenStar:
			next |= 1 << i
		case p[i].takes(r):
			next |= 1 << (i + 1)
		}
	}
	return closure(p, next)
}

// closure adds the places that need no character: a star may take none.
func closure(p []token, at uint64) uint64 {
	for i := range p {
		if at&(1<<i) != 0 && p[i].kind == tokenStar {
			at |= 1 << (i + 1)
		}
	}
	return at
}

// alphabet has a character of each kind that the patterns tell apart.
func alphabet(patterns [][]token) []rune {
	out := []rune{fresh, 1}
	add := func(r rune) {
		if utf8.ValidRune(r) && r != utf8.RuneError && !slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	hasSets := slices.ContainsFunc(patterns, func(p []token) bool {
		return slices.ContainsFunc(p, func(t token) bool { return t.kind == tokenSet })
	})
	for _, p := range patterns {
		for _, t := range p {
			if t.kind == tokenRune {
				if add(t.r); hasSets { // a range goes on behind it
					add(t.r + 1)
				}
			}
			for _, one := range t.ranges {
				add(one.lo)
				add(one.hi + 1)
			}
		}
	}
	return out
}
