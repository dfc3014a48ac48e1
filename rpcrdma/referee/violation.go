package referee

import "fmt"

// Violation is one rule that one side broke.
type Violation struct {
	Rule    string // the rule's name in docs/referee.md, for example "credit.exceeded"
	Section string // specification and section, for example "RFC 8166 §3.3.1"
	By      Side   // the side that broke it
	// Frame is the Event.Frame at which the violation was seen.
	Frame   uint64
	Message string // what was seen, in a sentence
}

func (v Violation) String() string {
	return fmt.Sprintf("%s (%s), %s, frame %d: %s", v.Rule, v.Section, v.By, v.Frame, v.Message)
}
