package accesslog

import "fmt"

// The text formats that are strings in the configuration of their servers.
const (
	ncsa         = `$remote_addr $ident $remote_user [$start_time] "$request" $status $body_bytes_sent`
	agents       = ` "$http_referer" "$http_user_agent"`
	ingressNginx = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent" ` +
		`$request_length $request_time [$proxy_upstream_name] [$proxy_alternative_upstream_name] $upstream_addr ` +
		`$upstream_response_length $upstream_response_time $upstream_status $req_id`
	envoyDefault = `[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% ` +
		`%RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% ` +
		`"%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%"`
	istio = `[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" %RESPONSE_CODE% %RESPONSE_FLAGS% ` +
		`%RESPONSE_CODE_DETAILS% %CONNECTION_TERMINATION_DETAILS% "%UPSTREAM_TRANSPORT_FAILURE_REASON%" %BYTES_RECEIVED% ` +
		`%BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" ` +
		`"%REQ(X-REQUEST-ID)%" "%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" %UPSTREAM_CLUSTER% %UPSTREAM_LOCAL_ADDRESS% ` +
		`%DOWNSTREAM_LOCAL_ADDRESS% %DOWNSTREAM_REMOTE_ADDRESS% %REQUESTED_SERVER_NAME% %ROUTE_NAME%`
	traefikCommon = ncsa + agents + ` $request_count "$router_name" "$server_url" $duration`
)

// Formats gives all built-in formats, the most particular first.
func Formats() []Format {
	out := jsonFormats()
	for _, t := range []struct {
		name, doc, src string
		extras         bool
		rank           int
	}{
		{"envoy", "Envoy, default format string", envoyDefault, false, 46},
		{"istio", "Istio, default text format", istio, true, 47},
		{"ingress-nginx", "ingress-nginx, default log-format-upstream", ingressNginx, false, 45},
		{"traefik", "Traefik, common", traefikCommon, false, 44},
		{"gandi", "Gandi hosting: combined with host and seconds", `$vhost_checked ` + `$remote_addr $ident $remote_user [$start_time] ($seconds s) "$request" $status $body_bytes_sent` + agents, false, 43},
		{"vhost-combined", "combined with the virtual host (and port) before it", `$vhost_checked $client_checked $ident $remote_user [$start_time] "$request" $status $body_bytes_sent` + agents, true, 42},
		{"vhost-common", "common with the virtual host (and port) before it", `$vhost_checked $client_checked $ident $remote_user [$start_time] "$request" $status $body_bytes_sent`, false, 32},
		{"ovh", "combined with the virtual host in place of the ident", `$client_checked $vhost_checked $remote_user [$start_time] "$request" $status $body_bytes_sent` + agents, false, 41},
		{"main", "nginx packages' main: combined with X-Forwarded-For", ncsa + agents + ` "$xff_checked"`, false, 40},
		{"combined", "Apache and nginx combined; more columns may follow", ncsa + agents, true, 39},
		{"xff-combined", "combined with X-Forwarded-For in place of the client", `$xff_checked - $remote_user [$start_time] "$request" $status $body_bytes_sent` + agents, true, 30},
		{"quoted-combined", "combined, each line in another pair of quotes", `"` + ncsa + agents + `"`, false, 29},
		{"common", "NCSA common log format", ncsa, false, 28},
	} {
		p, err := link(lexWith(t.src))
		if err != nil { // the strings above are constants; a test compiles them all
			p = &program{prefix: fmt.Sprint(err)}
		}
		p.extras = t.extras
		out = append(out, Format{Name: t.name, Doc: t.doc, Source: t.src, rank: t.rank, make: p.parser})
	}
	return append(out,
		Format{Name: "cloudfront", Doc: "Amazon CloudFront standard log (tab separated)", rank: 26, state: true, make: w3cSpec{cloudFrontColumns, "x-edge-location"}.parser},
		Format{Name: "iis", Doc: "Microsoft IIS, W3C extended; default columns until #Fields", rank: 24, state: true, make: w3cSpec{iisColumns, ""}.parser},
		Format{Name: "w3c", Doc: "W3C extended with #Fields", rank: 25, state: true, make: w3cSpec{}.parser},
		Format{Name: "alb", Doc: "AWS application load balancer", rank: 23, make: albColumns.parser},
		Format{Name: "elb", Doc: "AWS classic load balancer", rank: 22, make: elbColumns.parser},
		Format{Name: "s3", Doc: "Amazon S3 server access log", rank: 21, make: s3Columns.parser},
		Format{Name: "haproxy", Doc: "HAProxy HTTP log, with or without syslog header", rank: 20, make: newHAProxy},
		Format{Name: "squid", Doc: "Squid native access.log", rank: 19, make: newSquid},
	)
}

// Lookup finds a built-in format by name.
func Lookup(name string) (Format, bool) {
	for _, f := range Formats() {
		if f.Name == name {
			return f, true
		}
	}
	return Format{}, false
}

// Resolve takes what a person gave: the name of a built-in format, or a format string.
func Resolve(s string) (Format, error) {
	if f, ok := Lookup(s); ok {
		return f, nil
	}
	f, err := Compile(s)
	if err != nil {
		return Format{}, fmt.Errorf("neither the name of a format nor a format string: %w", err)
	}
	return f, nil
}

// lexWith is lex with the names that only the table above uses.
func lexWith(s string) []token {
	toks, err := lex(s)
	if err != nil {
		return nil
	}
	for i := range toks {
		switch toks[i].name {
		case "start_time":
			toks[i].field = fTimeStart
		case "vhost_checked":
			toks[i].field = fVhost
		case "client_checked":
			toks[i].field = fClientNotName
		case "xff_checked":
			toks[i].field = fXFFChecked
		case "seconds":
			toks[i].field = fDurSec
		case "duration":
			toks[i].field = fDurMs
		case "server_url":
			toks[i].field = fOriginURL
		}
	}
	return toks
}
