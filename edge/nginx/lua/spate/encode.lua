-- Writes the finished request as one message of event/http.capnp, in standard framing, straight into the ring.
--
-- The layout: one word of framing, one of root pointer, 13 words of data, 25 pointers, two words for each of the two
-- addresses, one for the method and two for the protocol of ordinary requests, the constant texts (scheme, edge, colo, the
-- request id when it is ours), then the other texts, each ended by NUL and padded to 8 bytes. All up to the constant texts is
-- a template that is copied. The offsets below are those of
-- event/fields.go; a test of package edge/nginx reads what this file writes with that package and with the capnp tool.

local ffi = require "ffi"
local bit = require "bit"
local sys = require "spate.sys"
local vars = require "spate.vars"

local C = ffi.C
local band, bor, lshift, rshift = bit.band, bit.bor, bit.lshift, bit.rshift
local floor, min, max = math.floor, math.min, math.max

local DATA_WORDS, POINTERS = 13, 25 -- of the message
local POINTER_WORD = 2 + DATA_WORDS -- where the pointers begin, in words
local IP_WORD = POINTER_WORD + POINTERS -- where the client's address is; the server's is two words behind
local METHOD_WORD = IP_WORD + 4
local PROTOCOL_WORD = METHOD_WORD + 1
local CONSTANT_WORD = PROTOCOL_WORD + 2 -- where the constant texts begin
local MAX_MESSAGE = 256 * 1024 -- event.MaxMessage
local SHORT_TEXT = 8 * 1024 -- event.MaxText: what is left of each text of an event that would be larger

-- Pointers of the message, by the names of http.capnp.
local CLIENT_IP, SERVER_IP, HOST, METHOD, SCHEME, PATH, QUERY, PROTOCOL = 0, 1, 2, 3, 4, 5, 6, 7
local REFERER, USER_AGENT, USER, FORWARDED_FOR, CONTENT_TYPE = 8, 9, 10, 11, 12
local SSL_PROTOCOL, SSL_CIPHER, SSL_NAME, CLIENT_VERIFY, ORIGIN, CACHE = 13, 14, 15, 16, 17, 18
local RAY, SERVER_NAME, EDGE, COLO, LIMIT_REQ, THREAT = 19, 20, 21, 22, 23, 24

-- Slots of values that are not texts of the message.
local REQUEST_BYTES, SENT, BODY, CONNECTION, REQUESTS, PORT, PIPE, COMPLETION = 25, 26, 27, 28, 29, 30, 31, 32
local UPSTREAM, RATIO, REQUEST_LINE, SERVER_ADDR, SERVER_PORT, RTT, REUSED = 33, 34, 35, 36, 37, 38, 39
local U_STATUS, U_CONNECT, U_HEADER, U_TIME, U_SENT, U_RECEIVED = 40, 41, 42, 43, 44, 45
local SLOTS = 48

local ALWAYS = {
  { "binary_remote_addr", CLIENT_IP }, { "request", REQUEST_LINE }, { "host", HOST }, { "scheme", SCHEME },
  { "http_referer", REFERER }, { "http_user_agent", USER_AGENT }, { "remote_user", USER },
  { "http_x_forwarded_for", FORWARDED_FOR }, { "sent_http_content_type", CONTENT_TYPE },
  { "upstream_cache_status", CACHE }, { "server_name", SERVER_NAME }, { "limit_req_status", LIMIT_REQ },
  { "request_length", REQUEST_BYTES }, { "bytes_sent", SENT },
  { "body_bytes_sent", BODY }, { "connection", CONNECTION }, { "connection_requests", REQUESTS },
  { "pipe", PIPE }, { "request_completion", COMPLETION },
  { "upstream_addr", UPSTREAM }, { "gzip_ratio", RATIO, alias = "spate_gzip_ratio" },
}
local TARGET = { { "request_method", METHOD }, { "request_uri", PATH }, { "server_protocol", PROTOCOL } }
local WITH_TLS = {
  { "ssl_protocol", SSL_PROTOCOL }, { "ssl_cipher", SSL_CIPHER }, { "ssl_server_name", SSL_NAME },
  { "ssl_client_verify", CLIENT_VERIFY }, { "ssl_session_reused", REUSED },
}
local WITH_UPSTREAM = {
  { "upstream_status", U_STATUS }, { "upstream_connect_time", U_CONNECT },
  { "upstream_header_time", U_HEADER }, { "upstream_response_time", U_TIME },
  { "upstream_bytes_sent", U_SENT }, { "upstream_bytes_received", U_RECEIVED },
}
local PER_CONNECTION = { { "server_addr", SERVER_ADDR }, { "server_port", SERVER_PORT } }
local CLIENT_PORT = { { "remote_port", PORT } }
local ROUND_TRIP = { { "tcpinfo_rtt", RTT, moving = true } }

