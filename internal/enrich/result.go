package enrich

// Result holds what enrichment says about one event. The strings are either constants or interned, so that a Result may be
// kept and reused; an unknown value is as the field says.
type Result struct {
	// ClientCountry is the ISO 3166-1 alpha-2 code of the client address, "XX" when unknown.
	ClientCountry string
	// ClientASN is the autonomous system of the client address, 0 when unknown.
	ClientASN uint32
	// ClientDeviceType is desktop, mobile, tablet or other.
	ClientDeviceType string
	// UserAgentBrowser is the browser family, empty when unknown.
	UserAgentBrowser string
	// UserAgentOS is the operating system family, empty when unknown.
	UserAgentOS string
	// BotClass is empty for a human, else search_engine, ai_crawler, seo, monitor, feed, tool, scanner or other_bot.
	BotClass string
	// ClientIPClass is unknown, searchEngine, monitoringService, badHost, noRecord, scan, tor or allowlist.
	ClientIPClass string
	// EdgeResponseContentClass is html, css, javascript, png, json and so on; empty when there was no content type.
	EdgeResponseContentClass string
	// Cached says that the answer came out of the edge's cache: hit, stale, updating or revalidated.
	Cached bool
	// PageView says that a page was shown: GET, status 2xx or 304, html.
	PageView bool
	// RequestDurationUs is the time from first byte in to last byte out in microseconds, 0 when the source knows none.
	RequestDurationUs uint32
	// ZoneID is the 32-hex id of the zone the event belongs to.
	ZoneID string
	// ZoneName is that zone's name.
	ZoneName string
}
