package chat

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stoahub/stoa/internal/ailumina"
	"github.com/stoahub/stoa/internal/policy"
)

// Pace is how long words may wait for the end of their sentence.
const Pace = 250 * time.Millisecond

// Speech makes of the events of a turn what an agent says to those who asked
// it: sentences, and which tools it uses. Put together, the sentences are the
// answer, save notices, which say what the agent waits for. Words are told when
// their sentence is over, when they have waited for Pace, and before anything
// else is told.
type Speech struct {
	out      func(ailumina.Event)
	announce func(*policy.Approval) string // what is said of an approval that waits

	mu      sync.Mutex
	waiting []byte // said and not told yet
	timer   *time.Timer
	over    bool
	text    []byte
	whole   int    // how much of text are messages that are whole
	seq     uint64 // the part that is being said, and how much of it was heard
	heard   int
	apart   bool // what comes next is another message
	running map[string]string
	queued  map[string]bool // calls of which was told that they wait for their server
}

// NewSpeech returns a Speech that tells out, one thing at a time. announce says
// what a person has to decide. End ends it.
func NewSpeech(out func(ailumina.Event), announce func(*policy.Approval) string) *Speech {
	s := &Speech{out: out, announce: announce, running: map[string]string{}, queued: map[string]bool{}}
	s.timer = time.AfterFunc(time.Hour, s.late)
	s.timer.Stop()
	return s
}

// Hear takes an event of the turn.
func (s *Speech) Hear(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e.Type {
	case TextPart:
		s.say(s.news(e))
	case AnswerDone:
		s.tell()
		s.apart, s.whole = true, len(s.text)
	case ModelRetry:
		s.retry(e.Retry)
	case ApprovalAsked:
		s.notice(s.announce(e.Approval), 0)
	case ApprovalDecided:
		if e.Approval.ID != "" { // it was asked
			s.notice(e.Approval.Report(e.Decision), 0)
		}
	case ElicitationAnswered: // of an agent nobody can be asked
		s.notice(e.Elicitation.Announce()+" "+e.Elicitation.Report(e.Reply), 0)
	case CallStarted:
		s.tell()
		s.running[e.Call.ID] = e.Call.Name
		s.out(ailumina.Event{Kind: ailumina.ToolRunning, Tool: e.Call.Name})
	case CallProgress:
		if p := e.Progress; s.running[p.Call] == "" && !s.queued[p.Call] && p.Message != "" {
			s.queued[p.Call] = true
			s.notice(p.Name+": "+p.Message, 0)
		}
	case CallDone:
		if name, ok := s.running[e.Result.Call]; ok {
			s.tell()
			delete(s.running, e.Result.Call)
			s.out(ailumina.Event{Kind: ailumina.ToolComplete, Tool: name})
		}
	}
}

// longWait is from when on it is told that a model is waited for.
const longWait = 5 * time.Second

// retry tells that the model is asked again. What was told of an answer that
// does not count cannot be taken back, but the client can know.
func (s *Speech) retry(r *Retry) {
	wait := time.Duration(r.WaitMS) * time.Millisecond
	switch {
	case r.Discard:
		void := len(s.text) - s.whole - len(s.waiting)
		s.waiting, s.text, s.apart = s.waiting[:0], s.text[:s.whole], s.whole > 0
		s.timer.Stop()
		if void > 0 {
			s.notice("The answer broke off and begins again.", void)
		}
	case wait >= longWait:
		s.notice(fmt.Sprintf("The model is asked again in %v: %s.", wait.Round(time.Second), r.Reason), 0)
	}
}

// notice tells something that is no part of the answer.
func (s *Speech) notice(text string, void int) {
	s.tell()
	s.out(ailumina.Event{Kind: ailumina.Sentence, Text: "\n\n[" + text + "]\n\n", Notice: true, Void: void})
}

// End tells what is left and returns the whole answer.
func (s *Speech) End() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tell()
	s.over = true
	return string(s.text)
}

// news is what of a part's text was not heard before.
func (s *Speech) news(e Event) string {
	if e.Seq != s.seq {
		s.seq, s.heard = e.Seq, 0
	}
	old := min(max(s.heard-e.Offset, 0), len(e.Text))
	s.heard = max(s.heard, e.Offset+len(e.Text))
	return e.Text[old:]
}

// say takes words, and tells the sentences that are over.
func (s *Speech) say(text string) {
	if text == "" {
		return
	}
	if s.apart {
		s.apart = false
		if len(s.text) > 0 && !bytes.HasSuffix(s.text, []byte("\n")) {
			text = "\n\n" + text
		}
	}
	s.text = append(s.text, text...)
	if len(s.waiting) == 0 {
		s.timer.Reset(Pace)
	}
	s.waiting = append(s.waiting, text...)
	s.tellUpTo(sentences(s.waiting))
}

// late tells what has waited long enough.
func (s *Speech) late() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.over {
		s.tell()
	}
}

func (s *Speech) tell() { s.tellUpTo(len(s.waiting)) }

func (s *Speech) tellUpTo(n int) {
	if n == 0 {
		return
	}
	text := string(s.waiting[:n])
	s.waiting = append(s.waiting[:0], s.waiting[n:]...)
	if s.timer.Stop(); len(s.waiting) > 0 {
		s.timer.Reset(Pace)
	}
	s.out(ailumina.Event{Kind: ailumina.Sentence, Text: text})
}

// sentences is how much of a text is whole sentences, with the spaces after
// them. The end of one is known when something follows it: 3.14 is none.
func sentences(text []byte) int {
	end := 0
	for i := len(text) - len(bytes.TrimLeftFunc(text, unicode.IsSpace)); i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		i += n
		switch r {
		case '\n', '。', '！', '？':
			end = i
		case '.', '!', '?', '…', ':':
			j := i
			for j < len(text) && strings.IndexByte(`.!?")'*_]`, text[j]) >= 0 {
				j++
			}
			k := j
			for k < len(text) {
				space, n := utf8.DecodeRune(text[k:])
				if !unicode.IsSpace(space) {
					break
				}
				k += n
			}
			if k > j {
				end, i = k, k
			}
		}
	}
	return end
}
