package policy

import (
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// fresh is a character that hardly a rule names.
const fresh = '\ue000'

// Bounds of the values that are tried for one argument.
const (
	maxRegexpsTried = 4
	maxSamples      = 4096
)

// parts are what the conditions on one argument compare it with.
type parts struct {
	patterns [][]token // of globs, and of texts to be equal to
	literals []scalar  // values to be equal to
	bounds   []float64
	exact    []*number // that a float may not hold
	folders  []*folder
	regexps  []string
	numbers  bool // a number is something else than its text
}

func (p *parts) collect(c *condition) {
	for i := range c.any {
		p.collect(&c.any[i])
	}
	if c.not != nil {
		p.collect(c.not)
	}
	if c.is != nil {
		p.literals = append(p.literals, *c.is)
		p.literal(c.is.text)
		if n, ok := parseNumber(strings.TrimSpace(c.is.text)); ok { // also if it is in quotes
			p.bounds = append(p.bounds, n.float)
		}
		if c.is.num != nil {
			p.numbers, p.exact = true, append(p.exact, c.is.num)
		}
	}
	if c.glob != nil {
		if c.glob.how == matchExact {
			p.literals = append(p.literals, scalar{kind: '"', text: c.glob.text})
		}
		p.patterns = append(p.patterns, c.glob.steps())
	}
	for _, n := range []*number{c.above, c.below} {
		if n != nil {
			p.numbers, p.bounds = true, append(p.bounds, n.float)
		}
	}
	if c.under != nil {
		p.folders = append(p.folders, c.under)
	}
	if c.matches != nil && !slices.Contains(p.regexps, c.matches.String()) {
		p.regexps = append(p.regexps, c.matches.String())
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

// guess is what is assumed of a value that stands for many: which regular
// expressions find something in it, where it leads as a path, and which number it
// is when it is read as one. So that nothing is hidden that may be allowed, more
// is assumed than there is.
type guess struct {
	finds map[string]bool
	path  string
	num   *number // nil for none
}

// samples are values to try, which stand for all there are: any value has the
// outcomes of one of them, or is denied wherever that is. If a rule asks, for
// which it is enough that a condition may hold, a sample has the very outcomes.
// ok is false where samples cannot do that.
func (p *parts) samples(asks bool) (out []value, ok bool) {
	texts, ok := sampleTexts(p.patterns)
	paths, plain := p.paths()
	finds := p.findings()
	numbers := slices.Concat(between(p.bounds), p.exact)
	if !ok || !plain || asks && (p.numbers || len(p.folders) > 0) || finds == nil || len(texts)*len(paths)*len(finds)*(2+2*len(numbers)) > maxSamples {
		return nil, false
	}
	out = append(out, value{missing: true}, value{empty: true}, value{empty: true, onWay: true})
	for _, s := range append([]scalar{{kind: 'n', text: "null"}, {kind: 't', text: "true"}, {kind: 'f', text: "false"}, {kind: '{', text: "{}"}}, p.literals...) {
		out = append(out, value{scalar: &s})
	}
	for _, text := range texts {
		if slices.ContainsFunc(p.literals, func(s scalar) bool { return s.text == text && s.kind == '"' }) && !asks && !p.numbers {
			continue // the only value with this text is there already
		}
		for _, path := range paths {
			for _, f := range finds {
				p.guess(text, guess{finds: f, path: path}, numbers, asks, &out)
			}
		}
	}
	return out, true
}

// guess adds the values of a text, of which the same is assumed.
func (p *parts) guess(text string, g guess, numbers []*number, asks bool, out *[]value) {
	add := func(kind byte, num, read *number) {
		own := g
		own.num = read
		*out = append(*out, value{scalar: &scalar{kind: kind, text: text, num: num, guess: &own}})
	}
	add('"', nil, nil)
	if asks {
		add('{', nil, nil)
	}
	for _, n := range numbers {
		if asks {
			add('"', nil, n)
		}
		if (asks || p.numbers) && g.path == string(fresh) { // digits lead nowhere
			add('0', n, n)
		}
	}
}

// paths are the paths to try: one in each folder, and one that is in none. plain
// is false if it cannot be told from the text of some folder what is in it.
func (p *parts) paths() (out []string, plain bool) {
	out = []string{string(fresh)}
	for _, f := range p.folders {
		if !strings.HasPrefix(f.dir, "/") || strings.ContainsRune(f.dir, fresh) {
			return nil, false
		}
		if one := f.dir + "/" + string(fresh); !slices.Contains(out, one) {
			out = append(out, one)
		}
	}
	return out, true
}

// findings are the ways in which the regular expressions can find something or
// not; nil if there are too many.
func (p *parts) findings() (out []map[string]bool) {
	if len(p.regexps) > maxRegexpsTried {
		return nil
	}
	for bits := range 1 << len(p.regexps) {
		one := map[string]bool{}
		for i, re := range p.regexps {
			one[re] = bits&(1<<i) != 0
		}
		out = append(out, one)
	}
	return out
}

// between returns the numbers, one between each two of them, and one at either
// end, which no other number is beyond.
func between(bounds []float64) (out []*number) {
	add := func(text string) {
		n, _ := parseNumber(text)
		out = append(out, &n)
	}
	add("-1e999")
	bounds = slices.Clone(bounds)
	slices.Sort(bounds)
	for i, f := range bounds {
		if f-f != 0 { // an infinity
			continue
		}
		add(strconv.FormatFloat(f, 'g', -1, 64))
		if i+1 < len(bounds) && bounds[i+1]-bounds[i+1] == 0 {
			add(strconv.FormatFloat(f/2+bounds[i+1]/2, 'g', -1, 64))
		}
	}
	add("1e999")
	return out
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
