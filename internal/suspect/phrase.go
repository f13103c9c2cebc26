package suspect

import (
	"regexp"
	"strings"
)

// phrase is a form of words that is addressed to a model and against its user.
type phrase struct {
	code  string
	about string
	hints []string // one of which is in every text that it matches
	form  *regexp.Regexp
}

// The forms are matched on plain text: small letters, single spaces, nothing
// hidden. They are narrow, since honest definitions tell models what to do too.
var phrases = []phrase{
	{Override, "it tells the model to put instructions aside", []string{"ignore", "disregard", "forget", "override", "bypass"},
		regexp.MustCompile(`\b(ignor(e|ing)|disregard(ing)?|forget(ting)?|overrid(e|es|ing)|bypass(ing)?) (all |any |every |the |your |these |those |of |other |my )*(previous|prior|earlier|above|preceding|former|existing|original|system|safety|security|user'?s?|developer) (and \w+ )?(instructions?|prompts?|rules?|guidelines?|directions?|directives?|polic(y|ies)|messages?|commands?|requests?|settings|restrictions?|safeguards?)\b`)},
	{Override, "it tells the model to put instructions aside", []string{"ignore", "disregard", "forget"},
		regexp.MustCompile(`\b(ignore|disregard|forget) (everything|anything|all|what(ever)?) (else )?(that )?(you|i|the user|was|has been|came|is written|above)\b`)},
	{Override, "it claims to speak with the authority of the system", []string{"system prompt", "new instructions", "you are now"},
		regexp.MustCompile(`\b((reveal|print|repeat|output|send|show|include) (me |us )?(your|the) (whole |full |entire )?system prompt|(your |these are the )new instructions( are)?:|you are now (a|an|in|the) (\w+ )?(mode|assistant|admin\w*|developer|root)\b)`)},
	{Override, "it wants to be called before every other tool", []string{"before"},
		regexp.MustCompile(`\bbefore (you )?(us(e|ing)|call(ing)?|invok(e|ing)|run(ning)?) any (of the )?(other )?(tools?|functions?)\b`)},
	{Secrecy, "it tells the model to keep something from the user", []string{"user"},
		regexp.MustCompile(`\b((do not|don't|never|must not|mustn't|should not|shouldn't|cannot|avoid|without) (ever )?(tell(ing)?|inform(ing)?|mention(ing)?|notify(ing)?|reveal(ing)?|disclos(e|ing)|alert(ing)?|warn(ing)?) ([\w']+ ){0,5}(the |your |to )*users?\b|(hide|conceal|keep) (this|it|that|them) ([\w]+ ){0,2}from (the |your )?user)`)},
	{Markup, "it has marks that pass for instructions of the system", []string{"<", "["},
		regexp.MustCompile(`(</?(important|system|secret|hidden|instructions?|assistant|admin|override)>|<\|[a-z_]{2,20}\|>|\[/?inst\])`)},
	{Markup, "it has an HTML comment, which readers of a rendered page do not see", []string{"<!--"},
		regexp.MustCompile(`<!--.*?(-->|$)`)},
}

func (f *flags) phrases(text string) {
	if len(text) < 4 {
		return
	}
	plain := plainText(text)
	for i := range phrases {
		p := &phrases[i]
		for _, hint := range p.hints {
			if !strings.Contains(plain, hint) {
				continue
			}
			if found := p.form.FindString(plain); found != "" {
				f.add(p.code, "%s: %q", p.about, cut(found))
			}
			break
		}
	}
}
