package useragent

// automaton finds every occurrence of a set of literals in one pass over a text (Aho and Corasick).
type automaton struct {
	class [256]uint8 // bytes that occur in no literal share class 0
	width int32
	next  []int32   // state*width + class
	found [][]int32 // literals that end in a state
}

func newAutomaton(literals []string) automaton {
	var a automaton
	a.width = 1
	for _, l := range literals {
		for _, c := range []byte(l) {
			if a.class[c] == 0 {
				a.class[c] = uint8(a.width)
				a.width++
			}
		}
	}
	a.grow()
	for i, l := range literals {
		s := int32(0)
		for _, c := range []byte(l) {
			at := s*a.width + int32(a.class[c])
			if a.next[at] == 0 {
				a.next[at] = a.grow()
			}
			s = a.next[at]
		}
		a.found[s] = append(a.found[s], int32(i))
	}
	a.link()
	return a
}

// grow adds a state and returns it.
func (a *automaton) grow() int32 {
	a.next = append(a.next, make([]int32, a.width)...)
	a.found = append(a.found, nil)
	return int32(len(a.found) - 1)
}

// link turns the tree of literals into the automaton: where the tree has no edge, follow that of the longest suffix.
func (a *automaton) link() {
	suffix := make([]int32, len(a.found))
	queue := make([]int32, 0, len(a.found))
	for c := range a.width {
		if s := a.next[c]; s != 0 {
			queue = append(queue, s)
		}
	}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		a.found[s] = append(a.found[s], a.found[suffix[s]]...)
		for c := range a.width {
			at := s*a.width + c
			after := a.next[suffix[s]*a.width+c]
			if t := a.next[at]; t != 0 {
				suffix[t] = after
				queue = append(queue, t)
			} else {
				a.next[at] = after
			}
		}
	}
}

// step returns the state after c.
func (a *automaton) step(state int32, c byte) int32 {
	return a.next[state*a.width+int32(a.class[c])]
}
