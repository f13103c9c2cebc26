package config

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// longest bounds every duration: beyond it a person mistook the unit, and sums
// of times could overflow.
const longest = 10 * 365 * 24 * time.Hour

// whole returns the whole number of n.
func (d *decoder) whole(n *node, lo, hi int64) (int64, bool) {
	if !d.want(n, number, "write a whole number, without quotes") {
		return 0, false
	}
	v, err := strconv.ParseInt(n.text, 10, 64)
	switch {
	case err != nil:
		d.problem(n.at, n.ptr, between(lo, hi), "must be a whole number, and is %s", n.raw)
	case v < lo && lo >= 0 && v < 0:
		d.problem(n.at, n.ptr, between(lo, hi), "must not be negative, and is %d", v)
	case v < lo || v > hi:
		d.problem(n.at, n.ptr, between(lo, hi), "%d is out of bounds", v)
	default:
		return v, true
	}
	return 0, false
}

func intField[T any](key, doc string, lo, hi int64, p func(*T) *int) field[T] {
	return field[T]{
		key: key, doc: doc,
		schema: func(def *T) *schema {
			return &schema{Type: "integer", Minimum: &lo, Maximum: &hi, Default: *p(def)}
		},
		decode: func(d *decoder, n *node, path string, t *T) {
			if v, ok := d.whole(n, lo, hi); ok {
				d.record(path, n)
				*p(t) = int(v)
			}
		},
		show: func(s *shower, path string, t *T) { s.put(path, *p(t)) },
	}
}

// millisField is a time in whole milliseconds, for keys that end in Ms.
func millisField[T any](key, doc string, p func(*T) *time.Duration) field[T] {
	lo, hi := int64(1), longest.Milliseconds()
	return field[T]{
		key: key, doc: doc,
		schema: func(def *T) *schema {
			return &schema{Type: "integer", Minimum: &lo, Maximum: &hi, Default: (*p(def)).Milliseconds()}
		},
		decode: func(d *decoder, n *node, path string, t *T) {
			if v, err := time.ParseDuration(n.text); n.kind == text && err == nil {
				d.problem(n.at, n.ptr, fmt.Sprintf("write %d", v.Milliseconds()), "must be a number of milliseconds, and is a string")
				return
			}
			if v, ok := d.whole(n, lo, hi); ok {
				d.record(path, n)
				*p(t) = time.Duration(v) * time.Millisecond
			}
		},
		show: func(s *shower, path string, t *T) { s.put(path, (*p(t)).Milliseconds()) },
	}
}

// wholeField is a whole number that may be left open.
func wholeField[T any](key, doc string, lo, hi int64, p func(*T) **int) field[T] {
	return field[T]{
		key: key, doc: doc,
		schema: func(*T) *schema { return &schema{Type: "integer", Minimum: &lo, Maximum: &hi} },
		decode: func(d *decoder, n *node, path string, t *T) {
			if v, ok := d.whole(n, lo, hi); ok {
				d.record(path, n)
				*p(t) = new(int(v))
			}
		},
		show: func(s *shower, path string, t *T) {
			if v := *p(t); v != nil {
				s.put(path, *v)
			}
		},
	}
}

// numberField is a number that may be left open.
func numberField[T any](key, doc string, lo, hi int64, p func(*T) **float64) field[T] {
	return field[T]{
		key: key, doc: doc,
		schema: func(*T) *schema { return &schema{Type: "number", Minimum: &lo, Maximum: &hi} },
		decode: func(d *decoder, n *node, path string, t *T) {
			if !d.want(n, number, "write a number, without quotes") {
				return
			}
			v, err := strconv.ParseFloat(n.text, 64)
			if err != nil || v < float64(lo) || v > float64(hi) {
				d.problem(n.at, n.ptr, between(lo, hi), "%s is out of bounds", n.raw)
				return
			}
			d.record(path, n)
			*p(t) = &v
		},
		show: func(s *shower, path string, t *T) {
			if v := *p(t); v != nil {
				s.put(path, *v)
			}
		},
	}
}

