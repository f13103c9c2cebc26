package policy

// Verdict is what was decided, and why.
type Verdict struct {
	Action Action `json:"action"`
	Reason string `json:"reason,omitempty"`
	Rule   string `json:"rule,omitempty"` // which rule, for people
}

// Strictest returns the verdict that permits less, and a if they permit the
// same.
func Strictest(a, b Verdict) Verdict {
	if b.Action.StricterThan(a.Action) {
		return b
	}
	return a
}

// Query is one party's wish to do something.
type Query struct {
	Subject
	Args      []byte // the JSON object of arguments, as the server will get it; nil counts as {}
	Principal string
	Model     bool // a model acts: what is not said to be harmless is asked for
}

// Decide says what becomes of a query. A deny in any set wins, be it by a
// rule or by the default of a set none of whose rules matches; else the first
// rule that matches counts, the sets in the order given; else the first default
// that is said; else who acts. For sampling, a default that allows does not
// count, and somebody is always asked where no rule says otherwise. Sets that
// are nil are skipped.
func Decide(q *Query, sets ...*Set) Verdict {
	if v := decide(q, sets); v != nil {
		return *v
	}
	return byParty(q)
}

// decide is the verdict of the sets, or nil where they say nothing.
func decide(q *Query, sets []*Set) *Verdict {
	k := keyOf(q)
	return k.decide(&arguments{raw: q.Args}, sets)
}

func (k *key) decide(args *arguments, sets []*Set) *Verdict {
	var first, otherwise *Verdict
	for _, s := range sets {
		if s == nil {
			continue
		}
		matched := false
		for _, r := range s.rulesFor(k) {
			if matched && r.action != Deny || !r.holds(args) {
				continue
			}
			if r.action == Deny {
				return &r.verdict
			}
			if matched = true; first == nil {
				first = &r.verdict
			}
		}
		v := s.fallback(k.kind)
		if v == nil {
			continue
		}
		if v.Action == Deny && !matched {
			return v
		}
		if otherwise == nil {
			otherwise = v
		}
	}
	if first != nil {
		return first
	}
	return otherwise
}

// byParty decides where no set does.
func byParty(q *Query) Verdict {
	a := q.annotations()
	switch {
	case q.Kind == KindSampling:
		return Verdict{Action: Ask, Reason: "sampling requires approval unless a rule allows it", Rule: "sampling"}
	case !q.Model:
		return Verdict{Action: Allow, Reason: "the client asks its own user", Rule: "client"}
	case a[0] && q.ReadOnly == nil:
		return Verdict{Action: Allow, Reason: "reading a " + q.Kind + " changes nothing", Rule: "read-only"}
	case a[0]:
		return Verdict{Action: Allow, Reason: "its server declares it read-only", Rule: "read-only"}
	case !a[1]:
		return Verdict{Action: Allow, Reason: "its server declares it non-destructive", Rule: "not destructive"}
	}
	return Verdict{Action: Ask, Reason: "its server does not declare it harmless", Rule: "unsaid"}
}
