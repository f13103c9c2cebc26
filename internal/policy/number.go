package policy

import (
	"strconv"
	"strings"
)

// number is a JSON number, exactly: 0.digits times ten to the power of exp. A
// float would take 9007199254740993 for the number below it.
type number struct {
	neg    bool
	digits string // without zeros at either end; empty for zero
	exp    int
	float  float64 // as most servers will read it
}

// maxExponent bounds exponents, so that sums of them do not overflow. What is
// beyond it is beyond every float, too.
const maxExponent = 1 << 30

// parseNumber reads a number as JSON writes it.
func parseNumber(s string) (n number, ok bool) {
	rest := s
	n.neg = strings.HasPrefix(rest, "-")
	rest = strings.TrimPrefix(rest, "-")
	mantissa, exponent := rest, ""
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		if mantissa, exponent = rest[:i], rest[i+1:]; exponent == "" {
			return number{}, false
		}
	}
	whole, fraction, dot := strings.Cut(mantissa, ".")
	if !isDigits(whole) || dot && !isDigits(fraction) {
		return number{}, false
	}
	if exponent != "" {
		sign := strings.TrimLeft(exponent, "+-")
		if len(exponent)-len(sign) > 1 || !isDigits(sign) {
			return number{}, false
		}
		e, err := strconv.Atoi(exponent)
		if err != nil || e > maxExponent || e < -maxExponent {
			e = maxExponent
			if exponent[0] == '-' {
				e = -maxExponent
			}
		}
		n.exp = e
	}
	digits := whole + fraction
	n.exp += len(whole)
	trimmed := strings.TrimLeft(digits, "0")
	n.exp -= len(digits) - len(trimmed)
	n.digits = strings.TrimRight(trimmed, "0")
	if n.digits == "" {
		n.neg, n.exp = false, 0
	}
	n.float, _ = strconv.ParseFloat(s, 64) // an infinity where it is out of range
	return n, true
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// compare is negative, zero or positive as n is less than, equal to or greater
// than m.
func (n *number) compare(m *number) int {
	if n.neg != m.neg {
		if n.neg {
			return -1
		}
		return 1
	}
	c := 0
	switch {
	case n.digits == "" || m.digits == "": // a zero is not negative
		c = len(n.digits) - len(m.digits)
	case n.exp != m.exp:
		c = n.exp - m.exp
	default:
		c = strings.Compare(n.digits, m.digits)
	}
	if n.neg {
		return -c
	}
	return c
}

// equal reports whether two numbers are the same: exactly where strict, else
// also where a server that reads floats takes them for the same.
func (n *number) equal(m *number, strict bool) bool {
	return n.compare(m) == 0 || !strict && n.float == m.float
}

// above reports whether n is greater than m: exactly and as floats where
// strict, else in one of these ways.
func (n *number) above(m *number, strict bool) bool {
	exact, float := n.compare(m) > 0, n.float > m.float
	return exact && float || !strict && (exact || float)
}
