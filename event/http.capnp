# One HTTP request as the edge saw it.
#
# Names follow the Cloudflare Logpush http_requests dataset where a field exists there, so that tools which read that
# dataset know ours; durations are microseconds here (Us), because nginx knows better than milliseconds.
# Ordinals run from wide to narrow so that the data section has no holes. The layout that results is written down in
# fields.go and checked against this file by a test. Evolution follows Cap'n Proto's rules: add at the end with the next
# ordinal, never reuse, never change a type.
#
# Text holds the bytes that the client sent. They are usually UTF-8; a hostile client may send anything but NUL-free,
# well-formed text, and readers must treat it as bytes.

@0xd2b7c1f0a4e85b11;

struct HttpRequest {
  edgeStartTimestamp @0 :Int64;                     # ns since the Unix epoch: first byte of the request read
  edgeEndTimestamp @1 :Int64;                       # ns since the Unix epoch: last byte of the response sent
  clientRequestBytes @2 :UInt64;                    # request line, headers and body
  edgeResponseBytes @3 :UInt64;                     # headers and body, as sent
  edgeResponseBodyBytes @4 :UInt64;                 # body alone, as sent
  originRequestBytes @5 :UInt64;                    # sent to the upstream, all tries
  originResponseBytes @6 :UInt64;                   # received from the upstream, all tries
  connectionID @7 :UInt64;                          # serial of the client connection in its worker's lifetime
  connectionRequests @8 :UInt32;                    # which request on that connection, from 1
  clientTCPRTTUs @9 :UInt32;                        # smoothed round-trip time the kernel has for the client
  originConnectDurationUs @10 :UInt32;              # upstream connect time, all tries
  originResponseHeaderReceiveDurationUs @11 :UInt32; # until the upstream's header was there, all tries
  originResponseDurationUs @12 :UInt32;             # until the upstream's last byte, all tries
  edgeResponseCompressionRatio @13 :Float32;        # original size / compressed size, 0 when not compressed
  clientSrcPort @14 :UInt16;
  edgeServerPort @15 :UInt16;
  edgeResponseStatus @16 :UInt16;
  originResponseStatus @17 :UInt16;                 # of the last try, 0 when no upstream was asked
  originTries @18 :UInt16;                          # upstream servers asked
  clientSSLSessionReused @19 :Bool;
  edgeResponseCompleted @20 :Bool;                  # the whole response went out
  clientRequestPipelined @21 :Bool;

  clientIP @22 :Data;                               # 4 or 16 bytes in network order; empty when unknown (unix socket)
  edgeServerIP @23 :Data;                           # as clientIP
  clientRequestHost @24 :Text;                      # lower case, no port
  clientRequestMethod @25 :Text;
  clientRequestScheme @26 :Text;
  clientRequestPath @27 :Text;                      # as the client sent it, without the query
  clientRequestQuery @28 :Text;                     # without the question mark
  clientRequestProtocol @29 :Text;                  # HTTP/1.1, HTTP/2.0, HTTP/3.0
  clientRequestReferer @30 :Text;
  clientRequestUserAgent @31 :Text;
  clientRequestUser @32 :Text;                      # of basic authentication
  clientXForwardedFor @33 :Text;
  edgeResponseContentType @34 :Text;
  clientSSLProtocol @35 :Text;                      # TLSv1.3; empty without TLS
  clientSSLCipher @36 :Text;
  clientSSLServerName @37 :Text;                    # SNI
  clientMTLSAuthStatus @38 :Text;                   # SUCCESS, NONE, FAILED:reason
  originAddress @39 :Text;                          # address and port, or unix path, of the last try
  cacheCacheStatus @40 :Text;                       # hit, miss, bypass, expired, stale, updating, revalidated; empty
  rayID @41 :Text;                                  # request id
  edgeServerName @42 :Text;                         # server block that answered
  edgeName @43 :Text;
  edgeColoCode @44 :Text;
  edgeLimitReqStatus @45 :Text;                     # PASSED, DELAYED, REJECTED, ...; empty without limit_req
  threat @46 :Text;                                 # set by the operator; empty when harmless
}
