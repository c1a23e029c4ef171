package useragent

// rule says that a user agent with one of the tokens is of the family.
type rule struct {
	family string
	tokens []string
}

// browsers are tried in order; the first that has a token wins, so wrappers and forks come before what they are made of.
var browsers = []rule{
	{"Facebook", []string{"FBAN/", "FBAV/", "FB_IAB/"}},
	{"Instagram", []string{"Instagram "}},
	{"TikTok", []string{"BytedanceWebview", "musical_ly", "TikTok "}},
	{"WeChat", []string{"MicroMessenger/"}},
	{"Line", []string{" Line/"}},
	{"Snapchat", []string{"Snapchat"}},
	{"Pinterest", []string{"Pinterest/", "Pinterest for"}},
	{"LinkedIn", []string{"LinkedInApp"}},
	{"Google App", []string{"GSA/"}},
	{"UC Browser", []string{"UCBrowser", "UCWEB", "UCMobile/", "UBrowser/", "UC Browser", " UC/", "UC AppleWebKit"}},
	{"Opera Mini", []string{"Opera Mini"}},
	{"Opera", []string{"OPR/", "OPT/", "OPiOS/", "OPX/", "Opera/", "Opera ", "Opera Tablet", "Opera Mobi"}},
	{"Edge", []string{"Edg/", "Edge/", "EdgA/", "EdgiOS/"}},
	{"Yandex Browser", []string{"YaBrowser/"}},
	{"Vivaldi", []string{"Vivaldi/"}},
	{"Brave", []string{"Brave/", "brave/", "Brave Chrome/", " Brave", "(Brave)"}},
	{"DuckDuckGo", []string{"DuckDuckGo/", "Ddg/"}},
	{"Oculus Browser", []string{"OculusBrowser/"}},
	{"Samsung Internet", []string{"SamsungBrowser/"}},
	{"QQ Browser", []string{"QQBrowser"}},
	{"Mi Browser", []string{"MiuiBrowser/"}},
	{"Huawei Browser", []string{"HuaweiBrowser/"}},
	{"HeyTap Browser", []string{"HeyTapBrowser/", "OppoBrowser/"}},
	{"Vivo Browser", []string{"VivoBrowser/"}},
	{"Amazon Silk", []string{"Silk/"}},
	{"Whale", []string{"Whale/"}},
	{"Coc Coc", []string{"coc_coc_browser/", "CocCoc"}},
	{"Puffin", []string{"Puffin/"}},
	{"Sogou Explorer", []string{"MetaSr", "SogouMobileBrowser"}},
	{"Maxthon", []string{"Maxthon", "MxBrowser/"}},
	{"IE Mobile", []string{"IEMobile"}},
	{"SeaMonkey", []string{"SeaMonkey/"}},
	{"Pale Moon", []string{"PaleMoon/", "Palemoon/"}},
	{"Waterfox", []string{"Waterfox/"}},
	{"Thunderbird", []string{"Thunderbird/"}},
	{"Konqueror", []string{"Konqueror/"}},
	{"Epiphany", []string{"Epiphany/"}},
	{"Electron", []string{"Electron/"}},
	{"Outlook", []string{"Microsoft Outlook", "Microsoft Office Outlook", "MSOffice"}},
	{"Firefox", []string{"FxiOS/", "Iceweasel/", "IceCat/", "Firefox"}},
	{"Internet Explorer", []string{"MSIE ", "Trident/"}},
	{"Chrome", []string{"CriOS/", "CrMo/"}},
	{"Chromium", []string{"Chromium/"}},
	{"NetFront", []string{"NetFront"}},
	{"Nokia Browser", []string{"NokiaBrowser/", "BrowserNG/", "Nokia"}},
	{"BlackBerry", []string{"BlackBerry", "BB10;"}},
	{"webOS Browser", []string{"wOSBrowser", "webOSBrowser", "Web0S"}},
	{"Chrome", []string{"Chrome/"}},
	{"Lynx", []string{"Lynx/"}},
	{"Links", []string{"Links ("}},
	{"w3m", []string{"w3m/"}},
}

