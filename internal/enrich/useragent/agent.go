package useragent

// tokenSet is a set of token numbers.
type tokenSet [4]uint64

func (s *tokenSet) add(i int) { s[i>>6] |= 1 << (i & 63) }

// any reports whether the sets have a token in common.
func (s *tokenSet) any(t *tokenSet) bool {
	return s[0]&t[0]|s[1]&t[1]|s[2]&t[2]|s[3]&t[3] != 0
}

// family is a rule in the form in which it is tried.
type family struct {
	name   string
	tokens tokenSet
}

// rules are the rules about browsers, systems and devices.
type rules struct {
	browsers, systems, programs []family
	special                     [specials]tokenSet
}

// compile numbers the tokens of all rules and returns them in the order of their numbers.
func (r *rules) compile() []string {
	var literals []string
	numbers := map[string]int{}
	set := func(tokens []string) (s tokenSet) {
		for _, t := range tokens {
			n, ok := numbers[t]
			if !ok {
				n = len(literals)
				numbers[t] = n
				literals = append(literals, t)
			}
			s.add(n)
		}
		return s
	}
	for _, b := range browsers {
		r.browsers = append(r.browsers, family{b.family, set(b.tokens)})
	}
	for _, s := range systems {
		r.systems = append(r.systems, family{s.family, set(s.tokens)})
	}
	for i, tokens := range specialTokens {
		r.special[i] = set(tokens)
	}
	for _, p := range programs {
		r.programs = append(r.programs, family{p.family, set(p.tokens)})
	}
	return literals
}

// match returns the first family that has one of the tokens.
func match(families []family, seen *tokenSet) string {
	for i := range families {
		if seen.any(&families[i].tokens) {
			return families[i].name
		}
	}
	return ""
}

// agent returns what the tokens say, bots aside.
func (r *rules) agent(seen *tokenSet) Agent {
	has := func(special int) bool { return seen.any(&r.special[special]) }
	a := Agent{Browser: match(r.browsers, seen), OS: match(r.systems, seen)}
	if a.OS == "iOS" && has(tokenCFNetwork) && has(tokenMacDarwin) && !has(tokenIPad) {
		a.OS = "macOS" // the network library of a program on a Mac
	}
	if a.Browser == "" {
		switch {
		case a.OS == "Android" && has(tokenVersion):
			a.Browser = "Android Browser"
		case has(tokenSafari), a.OS == "iOS" && has(tokenWebKit):
			a.Browser = "Safari"
		}
	}
	a.Device = r.device(a.OS, has)
	return a
}

func (r *rules) device(os string, has func(int) bool) string {
	switch os {
	case "iOS":
		if has(tokenIPad) {
			return Tablet
		}
		return Mobile
	case "Android", "HarmonyOS", "Tizen":
		switch {
		case has(tokenTV):
			return Other
		case has(tokenTablet), has(tokenKindle), !has(tokenMobile):
			return Tablet
		}
		return Mobile
	case "Windows Phone", "KaiOS", "Symbian":
		return Mobile
	case "BlackBerry", "webOS":
		switch {
		case has(tokenPlayBook):
			return Tablet
		case has(tokenTV), os == "webOS" && !has(tokenMobile):
			return Other
		}
		return Mobile
	case "Windows", "macOS", "ChromeOS", "Linux", "FreeBSD", "OpenBSD", "NetBSD", "Solaris":
		switch {
		case has(tokenTV):
			return Other
		case has(tokenKindle):
			return Tablet
		}
		return Desktop
	case "":
		switch {
		case has(tokenTablet):
			return Tablet
		case has(tokenMobile):
			return Mobile
		}
	}
	return Other
}
