package search

import "slices"

// derivation says how each thing that can be had is had at least cost, where
// the cost of an action is its own and that of all its inputs. It is Knuth's
// generalisation of Dijkstra's algorithm; things become settled in the order of
// their cost, so that nothing is had by way of itself.
type derivation struct {
	ix       *index
	only     map[int]bool // the actions that count; nil means all
	rootless float64      // what an action costs more that needs nothing
	assume   []float64    // what it costs to take each slot for granted; nil means that none can be
	facts    []float64    // the cost of each fact; below 0 if it cannot be had
	slots    []fill
	hubs     []int // the fact that reached each hub first; -1 if none did
	lacking  []int // slots of each action that are not filled
	order    []int // the actions, as they became possible
	waiting  candidates
	reaching int     // goals that are not reached
	highest  float64 // the cost of the dearest goal that is
}

// fill is how a slot is filled.
type fill struct {
	state slotState
	fact  int // if it is filled
	match Match
	cost  float64
}

type slotState uint8

const (
	empty slotState = iota
	filled
	assumed // taken for granted
)

// candidate is a fact that can be had, or a slot that can be filled.
type candidate struct {
	cost float64
	seq  int // decides between equals: the one that was found first
	slot int // or -1: it is a fact
	fact int // or -1: the slot is taken for granted
	by   Match
}

func (ix *index) derive(only map[int]bool) *derivation {
	return (&derivation{ix: ix, only: only}).run()
}

func (d *derivation) run() *derivation {
	ix := d.ix
	d.facts = make([]float64, len(ix.facts))
	d.slots = make([]fill, len(ix.slots))
	d.hubs = make([]int, len(ix.hubs))
	d.lacking = slices.Clone(ix.need)
	d.reaching = len(ix.p.Goals)
	for i := range d.facts {
		d.facts[i] = -1
	}
	for i := range d.hubs {
		d.hubs[i] = -1
	}
	d.waiting.all = make([]candidate, 0, len(ix.facts)+len(ix.slots))
	for i := range ix.p.Given {
		d.offer(candidate{slot: -1, fact: i})
	}
	for a := range ix.p.Actions {
		if ix.need[a] == 0 && d.counts(a) {
			d.perform(a)
		}
	}
	for s, cost := range d.assume {
		if ix.slots[s].action != Given {
			d.offer(candidate{cost: cost, slot: s, fact: -1})
		}
	}
	// What costs no more than the last goal is looked at too: it may be a tie.
	for len(d.waiting.all) > 0 && (d.reaching > 0 || d.waiting.all[0].cost <= d.highest) {
		c := d.waiting.take()
		if c.slot < 0 {
			d.settle(c)
		} else if d.slots[c.slot].state == empty {
			d.fill(c)
		}
	}
	return d
}

func (d *derivation) counts(a int) bool { return d.only == nil || d.only[a] }

// settle makes a fact one that can be had, and offers it to all that may use
// it. Only the first fact at a hub counts: it is the cheapest.
func (d *derivation) settle(c candidate) {
	d.facts[c.fact] = c.cost
	for _, h := range d.ix.facts[c.fact].feeds {
		if d.hubs[h] >= 0 {
			continue
		}
		d.hubs[h] = c.fact
		d.ix.listening(h, func(l listener) {
			if d.slots[l.slot].state == empty {
				d.offer(candidate{cost: c.cost + penalty[l.match], slot: l.slot, fact: c.fact, by: l.match})
			}
		})
	}
}

func (d *derivation) fill(c candidate) {
	f := &d.slots[c.slot]
	f.state, f.fact, f.match, f.cost = filled, c.fact, c.by, c.cost
	if c.fact < 0 {
		f.state = assumed
	}
	a := d.ix.slots[c.slot].action
	if a == Given {
		d.reaching--
		d.highest = max(d.highest, c.cost)
		return
	}
	if d.lacking[a]--; d.lacking[a] == 0 && d.counts(a) {
		d.perform(a)
	}
}

// perform makes an action possible.
func (d *derivation) perform(a int) {
	d.order = append(d.order, a)
	cost := d.ix.cost(a)
	if d.ix.need[a] == 0 {
		cost += d.rootless
	}
	for i := range d.ix.need[a] {
		cost += d.slots[d.ix.start[a]+i].cost
	}
	for k := range d.ix.p.Actions[a].Outputs {
		d.offer(candidate{cost: cost, slot: -1, fact: d.ix.first[a] + k})
	}
}

func (d *derivation) offer(c candidate) { d.waiting.add(c) }

func (d *derivation) reached() bool { return d.reaching == 0 }

// used are the actions by which the goals are had.
func (d *derivation) used() map[int]bool {
	used := map[int]bool{}
	var visit func(slots []int)
	visit = func(slots []int) {
		for _, s := range slots {
			if d.slots[s].state != filled {
				continue
			}
			a := d.ix.facts[d.slots[s].fact].action
			if a == Given || used[a] {
				continue
			}
			used[a] = true
			visit(d.ix.slotsOf(a))
		}
	}
	visit(d.ix.goals())
	return used
}

// plan writes the derivation down, for the actions that are kept.
func (d *derivation) plan(keep map[int]bool) *Found {
	f := &Found{}
	place := map[int]int{}
	for _, a := range d.order {
		if !keep[a] {
			continue
		}
		place[a] = len(f.Steps)
		s := Step{Action: a, Uses: make([]Use, len(d.ix.p.Actions[a].Inputs))}
		for _, n := range d.ix.slotsOf(a) {
			s.Uses[d.ix.slots[n].input] = d.use(n, place)
		}
		f.Steps = append(f.Steps, s)
		f.Cost += d.ix.cost(a)
	}
	for _, n := range d.ix.goals() {
		f.Goals = append(f.Goals, d.use(n, place))
	}
	return f
}

func (d *derivation) use(slot int, place map[int]int) Use {
	fill := d.slots[slot]
	n := d.ix.facts[fill.fact]
	from := Source{Given, n.output}
	if n.action != Given {
		from.Step = place[n.action]
	}
	return Use{Input: d.ix.wanted(d.ix.slots[slot]).Name, Fact: d.ix.fact(n).Name, From: from, Match: fill.match}
}

// candidates is a heap, the cheapest first.
type candidates struct {
	all []candidate
	n   int
}

func (q *candidates) less(i, j int) bool {
	a, b := &q.all[i], &q.all[j]
	return a.cost < b.cost || a.cost == b.cost && a.seq < b.seq
}

func (q *candidates) add(c candidate) {
	c.seq = q.n
	q.n++
	q.all = append(q.all, c)
	for i := len(q.all) - 1; i > 0; {
		up := (i - 1) / 2
		if !q.less(i, up) {
			break
		}
		q.all[i], q.all[up] = q.all[up], q.all[i]
		i = up
	}
}

func (q *candidates) take() candidate {
	top, last := q.all[0], len(q.all)-1
	q.all[0] = q.all[last]
	q.all = q.all[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			return top
		}
		if right := down + 1; right < last && q.less(right, down) {
			down = right
		}
		if !q.less(down, i) {
			return top
		}
		q.all[i], q.all[down] = q.all[down], q.all[i]
		i = down
	}
}
