package useragent

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spate-io/spate/internal/testdata"
)

func parser(t testing.TB) *Parser {
	t.Helper()
	p, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// fixture returns a file of the shared test data, unpacked.
func fixture(t testing.TB, name string) []byte {
	t.Helper()
	f, err := os.Open(filepath.Join(testdata.Dir(t), "ua", name))
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParser_Parse(t *testing.T) {
	p := parser(t)
	f := func(ua string, want Agent) {
		t.Helper()
		if d := cmp.Diff(want, p.Parse([]byte(ua))); d != "" {
			t.Errorf("%s\n%s", ua, d)
		}
	}
	f("", Agent{"", "", Other, ""})
	f("-", Agent{"", "", Other, ""})
	f("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/119.0.0.0 Safari/537.36", Agent{"Chrome", "Windows", Desktop, ""})
	f("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/119.0.0.0 Safari/537.36 Edg/119.0.2151.58", Agent{"Edge", "Windows", Desktop, ""})
	f("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Safari/605.1.15", Agent{"Safari", "macOS", Desktop, ""})
	f("Mozilla/5.0 (iPhone; CPU iPhone OS 17_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.0 Mobile/15E148 Safari/604.1", Agent{"Safari", "iOS", Mobile, ""})
	f("Mozilla/5.0 (iPad; CPU OS 16_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) CriOS/119.0.6045.109 Mobile/15E148 Safari/604.1", Agent{"Chrome", "iOS", Tablet, ""})
	f("Mozilla/5.0 (Linux; Android 13; SM-S918B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/23.0 Chrome/115.0.0.0 Mobile Safari/537.36", Agent{"Samsung Internet", "Android", Mobile, ""})
	f("Mozilla/5.0 (Linux; Android 12; SM-T870) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/118.0.0.0 Safari/537.36", Agent{"Chrome", "Android", Tablet, ""})
	f("Mozilla/5.0 (Linux; Android 9; CUBOT X19) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/90.0.0.0 Mobile Safari/537.36", Agent{"Chrome", "Android", Mobile, ""})
	f("Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:120.0) Gecko/20100101 Firefox/120.0", Agent{"Firefox", "Linux", Desktop, ""})
	f("Mozilla/5.0 (Windows NT 6.1; WOW64; Trident/7.0; Tablet PC 2.0; rv:11.0) like Gecko", Agent{"Internet Explorer", "Windows", Desktop, ""})
	f("Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/119.0.0.0 Safari/537.36", Agent{"Chrome", "ChromeOS", Desktop, ""})
	f("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)", Agent{"Googlebot", "", Other, BotSearch})
	f("Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/103.0.5060.134 Safari/537.36", Agent{"bingbot", "", Other, BotSearch})
	f("Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)", Agent{"GPTBot", "", Other, BotAI})
	f("Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; ClaudeBot/1.0; +claudebot@anthropic.com)", Agent{"ClaudeBot", "", Other, BotAI})
	f("CCBot/2.0 (https://commoncrawl.org/faq/)", Agent{"CCBot", "", Other, BotAI})
	f("Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; PerplexityBot/1.0; +https://perplexity.ai/perplexitybot)", Agent{"PerplexityBot", "", Other, BotAI})
	f("Mozilla/5.0 (Linux; Android 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Safari/537.36 (compatible; Bytespider; spider-feedback@bytedance.com)", Agent{"Bytespider", "Android", Other, BotAI})
	f("Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; Amazonbot/0.1; +https://developer.amazon.com/support/amazonbot) Chrome/119.0.6045.214 Safari/537.36", Agent{"Amazonbot", "", Other, BotAI})
	f("jetmon/1.0 (Jetpack Site Uptime Monitor by WordPress.com)", Agent{"jetmon", "", Other, BotMonitor})
	f("Mozilla/5.0 (compatible; AhrefsBot/5.0; +http://ahrefs.com/robot/)", Agent{"AhrefsBot", "", Other, BotSEO})
	f("Feedly/1.0 (+http://www.feedly.com/fetcher.html; 3 subscribers)", Agent{"Feedly", "", Other, BotFeed})
	f("curl/8.4.0", Agent{"curl", "", Other, BotTool})
	f("Wget/1.21.4", Agent{"Wget", "", Other, BotTool})
	f("Mozilla/5.0 zgrab/0.x", Agent{"zgrab", "", Other, BotScanner})
	f("our-own-bot/1.0", Agent{"", "", Other, BotOther})
	f("Mozilla/5.0 (compatible; YandexBot/3.0; +http://yandex.com/bots)", Agent{"YandexBot", "", Other, BotSearch})
	f("Photon/1.0", Agent{"", "", Other, BotOther})
	f("Java/1.8.0_65", Agent{"", "", Other, BotTool})
	f("<?php system(\"id\"); ?>", Agent{"", "", Other, BotScanner})
	f("Dalvik/2.1.0 (Linux; U; Android 8.1.0; SM-J730F Build/M1AJQ)", Agent{"", "Android", Mobile, ""})
	f("SonyEricssonK750i/R1CA Browser/SEMC-Browser/4.2 Profile/MIDP-2.0 Configuration/CLDC-1.1", Agent{"", "", Mobile, ""})
}

func TestParser_EverySampleOfTheListIsABot(t *testing.T) {
	p := parser(t)
	var list []struct {
		Pattern   string
		Instances []string
		Tags      []string
	}
	if err := json.Unmarshal(fixture(t, "crawler-user-agents-1.60.0.json.gz"), &list); err != nil {
		t.Fatal(err)
	}
	samples, ai := 0, 0
	for _, c := range list {
		for _, ua := range c.Instances {
			samples++
			a := p.Parse([]byte(ua))
			if right, ok := corrections[c.Pattern]; ok && right == "" {
				if a.Bot != "" {
					t.Errorf("%s: %+v, but people use it", ua, a)
				}
				continue
			}
			if a.Bot == "" || a.Browser == "" && a.Bot != BotOther || a.Device != Other {
				t.Errorf("%s: %+v", ua, a)
			}
			if strings.Contains(strings.Join(c.Tags, " "), "ai-crawler") {
				ai++
				if a.Bot != BotAI {
					t.Errorf("%s: %s, not %s", ua, a.Bot, BotAI)
				}
			}
		}
	}
	if samples < 2118 || len(list) != len(p.crawlers)+2 {
		t.Fatalf("%d samples, %d patterns of %d", samples, len(p.crawlers), len(list))
	}
	t.Logf("%d samples, %d of AI crawlers; %d states", samples, ai, len(p.words.found))
}

// The automaton must say of every user agent what trying all patterns one by one would.
func TestParser_SameAsAllPatternsOneByOne(t *testing.T) {
	p := parser(t)
	var all []*regexp.Regexp
	for _, line := range strings.FieldsFunc(crawlerList, func(r rune) bool { return r == '\n' })[4:] {
		pattern, _, _ := strings.Cut(line, "\t")
		if right, ok := corrections[pattern]; ok {
			pattern = right
		}
		if pattern != "" {
			all = append(all, regexp.MustCompile(pattern))
		}
	}
	n := 0
	for _, ua := range realAgents(t) {
		if n++; n%10 != 0 { // one by one is slow
			continue
		}
		want := false
		for _, re := range all {
			if re.MatchString(ua.text) {
				want = true
				break
			}
		}
		a := p.Parse([]byte(ua.text))
		if got := a.Bot != "" && a.Browser != ""; got != want {
			t.Errorf("%s: %v, want %v", ua.text, got, want)
		}
	}
}

type realAgent struct {
	count int
	text  string
}

// realAgents returns the user agents of real logs with the number of requests of each.
func realAgents(t testing.TB) []realAgent {
	t.Helper()
	var list []realAgent
	for line := range strings.Lines(string(fixture(t, "unique_user_agents.tsv.gz"))) {
		count, ua, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		n, err := strconv.Atoi(count)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, realAgent{n, ua})
	}
	return list
}

func TestParser_RealTraffic(t *testing.T) {
	p := parser(t)
	var total, bots, named, humans int
	classes := map[string]int{}
	for _, ua := range realAgents(t) {
		a := p.Parse([]byte(ua.text))
		total += ua.count
		classes[a.Bot] += ua.count
		switch {
		case a.Bot != "":
			bots += ua.count
		default:
			humans += ua.count
			if ua.text == "-" {
				humans -= ua.count
			} else if a.Browser != "" && a.OS != "" {
				named += ua.count
			}
		}
	}
	share := float64(bots) / float64(total)
	t.Logf("bots %.1f %%, humans with browser and system %.1f %%, %v", share*100, float64(named)/float64(humans)*100, classes)
	if share < 0.50 || share > 0.56 { // the list alone finds 49 %, uap-core 48 %; both leave out programs that no rule names
		t.Errorf("%.1f %% of the requests are by bots", share*100)
	}
	if float64(named)/float64(humans) < 0.98 {
		t.Errorf("browser and system are known for %d of %d requests", named, humans)
	}
}

// cases reads the fixtures of uap-core: the user agent and the family.
func cases(t *testing.T, name string) map[string]string {
	t.Helper()
	list := map[string]string{}
	s := bufio.NewScanner(strings.NewReader(string(fixture(t, name))))
	ua := ""
	unquote := func(v string) string {
		v = strings.TrimSpace(v)
		if len(v) > 1 && v[0] == '\'' {
			return strings.ReplaceAll(v[1:len(v)-1], "''", "'")
		}
		return strings.Trim(v, `"`)
	}
	for s.Scan() {
		key, value, _ := strings.Cut(strings.TrimSpace(s.Text()), ":")
		switch key {
		case "- user_agent_string":
			ua = unquote(value)
		case "family":
			list[ua] = unquote(value)
		}
	}
	return list
}

// Names that uap-core has for what we call otherwise. An empty name is one that we do not tell apart from others.
var (
	browserNames = map[string]string{
		"IE": "Internet Explorer", "Android": "Android Browser", "QQ Browser Mobile": "QQ Browser", "Edge Mobile": "Edge",
		"Opera Mobile": "Opera", "Opera Touch": "Opera", "Opera Tablet": "Opera", "Mobile Safari": "Safari", "Mobile Safari UI/WKWebView": "Safari",
		"WeChat Browser": "WeChat", "Google": "Google App", "Chrome Mobile": "Chrome", "Chrome Mobile iOS": "Chrome",
		"Chrome Mobile WebView": "Chrome", "Firefox Mobile": "Firefox", "Firefox iOS": "Firefox", "Firefox Alpha": "Firefox", "Firefox Beta": "Firefox",
		"DuckDuckGo Mobile": "DuckDuckGo", "MiuiBrowser": "Mi Browser", "IE Mobile": "IE Mobile",
	}
	systemNames = map[string]string{
		"Mac OS X": "macOS", "Mac OS": "macOS", "Symbian OS": "Symbian", "Symbian^3": "Symbian", "Symbian^3 Anna": "Symbian",
		"Symbian^3 Belle": "Symbian", "WatchOS": "watchOS", "ATV OS X": "tvOS", "BlackBerry OS": "BlackBerry", "Ubuntu": "Linux",
		"Debian": "Linux", "Red Hat": "Linux", "Gentoo": "Linux", "Fedora": "Linux", "Web0S": "webOS", "Chrome OS": "ChromeOS",
		"BlackBerry Tablet OS": "BlackBerry", "Chromecast Fuchsia": "Fuchsia", "Chromecast Android": "Android", "Chromecast Linux": "Linux",
	}
)

func TestParser_AgreesWithFixtures(t *testing.T) {
	p := parser(t)
	f := func(file string, names map[string]string, ours []rule, get func(Agent) string, floor float64) {
		t.Helper()
		known := map[string]bool{"Safari": true, "Android Browser": true}
		for _, r := range ours {
			known[r.family] = true
		}
		rows, asked, same := 0, 0, 0
		for ua, want := range cases(t, file) {
			rows++
			if n, ok := names[want]; ok {
				want = n
			}
			if !known[want] {
				continue
			}
			asked++
			if get(p.Parse([]byte(ua))) == want {
				same++
			} else if testing.Verbose() {
				t.Logf("%s: want %s, got %+v", ua, want, p.Parse([]byte(ua)))
			}
		}
		share := float64(same) / float64(asked)
		t.Logf("%s: %d rows, %d of a family that we know, %.1f %% of them the same", file, rows, asked, share*100)
		if asked < 200 || share < floor {
			t.Errorf("%s: %d of %d are the same", file, same, asked)
		}
	}
	f("test_ua.yaml.gz", browserNames, browsers, func(a Agent) string { return a.Browser }, 0.95)
	f("test_os.yaml.gz", systemNames, systems, func(a Agent) string { return a.OS }, 0.96)
}

func TestParser_NoAllocations(t *testing.T) {
	p := parser(t)
	ua := []byte("Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/119.0.0.0 Safari/537.36")
	if n := testing.AllocsPerRun(100, func() { p.Parse(ua) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestNewCrawler_RefusesWhatCannotBeLookedFor(t *testing.T) {
	for _, pattern := range []string{"(", ".*", "x", "[ab]+", "bot|.*"} {
		if _, err := newCrawler(pattern, nil); err == nil {
			t.Errorf("%q accepted", pattern)
		}
	}
}

func FuzzParse(f *testing.F) {
	p := parser(f)
	f.Add([]byte("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)"))
	f.Add([]byte("AdsBot-Google\xff-Owler (ows.eu"))
	all := make([]*regexp.Regexp, 0, len(p.crawlers))
	for _, c := range p.crawlers {
		if c.pattern != nil {
			all = append(all, c.pattern)
		}
	}
	f.Fuzz(func(t *testing.T, ua []byte) {
		a := p.Parse(ua)
		if a != p.Parse(ua) {
			t.Fatal("two answers")
		}
		for _, re := range all {
			if re.Match(ua) && a.Bot == "" {
				t.Fatalf("%s matches, but it is no bot", re)
			}
		}
	})
}

func BenchmarkParser_DistinctAgents(b *testing.B) {
	p := parser(b)
	list := realAgents(b)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		p.Parse([]byte(list[i].text))
		if i++; i == len(list) {
			i = 0
		}
	}
}

// Corrections must be of patterns that the list has, or a new list has made them void.
func TestCorrections_AreOfTheList(t *testing.T) {
	for _, m := range []map[string]string{corrections, retagged} {
		for pattern := range m {
			if !strings.Contains(crawlerList, "\n"+pattern+"\t") {
				t.Errorf("%q is not in the list", pattern)
			}
		}
	}
	p := parser(t)
	for name := range aliases {
		for _, c := range p.crawlers {
			if c.name == name {
				t.Errorf("%q kept its name", name)
			}
		}
	}
}

// crawlers.tsv must be what the generator makes of the list.
func TestCrawlers_UpToDate(t *testing.T) {
	c := exec.Command("go", "run", "./internal/gen")
	c.Stdin = bytes.NewReader(fixture(t, "crawler-user-agents-1.60.0.json.gz"))
	got, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(got), crawlerList); d != "" {
		t.Fatal(d)
	}
}