-- Values of the request at hand, by slot.
local ptr = ffi.new("const unsigned char *[?]", SLOTS)
local len = ffi.new("int32_t[?]", SLOTS)

local function digits(p, n)
  local v = 0
  for i = 0, n - 1 do
    local d = p[i] - 48
    if d < 0 or d > 9 then
      return v
    end
    v = v * 10 + d
  end
  return v
end

local function nginx_digits(p, n)
  local v = max(tonumber(C.ngx_atoi(p, n)), 0)
  return v
end

-- number reads an unsigned decimal.
local number = sys.exported("ngx_atoi") and nginx_digits or digits

-- is gives 1 when the value in a slot begins with the byte, else 0.
local function is(slot, byte)
  if len[slot] > 0 and ptr[slot][0] == byte then
    return 1
  end
  return 0
end

-- total adds up the numbers of a list like "0.001, - : 2.5", in thousandths.
local function total(slot)
  local p, sum, whole, scale = ptr[slot], 0, 0, 0
  for i = 0, len[slot] - 1 do
    local c = p[i]
    if c >= 48 and c <= 57 then
      if scale == 0 then
        whole = whole * 10 + (c - 48)
      else
        sum = sum + (c - 48) * scale
        scale = scale / 10
      end
    elseif c == 46 then
      scale = 100
    else
      sum, whole, scale = sum + whole * 1000, 0, 0
    end
  end
  return floor(sum + whole * 1000 + 0.5)
end

-- last gives the number of entries of a list like "a, b : c", and where the last one begins. " : " stands between the
-- upstreams of one internal redirect and the next, and may have nothing on one side.
local function last(slot)
  local p, n, count, from = ptr[slot], len[slot], 0, 0
  local i = 0
  while i < n do
    local step = 0
    if p[i] == 44 and i + 1 < n and p[i + 1] == 32 then
      step = 2
    elseif p[i] == 32 and i + 2 < n and p[i + 1] == 58 and p[i + 2] == 32 then
      step = 3
    end
    if step > 0 then
      count = count + (i > from and 1 or 0)
      i = i + step
      from = i
    else
      i = i + 1
    end
  end
  return count + (n > from and 1 or 0), from
end

-- cut ends the text in a slot at its first NUL, if there is one.
local function cut(slot)
  local n = len[slot]
  if n > 0 then
    local nul = C.memchr(ptr[slot], 0, n)
    if nul ~= nil then
      len[slot] = ffi.cast("const unsigned char *", nul) - ptr[slot]
    end
  end
end

-- split parts the request target in PATH at its first question mark.
local function split()
  local p, n = ptr[PATH], len[PATH]
  len[QUERY] = 0
  if n == 0 then
    return
  end
  local mark = C.memchr(p, 63, n)
  if mark ~= nil then
    local k = ffi.cast("const unsigned char *", mark) - p
    len[PATH] = k
    ptr[QUERY], len[QUERY] = p + (k + 1), n - k - 1
  end
end