// systems are tried in order, as browsers are.
var systems = []rule{
	{"Windows Phone", []string{"Windows Phone", "WP7", "IEMobile", "XBLWP7", "ZuneWP7"}},
	{"Xbox", []string{"Xbox"}},
	{"watchOS", []string{"watchOS", "Watch1,", "Watch2,", "Watch3,", "Watch4,", "Apple Watch"}},
	{"tvOS", []string{"tvOS", "AppleTV", "Apple TV"}},
	{"Windows", []string{"Windows", "Win64", "Win32", "WinNT", "Win98", "Win95", "Win 9x"}},
	{"KaiOS", []string{"KAIOS", "KaiOS"}},
	{"Tizen", []string{"Tizen"}},
	{"webOS", []string{"Web0S", "webOS", "hpwOS"}},
	{"HarmonyOS", []string{"HarmonyOS", "OpenHarmony"}},
	{"ChromeOS", []string{"CrOS"}},
	{"iOS", []string{"iPhone", "iPad", "iPod"}},
	{"Android", []string{"Android", "android", "Dalvik/", "Adr ", "JUC", "OculusBrowser/", "KFTT", "KFOT", "KFJW"}},
	{"iOS", []string{"iOS", "CFNetwork"}},
	{"PlayStation", []string{"PlayStation", "PLAYSTATION"}},
	{"Nintendo", []string{"Nintendo"}},
	{"BlackBerry", []string{"BlackBerry", "BB10;", "PlayBook"}},
	{"Symbian", []string{"Symbian", "SymbOS", "Series60", "S60"}},
	{"macOS", []string{"Macintosh", "Mac OS X", "Mac_PowerPC", "macOS", "Mac OS", "Darwin/"}},
	{"FreeBSD", []string{"FreeBSD"}},
	{"OpenBSD", []string{"OpenBSD"}},
	{"NetBSD", []string{"NetBSD"}},
	{"Solaris", []string{"SunOS", "Solaris"}},
	{"Fuchsia", []string{"Fuchsia"}},
	{"Linux", []string{"Linux", "linux", "Ubuntu", "Fedora", "Debian", "X11;"}},
}

// The tokens that rules other than of the first match need.
const (
	tokenMobile = iota
	tokenTablet
	tokenTabletPC
	tokenIPad
	tokenKindle
	tokenPlayBook
	tokenTV
	tokenVersion
	tokenSafari
	tokenWebKit
	tokenCFNetwork
	tokenMacDarwin
	specials
)

var specialTokens = [specials][]string{
	tokenMobile:    {"Mobile", "mobile", "Opera Mini", "Opera Mobi", "Phone", "Dalvik/", "MIDP", "UP.Browser", "Obigo", "SonyEricsson", "SAMSUNG-", "LG-"},
	tokenTablet:    {"Tablet", "tablet", "TABLET"},
	tokenTabletPC:  {"Tablet PC"},
	tokenIPad:      {"iPad"},
	tokenKindle:    {"Kindle", "Silk/", "KFTT", "KFOT", "KFJW"},
	tokenPlayBook:  {"PlayBook", "TouchPad"},
	tokenTV:        {"SMART-TV", "SmartTV", "Smart TV", "GoogleTV", "Android TV", "BRAVIA", "AFT", "HbbTV", "NetCast", "CrKey", "TV Safari"},
	tokenVersion:   {"Version/"},
	tokenSafari:    {"Safari/"},
	tokenWebKit:    {"AppleWebKit/"},
	tokenCFNetwork: {"CFNetwork"},
	tokenMacDarwin: {"x86_64)", "(x86_64", "(i386", "Macintosh", "MacBook", "iMac", "Macmini", "MacPro", "Mac OS X", "macOS"},
}

// programs are rules about what no browser says, tried in order for user agents that no crawler of the list matches.
var programs = []rule{
	{BotScanner, []string{"<?php", "${jndi", "() {", "../", "<script", "UNION SELECT", "scanner", "Scanner"}},
	{BotOther, []string{
		"+http", "(http", "bot/", "Bot/", "BOT/", "bot;", "Bot;", "bot)", "Bot)", "-bot", "-Bot",
		"spider", "Spider", "crawler", "Crawler", "crawling", "scraper", "Scraper",
	}},
	{BotTool, []string{"Java/", "Java-Client", "aws-sdk", "PHP/", "Ruby", "ruby/", "XML-RPC", "perl", "Python/", "node-"}},
}

// aliases are names for crawlers whose pattern is an address.
var aliases = map[string]string{"yandex.com/bots": "YandexBot", "pinterest.com/bot": "Pinterestbot"}

// corrections are patterns of the list that also match what people use. One with an empty pattern is left out.
var corrections = map[string]string{
	`AP3A\.240617\.008`: "",       // a build of Android 15 that many phones run
	`MetaIAB Facebook`:  "",       // the browser inside of an app for phones
	`008\/`:             `^008\/`, // ends of version numbers, as in Opera Mini/4.4.39008/
}

// retagged are patterns that the list has under another tag although their operators say that they read for language models
// or assistants.
var retagged = map[string]string{
	`Amazonbot`:              "ai-crawler",
	`Diffbot\/`:              "ai-crawler",
	`ImagesiftBot`:           "ai-crawler",
	`meta-externalfetcher\/`: "ai-crawler",
	`omgili`:                 "ai-crawler",
	`Timpibot`:               "ai-crawler",
	`YouBot`:                 "ai-crawler",
}
