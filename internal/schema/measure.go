package schema

import "fmt"

// The bounds of a number: the validator computes with exact fractions, whose
// size is that of the number written out.
const (
	maxNumberLen = 1_000
	maxExponent  = 1_000
)

// measure counts the objects in JSON text and refuses text that is nested too
// deeply or has numbers of unreasonable size. It does not check the syntax:
// the decoder does, afterwards.
func measure(raw []byte, maxDepth int) (objects int, err error) {
	depth := 0
	for i := 0; i < len(raw); {
		switch c := raw[i]; {
		case c == '"':
			i = skipString(raw, i)
			continue
		case c == '{' || c == '[':
			if c == '{' {
				objects++
			}
			if depth++; depth > maxDepth {
				return 0, fmt.Errorf("nested deeper than %d levels", maxDepth)
			}
		case c == '}' || c == ']':
			depth--
		case c == '-' || c >= '0' && c <= '9':
			end, ok := skipNumber(raw, i)
			if !ok {
				return 0, fmt.Errorf("the number %.20s… is too long, or its exponent is beyond %d", raw[i:end], maxExponent)
			}
			i = end
			continue
		}
		i++
	}
	return objects, nil
}

// skipString returns the index after the string that starts at i.
func skipString(raw []byte, i int) int {
	for i++; i < len(raw); i++ {
		switch raw[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return i
}

// skipNumber returns the index after the number that starts at i and whether
// its size is within bounds.
func skipNumber(raw []byte, i int) (end int, ok bool) {
	exponent, inExponent := 0, false
	for end = i; end < len(raw); end++ {
		switch c := raw[end]; {
		case c >= '0' && c <= '9':
			if inExponent && exponent <= maxExponent {
				exponent = exponent*10 + int(c-'0')
			}
		case c == 'e' || c == 'E':
			inExponent = true
		case c != '+' && c != '-' && c != '.':
			return end, exponent <= maxExponent && end-i <= maxNumberLen
		}
	}
	return end, exponent <= maxExponent && end-i <= maxNumberLen
}