local lower = {}
for _, s in ipairs { "MISS", "BYPASS", "EXPIRED", "STALE", "UPDATING", "REVALIDATED", "HIT" } do
  local low = s:lower()
  lower[s] = ffi.new("char[?]", #low + 1, low)
end

local function lower_cache_status()
  local s = lower[ffi.string(ptr[CACHE], len[CACHE])]
  if s then
    ptr[CACHE] = ffi.cast("const unsigned char *", s)
  end
end

-- Facts that hold for a connection, in a small cache addressed by the connection's serial number.
local CONNECTIONS = 1024
local connections = ffi.new([[struct {
  double id;
  uint32_t rtt, measure_at;
  int32_t ip_len;         /* of the server's address */
  int32_t client_len;     /* of the client's, if its port is in the memory before it */
  uint16_t port, unused;  /* of the server */
  uint8_t ip[16];
}[?]
]], CONNECTIONS)

-- raw puts the request line as the client sent it into PATH, up to its first NUL: without the method and the protocol, if
-- nginx understood these, though it could not make a request target of it.
local function raw()
  cut(REQUEST_LINE)
  local p, n = ptr[REQUEST_LINE], len[REQUEST_LINE]
  local m = len[METHOD]
  if m > 0 and n > m and ffi.string(p, m) == ffi.string(ptr[METHOD], m) and p[m] == 32 then
    p, n = p + (m + 1), n - m - 1
  end
  local protocol = n > 0 and ffi.string(p, n):find(" HTTP/[0-9.]*$")
  ptr[PATH], len[PATH] = p, protocol and protocol - 1 or n
end

-- Texts that most requests have, and groups of texts that most requests have none of.
local COMMON = { HOST, PATH, USER_AGENT, CONTENT_TYPE, SERVER_NAME }
local SELDOM = {
  { QUERY, REFERER, FORWARDED_FOR }, { METHOD, PROTOCOL },
  { SSL_PROTOCOL, SSL_CIPHER, SSL_NAME, CLIENT_VERIFY }, { USER, ORIGIN, CACHE, RAY, LIMIT_REQ, THREAT },
}

local function sum_of(list)
  local terms = {}
  for k, i in ipairs(list) do
    terms[k] = "len[" .. i .. "]"
  end
  return table.concat(terms, " + ")
end

-- compile makes a function of Lua text. Below, texts are unrolled instead of looped over, with hardly a branch, for the
-- same reason as in vars.lua; and sums stand inside bit operations, which keeps them in integer registers.
local function compile(source, ...)
  return assert(loadstring(table.concat(source), "=spate.encode"))(ffi, bit, ...)
end

-- new_measure makes measure(): the bytes of all texts that are not constant.
local function new_measure()
  local source = { "local ffi, bit, len = ...\nlocal tobit = bit.tobit\nreturn function()\n  local sum = tobit(" }
  source[2] = sum_of(COMMON)
  for _, group in ipairs(SELDOM) do
    source[#source + 1] = " + " .. sum_of(group)
  end
  source[#source + 1] = ")\n  return sum\nend"
  return compile(source, len)
end

-- clip cuts every text that is longer than longest.
local function clip(longest)
  for i = HOST, THREAT do
    len[i] = min(len[i], longest)
  end
end

local WRITE_TEXT = [[
  n = len[$i]
  mask = arshift(0 - n, 31)
  count = band(n + 1, mask)
  words = rshift(count + 7, 3)
  b32[pointer2 + $twice] = band(bor(lshift(to - pointer - $behind, 2), 1), mask)
  b32[pointer2 + $twice + 1] = band(bor(lshift(count, 3), 2), mask)
  b64[to + band(words - 1, mask)] = 0
  copy(b8 + lshift(to, 3), ptr[$i], n)
  to = tobit(to + words)
]]

-- new_writer makes write_texts(to, pointer, pointer2): it puts the texts at the word to and the pointers to them at the
-- word pointer (pointer2 is twice that), and gives the word behind the texts. A text that is absent gets a null pointer;
-- the word that is cleared for it belongs to the text that comes next, or to nobody.
local function new_writer(ring)
  local source = { [[
local ffi, bit, ptr, len, b8, b32, b64 = ...
local band, bor, lshift, rshift, arshift, tobit = bit.band, bit.bor, bit.lshift, bit.rshift, bit.arshift, bit.tobit
local copy = ffi.copy
return function(to, pointer, pointer2)
  local n, mask, count, words
]] }
  local function add(i)
    source[#source + 1] = WRITE_TEXT:gsub("%$(%l+)", { i = i, twice = 2 * i, behind = i + 1 })
  end
  for _, i in ipairs(COMMON) do
    add(i)
  end
  for _, group in ipairs(SELDOM) do
    source[#source + 1] = "  if " .. sum_of(group) .. " > 0 then\n"
    for _, i in ipairs(group) do
      add(i)
    end
    source[#source + 1] = "  end\n"
  end
  source[#source + 1] = "  return to\nend"
  return compile(source, ptr, len, ring.b8, ring.b32, ring.b64)
end

-- new_template makes what all messages of this worker with this scheme begin with, as words; it gives these, their number,
-- and a pointer to the request id among them.
local function new_template(scheme, edge, colo, ray)
  local words = CONSTANT_WORD + 1 + rshift(#edge + 8, 3) + rshift(#colo + 8, 3) + rshift(#ray + 8, 3)
  local t = ffi.new("int64_t[?]", words + 1)
  local t32, t8 = ffi.cast("uint32_t *", t), ffi.cast("uint8_t *", t)
  t32[3] = bor(DATA_WORDS, lshift(POINTERS, 16))
  local to
  local function put(i, text)
    local at = t8 + to * 8
    if #text > 0 then
      local pointer = POINTER_WORD + i
      t32[pointer * 2] = bor(lshift(to - pointer - 1, 2), 1)
      t32[pointer * 2 + 1] = bor(lshift(#text + 1, 3), 2)
      ffi.copy(at, text, #text)
      to = to + rshift(#text + 8, 3)
    end
    return at
  end
  to = METHOD_WORD
  put(METHOD, "GET")
  put(PROTOCOL, "HTTP/1.1")
  put(SCHEME, scheme)
  put(EDGE, edge)
  put(COLO, colo)
  return t, put(RAY, ray), to
end

-- new_ray makes next_ray(), which counts up the last 12 of the 32 hexadecimal digits at the places given; the first 20 are
-- random, and this worker's.
local function new_ray(one, two)
  one, two = ffi.cast("uint16_t *", one), ffi.cast("uint16_t *", two)
  local hex = ffi.new("uint16_t[256]")
  for i = 0, 255 do
    local s = ("%02x"):format(i)
    hex[i] = s:byte(1) + s:byte(2) * 256
  end
  local low, high = 0, 0
  return function()
    low = band(low + 1, 0xffffff)
    local a, b, c = hex[rshift(low, 16)], hex[band(rshift(low, 8), 255)], hex[band(low, 255)]
    one[13], one[14], one[15] = a, b, c
    two[13], two[14], two[15] = a, b, c
    if low == 0 then
      high = band(high + 1, 0xffffff)
      a, b, c = hex[rshift(high, 16)], hex[band(rshift(high, 8), 255)], hex[band(high, 255)]
      one[10], one[11], one[12] = a, b, c
      two[10], two[11], two[12] = a, b, c
    end
  end
end

-- new_threat makes threat_of(r): ngx.ctx.spate_threat as a string, without making an ngx.ctx for requests that have none.
local function new_threat(r)
  local in_ssl, ssl_ref = ffi.new("int[1]"), ffi.new("int[1]")
  local tables = debug.getregistry().ngx_lua_ctx_tables
  if not tables or not pcall(C.ngx_http_lua_ffi_get_ctx_ref, r, in_ssl, ssl_ref) then
    return function() end
  end
  return function(request)
    local ref = C.ngx_http_lua_ffi_get_ctx_ref(request, in_ssl, ssl_ref)
    if ref > 0 then
      local ctx = tables[ref]
      local threat = type(ctx) == "table" and ctx.spate_threat
      return type(threat) == "string" and threat or nil
    end
  end
end

-- new makes the function that records the request at hand; r is the first such request, by which it finds out how to read
-- what. options: edge, colo, max_text, threat, ray. The function gives "full" when the ring had no room, "send" when a frame
-- is complete, nil otherwise.
--
-- Everything that the function uses is a local that never changes, which LuaJIT then treats as a constant.
local function new(options, ring, r)
  local b8, b16, b32, b64, f32 = ring.b8, ring.b16, ring.b32, ring.b64, ring.f32
  local reserve, commit = ring.reserve, ring.commit
  local request, max_text = sys.request, options.max_text

  local list = {}
  for i, v in ipairs(ALWAYS) do
    list[i] = v
  end
  -- An id of ours costs less than nginx's, and is as good when nobody else has seen one.
  local own_ray = not vars.indexed(r, "request_id")
  if not own_ray then
    list[#list + 1] = { "request_id", RAY, stored = true }
  end
  if options.threat or vars.known(r, "spate_threat") then
    list[#list + 1] = { "spate_threat", THREAT, stored = true }
  end
  local found = vars.find(list, TARGET, WITH_TLS, WITH_UPSTREAM, PER_CONNECTION, ROUND_TRIP, CLIENT_PORT)
  local function reader(of)
    return vars.new(of, ptr, len, r, found)
  end
  local read_always, read_target, read_tls, read_upstream = reader(list), reader(TARGET), reader(WITH_TLS), reader(WITH_UPSTREAM)
  local read_connection, read_rtt, read_port = reader(PER_CONNECTION), reader(ROUND_TRIP), reader(CLIENT_PORT)

  local ray = own_ray and options.ray or ""
  local http, http_ray, template_words = new_template("http", options.edge, options.colo, ray)
  local https, https_ray = new_template("https", options.edge, options.colo, ray)
  local template_bytes = template_words * 8
  local next_ray, threat_of = new_ray(http_ray, https_ray), new_threat(r)
  local measure, write_texts = new_measure(), new_writer(ring)
  local keep -- the string that a text points to
  local low_bytes = ffi.new("int64_t[8]", 0, 0xff, 0xffff, 0xffffff, 0xffffffffLL, 0xffffffffffLL, 0xffffffffffffLL, 0xffffffffffffffLL)

  -- read_line finds method, target and protocol in the request line; that costs less than their variables, and the method
  -- is the client's own even after an internal redirect. It gives the length of the method, which like the protocol is not
  -- put into ptr and len; or 0 for lines that nginx did not take, or that are not plain: these are left to the variables.
  local function read_line(rr, status)
    local p, n = ptr[REQUEST_LINE], len[REQUEST_LINE]
    if n >= 14 and p[n - 9] == 32 and p[n - 10] ~= 32 and status ~= 400 and status ~= 505
      and ffi.cast("const int32_t *", p + (n - 8))[0] == 0x50545448 then -- "HTTP"
      local m = ffi.cast("const unsigned char *", C.memchr(p, 32, n)) - p
      if m > 0 and m < 8 and m < n - 10 and p[m + 1] == 47 then
        len[METHOD], len[PROTOCOL] = 0, 0
        ptr[PATH], len[PATH] = p + (m + 1), n - m - 10
        split()
        return m
      end
    end
    read_target(rr)
    if len[PATH] == 0 then
      raw()
    end
    split()
    return 0
  end

  -- write_line writes method and protocol to their places in the template, eight bytes at a time: the line is longer than
  -- that. m is what read_line gave.
  local function write_line(w, m)
    local method, protocol = (w + POINTER_WORD + METHOD) * 2, (w + POINTER_WORD + PROTOCOL) * 2
    if m == 0 then
      b64[method / 2], b64[protocol / 2] = 0, 0
      return
    end
    local p = ptr[REQUEST_LINE]
    b64[w + METHOD_WORD] = band(ffi.cast("const int64_t *", p)[0], low_bytes[m])
    b32[method + 1] = bor(lshift(m + 1, 3), 2)
    b64[w + PROTOCOL_WORD] = ffi.cast("const int64_t *", p + (len[REQUEST_LINE] - 8))[0]
  end

  -- read leaves all that the texts are made of in ptr and len.
  local function read(rr, status)
    len[THREAT] = 0
    read_always(rr)
    if own_ray then
      next_ray()
    end
    local m = read_line(rr, status)
    if len[SCHEME] == 5 then
      read_tls(rr)
    elseif len[SSL_PROTOCOL] > 0 then
      len[SSL_PROTOCOL], len[SSL_CIPHER], len[SSL_NAME], len[CLIENT_VERIFY], len[REUSED] = 0, 0, 0, 0, 0
    end
    if len[UPSTREAM] > 0 then
      local _, from = last(UPSTREAM)
      ptr[ORIGIN], len[ORIGIN] = ptr[UPSTREAM] + from, len[UPSTREAM] - from
    else
      len[ORIGIN] = 0
    end
    if len[CACHE] > 0 then
      lower_cache_status()
    end
    if len[USER] > 0 then
      cut(USER)
    end
    local threat = threat_of(rr)
    if threat then
      keep = threat
      ptr[THREAT], len[THREAT] = ffi.cast("const unsigned char *", threat), #threat
    end
    if len[THREAT] > 0 then
      cut(THREAT)
    end
    return m
  end

  -- client_port is the port in the socket address that the client's address is a part of, in memory.
  local function client_port()
    local n = len[CLIENT_IP]
    local p = ptr[CLIENT_IP] - (n == 4 and 2 or 6)
    return p[0] * 256 + p[1]
  end

  -- new_connection fills a place in the cache. Whether the client's address is read from within a socket address, as
  -- nginx does it, is tried out.
  local function new_connection(rr, c, id)
    read_connection(rr)
    c.ip_len = sys.address(ptr[SERVER_ADDR], len[SERVER_ADDR], c.ip)
    c.port = number(ptr[SERVER_PORT], len[SERVER_PORT])
    c.id, c.measure_at, c.client_len = id, 0, -1
    read_port(rr)
    local n = len[CLIENT_IP]
    if (n == 4 or n == 16) and client_port() == number(ptr[PORT], len[PORT]) then
      c.client_len = n
    end
  end

  -- connection gives the facts of the request's connection. The round-trip time costs a system call, so it is asked for
  -- with the first request and then with every sixteenth.
  local function connection(rr)
    local id, requests = number(ptr[CONNECTION], len[CONNECTION]), number(ptr[REQUESTS], len[REQUESTS])
    local c = connections[band(id, CONNECTIONS - 1)]
    if c.id ~= id then
      new_connection(rr, c, id)
    end
    if requests >= c.measure_at then
      read_rtt(rr)
      c.rtt = number(ptr[RTT], len[RTT])
      c.measure_at = requests + 16
    end
    return c, requests
  end

  -- write_address puts n bytes at p into the two words kept for an address; i is the pointer to it.
  local function write_address(w, i, p, n)
    if n == 0 then
      return
    end
    local pointer, to = w + POINTER_WORD + i, w + IP_WORD + 2 * i
    local a = ffi.cast("const uint32_t *", p)
    b32[pointer * 2] = bor(lshift(IP_WORD - POINTER_WORD + i - 1, 2), 1)
    b32[pointer * 2 + 1] = bor(lshift(n, 3), 2)
    if n == 4 then
      b32[to * 2] = a[0]
    else
      b32[to * 2], b32[to * 2 + 1], b32[to * 2 + 2], b32[to * 2 + 3] = a[0], a[1], a[2], a[3]
    end
  end

  local function write_addresses(rr, w, c)
    local p, n = ptr[CLIENT_IP], len[CLIENT_IP]
    if n == c.client_len then
      b16[w * 4 + 52] = client_port()
    else
      read_port(rr)
      b16[w * 4 + 52] = number(ptr[PORT], len[PORT])
    end
    if n == 16 then
      local a = ffi.cast("const uint32_t *", p)
      if a[0] == 0 and a[1] == 0 and a[2] == 0xffff0000 then -- IPv4 in IPv6
        p, n = p + 12, 4
      end
    elseif n ~= 4 then -- a unix socket
      n = 0
    end
    write_address(w, CLIENT_IP, p, n)
    write_address(w, SERVER_IP, c.ip, c.ip_len)
  end

  local function write_times(rr, w)
    local start = floor(C.ngx_http_lua_ffi_req_start_time(rr) * 1000 + 0.5)
    local sec, us = sys.now_us()
    if sec * 1000 + us / 1000 < start then -- the clock was set back
      sec, us = floor(start / 1000), start % 1000 * 1000
    end
    b64[w + 2] = ffi.cast("int64_t", start) * 1000000LL
    b64[w + 3] = ffi.cast("int64_t", sec * 1000000 + us) * 1000LL
  end

  -- write_origin fills in what concerns upstream servers.
  local function write_origin(rr, w)
    read_upstream(rr)
    local tries = last(UPSTREAM)
    local _, status = last(U_STATUS)
    b64[w + 7] = total(U_SENT) / 1000
    b64[w + 8] = total(U_RECEIVED) / 1000
    b32[w * 2 + 22] = total(U_CONNECT) * 1000
    b32[w * 2 + 23] = total(U_HEADER) * 1000
    b32[w * 2 + 24] = total(U_TIME) * 1000
    b16[w * 4 + 55] = digits(ptr[U_STATUS] + status, len[U_STATUS] - status)
    b16[w * 4 + 56] = min(tries, 65535)
  end

  local function write_numbers(w, c, requests, status)
    b64[w + 4] = number(ptr[REQUEST_BYTES], len[REQUEST_BYTES])
    b64[w + 5] = number(ptr[SENT], len[SENT])
    b64[w + 6] = number(ptr[BODY], len[BODY])
    b64[w + 9] = c.id
    b32[w * 2 + 20] = requests
    b32[w * 2 + 21] = c.rtt
    b16[w * 4 + 53] = c.port
    b16[w * 4 + 54] = status
    b8[w * 8 + 16 + 98] = is(REUSED, 114) + 2 * min(len[COMPLETION], 1) + 4 * is(PIPE, 112)
    if len[RATIO] > 0 then
      f32[w * 2 + 4 + 21] = tonumber(ffi.string(ptr[RATIO], len[RATIO])) or 0
    end
  end

  -- room_for gives the bytes to reserve for texts of the given sum, after cutting what is too long.
  local function room_for(sum)
    if sum > max_text then
      clip(max_text)
      if measure() > MAX_MESSAGE - 4096 then
        clip(SHORT_TEXT)
      end
      sum = measure()
    end
    local need = band(template_bytes + 8 * (POINTERS + 1) + sum + 7, -8)
    return need
  end

  return function()
    local rr = request()
    if rr == nil then
      return
    end
    local status = C.ngx_http_lua_ffi_get_resp_status(rr)
    -- The order is such that what branches comes late: LuaJIT compiles what follows a branch once for each way.
    local m = read(rr, status)
    local at = reserve(ring, room_for(measure()))
    if not at then
      return "full"
    end
    local w = rshift(at, 3)
    ffi.copy(b8 + at, len[SCHEME] == 5 and https or http, template_bytes)
    write_line(w, m)
    local pointer = w + POINTER_WORD
    local words = write_texts(w + template_words, pointer, pointer * 2) - w
    b32[w * 2 + 1] = words - 1
    write_times(rr, w)
    local c, requests = connection(rr)
    write_numbers(w, c, requests, status)
    write_addresses(rr, w, c)
    if len[UPSTREAM] > 0 then
      write_origin(rr, w)
    end
    if commit(ring, words * 8) then
      return "send"
    end
  end
end

return { new = new }
