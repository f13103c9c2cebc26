package schema

import (
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	js "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/stoahub/stoa/internal/spell"
)

// sentence says what is wrong in a clause whose subject is the value.
func sentence(k js.ErrorKind) Fault {
	switch k := k.(type) {
	case *kind.Type:
		f := Fault{Message: fmt.Sprintf("is %s but must be %s", article([]string{k.Got}), article(k.Want))}
		return f
	case *kind.Enum:
		f := oneOf(k.Want)
		if got, ok := k.Got.(string); ok {
			var names []string
			for _, w := range k.Want {
				if w, ok := w.(string); ok {
					names = append(names, w)
				}
			}
			if f.Close = spell.Nearest(got, names); f.Close != "" {
				f.Message += "; did you mean " + quote(f.Close) + "?"
			}
		}
		return f
	case *kind.Const:
		return oneOf([]any{k.Want})
	}
	return Fault{Message: phrase(k)}
}

func phrase(k js.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Format:
		return "is not a valid " + k.Want
	case *kind.Pattern:
		return "does not match the pattern " + quote(k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("has %s but must have at least %d", count(k.Got, "character"), k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("has %s but may have at most %d", count(k.Got, "character"), k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("has %s but must have at least %d", count(k.Got, "element"), k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("has %s but may have at most %d", count(k.Got, "element"), k.Want)
	case *kind.AdditionalItems:
		return fmt.Sprintf("has %s more than allowed", count(k.Count, "element"))
	case *kind.UniqueItems:
		return fmt.Sprintf("must not repeat an element, but numbers %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.MinProperties:
		return fmt.Sprintf("has %s but must have at least %d", count(k.Got, "property"), k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("has %s but may have at most %d", count(k.Got, "property"), k.Want)
	case *kind.Contains:
		return "has no element of the form that at least one must have"
	case *kind.MinContains:
		return fmt.Sprintf("has %s of the form that at least %d must have", count(len(k.Got), "element"), k.Want)
	case *kind.MaxContains:
		return fmt.Sprintf("has %s of a form that at most %d may have", count(len(k.Got), "element"), k.Want)
	case *kind.Minimum:
		return "must be at least " + number(k.Want)
	case *kind.Maximum:
		return "must be at most " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + number(k.Want)
	case *kind.FalseSchema:
		return "is not allowed here"
	case *kind.Not:
		return "has a form that is ruled out"
	}
	return "does not match the schema"
}

func count(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case strings.HasSuffix(noun, "y"):
		return fmt.Sprintf("%d %sies", n, noun[:len(noun)-1])
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// oneOf says that the value must be one of some.
func oneOf(values []any) Fault {
	var shown []string
	for _, v := range values {
		shown = append(shown, brief(v))
	}
	f := Fault{Allowed: slices.Clone(values)}
	switch {
	case len(shown) == 1:
		f.Message = "must be " + shown[0]
	case len(shown) > 10:
		f.Message = fmt.Sprintf("must be one of %d values, such as %s", len(shown), strings.Join(shown[:10], ", "))
	default:
		f.Message = "must be one of " + strings.Join(shown, ", ")
	}
	return f
}

func brief(v any) string {
	b, err := json.Marshal(v)
	if err != nil || len(b) > 80 {
		return "a longer value"
	}
	return string(b)
}

// article joins names of types into words.
func article(types []string) string {
	var out []string
	for _, t := range types {
		switch t {
		case "null":
		case "object", "array", "integer":
			t = "an " + t
		default:
			t = "a " + t
		}
		if !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return strings.Join(out, " or ")
}

// number writes r as people do: exactly where its decimals end soon.
func number(r *big.Rat) string {
	if r.IsInt() {
		if s := r.Num().String(); len(s) <= 40 {
			return s
		}
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func quote(s string) string {
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "…"
	}
	return strconv.Quote(s)
}

func quoteAll(names []string) string {
	var out []string
	for _, n := range names {
		out = append(out, quote(n))
	}
	return strings.Join(out, ", ")
}

var escaper = strings.NewReplacer("~", "~0", "/", "~1")

// pointer writes a path as a JSON pointer.
func pointer(path []string) string {
	var b strings.Builder
	for _, token := range path {
		b.WriteByte('/')
		b.WriteString(escaper.Replace(token))
	}
	return b.String()
}

// lookup returns the value at path, or nil.
func lookup(v any, path []string) any {
	for _, token := range path {
		switch in := v.(type) {
		case map[string]any:
			v = in[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

// Describe says what is wrong with arguments in one line, for results that are
// a text; "" if nothing is.
func Describe(faults []Fault) string {
	var all []string
	for _, f := range faults {
		at := strings.TrimPrefix(f.Pointer, "/")
		if at == "" {
			at = "the arguments"
		}
		all = append(all, at+" "+f.Message)
	}
	return strings.Join(all, "; ")
}