// delayField is a time in whole milliseconds or as Go writes it, for a key that
// a source has in milliseconds without saying so in its name.
func delayField[T any](key, doc string, p func(*T) *time.Duration) field[T] {
	f := durationField(key, doc, p)
	lo, hi := int64(0), longest.Milliseconds()
	schemaOf, decode, show := f.schema, f.decode, f.show
	f.schema = func(def *T) *schema {
		s := schemaOf(def)
		d := s.Default
		if *p(def) == 0 {
			d = nil // left open
		}
		s.Default = nil
		return &schema{AnyOf: []*schema{s, {Type: "integer", Minimum: &lo, Maximum: &hi}}, Default: d}
	}
	f.decode = func(d *decoder, n *node, path string, t *T) {
		if n.kind != number {
			decode(d, n, path, t)
			return
		}
		if v, ok := d.whole(n, lo, hi); ok {
			d.record(path, n)
			*p(t) = time.Duration(v) * time.Millisecond
		}
	}
	f.show = func(s *shower, path string, t *T) {
		if *p(t) != 0 {
			show(s, path, t)
		}
	}
	return f
}

const durationPattern = `^[0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h)([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))*$|^0$`

// durationField is a time as Go writes it: "30s", "1h30m".
func durationField[T any](key, doc string, p func(*T) *time.Duration) field[T] {
	return field[T]{
		key: key, doc: doc,
		schema: func(def *T) *schema {
			return &schema{Type: "string", Pattern: durationPattern, Default: plainDuration(*p(def))}
		},
		decode: func(d *decoder, n *node, path string, t *T) {
			if n.kind == number {
				d.problem(n.at, n.ptr, fmt.Sprintf(`write the unit, as in "%ss"`, n.raw), "must be a duration, and is the number %s", n.raw)
				return
			}
			if !d.want(n, text, `write a duration, as in "30s"`) {
				return
			}
			v, err := time.ParseDuration(n.text)
			switch {
			case err != nil:
				d.problem(n.at, n.ptr, durationHint(n.text), "%q is no duration", n.text)
			case v < 0:
				d.problem(n.at, n.ptr, `write a duration from "0s" on`, "must not be negative, and is %s", n.text)
			case v > longest:
				d.problem(n.at, n.ptr, `"0s" means never where a time may be left out`, "%s is longer than ten years", n.text)
			default:
				d.record(path, n)
				*p(t) = v
			}
		},
		show: func(s *shower, path string, t *T) { s.put(path, plainDuration(*p(t))) },
	}
}

func durationHint(s string) string {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return fmt.Sprintf(`days are not known: write "%dh"`, n*24)
		}
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return fmt.Sprintf(`write the unit, as in "%ss"`, s)
	}
	return `write a number and ms, s, m or h, as in "90s" or "1h30m"`
}

var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1},
}

// sizeField is a number of bytes, or a string with a unit: "10MiB".
func sizeField[T any](key, doc string, lo, hi int64, p func(*T) *int) field[T] {
	return field[T]{
		key: key, doc: doc,
		schema: func(def *T) *schema {
			return &schema{Default: *p(def), AnyOf: []*schema{
				{Type: "integer", Minimum: &lo, Maximum: &hi},
				{Type: "string", Pattern: "^[0-9]+ ?(B|KB|KiB|MB|MiB|GB|GiB)$"},
			}}
		},
		decode: func(d *decoder, n *node, path string, t *T) {
			v, ok := int64(0), false
			if n.kind == text {
				if v, ok = parseSize(n.text); !ok || v < lo || v > hi {
					d.problem(n.at, n.ptr, between(lo, hi)+` bytes, as in 1048576 or "1MiB"`, "%q is no size, or out of bounds", n.text)
					return
				}
			} else if v, ok = d.whole(n, lo, hi); !ok {
				return
			}
			d.record(path, n)
			*p(t) = int(v)
		},
		show: func(s *shower, path string, t *T) { s.put(path, *p(t)) },
	}
}

func parseSize(s string) (int64, bool) {
	for _, u := range sizeUnits {
		if digits, ok := strings.CutSuffix(s, u.name); ok {
			v, err := strconv.ParseInt(strings.TrimSuffix(digits, " "), 10, 64)
			if err != nil || v < 0 || v > (1<<40)/u.bytes {
				return 0, false
			}
			return v * u.bytes, true
		}
	}
	return 0, false
}
