-- Writes the finished request as one message of event/http.capnp, in standard framing, straight into the ring.
--
-- The layout is fixed: one word of framing, one of root pointer, 13 words of data, 25 pointers, then the texts in the order
-- of their pointers, each ended by NUL and padded to 8 bytes. The offsets below are those of event/fields.go; a test of
-- package edge/nginx reads what this file writes with that package and with the capnp tool.

local ffi = require "ffi"
local bit = require "bit"
local sys = require "spate.sys"
local vars = require "spate.vars"

local C = ffi.C
local band, bor, lshift, rshift = bit.band, bit.bor, bit.lshift, bit.rshift
local floor, min, max = math.floor, math.min, math.max

local DATA_WORDS, POINTERS = 13, 25
local FRONT = 8 * (2 + DATA_WORDS + POINTERS) -- bytes before the first text
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
  { "binary_remote_addr", CLIENT_IP }, { "host", HOST }, { "request_method", METHOD }, { "scheme", SCHEME },
  { "request_uri", PATH }, { "server_protocol", PROTOCOL }, { "http_referer", REFERER },
  { "http_user_agent", USER_AGENT }, { "remote_user", USER }, { "http_x_forwarded_for", FORWARDED_FOR },
  { "sent_http_content_type", CONTENT_TYPE }, { "upstream_cache_status", CACHE }, { "server_name", SERVER_NAME },
  { "limit_req_status", LIMIT_REQ }, { "request_length", REQUEST_BYTES }, { "bytes_sent", SENT },
  { "body_bytes_sent", BODY }, { "connection", CONNECTION }, { "connection_requests", REQUESTS },
  { "remote_port", PORT }, { "pipe", PIPE }, { "request_completion", COMPLETION }, { "upstream_addr", UPSTREAM },
  { "gzip_ratio", RATIO, false, "spate_gzip_ratio" },
}
local WITH_TLS = {
  { "ssl_protocol", SSL_PROTOCOL }, { "ssl_cipher", SSL_CIPHER }, { "ssl_server_name", SSL_NAME },
  { "ssl_client_verify", CLIENT_VERIFY }, { "ssl_session_reused", REUSED },
}
local WITH_UPSTREAM = {
  { "upstream_status", U_STATUS }, { "upstream_connect_time", U_CONNECT }, { "upstream_header_time", U_HEADER },
  { "upstream_response_time", U_TIME }, { "upstream_bytes_sent", U_SENT }, { "upstream_bytes_received", U_RECEIVED },
}
local PER_CONNECTION = { { "server_addr", SERVER_ADDR }, { "server_port", SERVER_PORT } }

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

-- number reads an unsigned decimal in a slot; 0 when it is empty.
local number = digits

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
local connections = ffi.new("struct { double id; uint32_t rtt, measure_at; uint16_t port; uint16_t ip_len; uint8_t ip[16]; }[?]", CONNECTIONS)

local tls, upstream = vars.new(WITH_TLS, ptr, len), vars.new(WITH_UPSTREAM, ptr, len)
local per_connection = vars.new(PER_CONNECTION, ptr, len)
local rtt = vars.new({ { "tcpinfo_rtt", RTT, true } }, ptr, len)
local line = vars.new({ { "request", REQUEST_LINE } }, ptr, len)

-- connection gives the facts of the request's connection. The round-trip time costs a system call, so it is asked for with
-- the first request and then with every sixteenth.
local function connection(r)
  local id, requests = number(ptr[CONNECTION], len[CONNECTION]), number(ptr[REQUESTS], len[REQUESTS])
  local c = connections[band(id, CONNECTIONS - 1)]
  if c.id ~= id then
    per_connection.run(r)
    c.ip_len = sys.address(ptr[SERVER_ADDR], len[SERVER_ADDR], c.ip)
    c.port = number(ptr[SERVER_PORT], len[SERVER_PORT])
    c.id, c.measure_at = id, 0
  end
  if requests >= c.measure_at then
    rtt.run(r)
    c.rtt = number(ptr[RTT], len[RTT])
    c.measure_at = requests + 16
  end
  return c, requests
end

-- broken puts what the client sent for a request line into PATH when nginx could not make a request target of it: the
-- line without the method and the protocol, if nginx understood these, and up to the first NUL.
local function broken(r)
  line.run(r)
  cut(REQUEST_LINE)
  local p, n = ptr[REQUEST_LINE], len[REQUEST_LINE]
  local m = len[METHOD]
  if n == 0 then
    return
  end
  if m > 0 and n > m and ffi.string(p, m) == ffi.string(ptr[METHOD], m) and p[m] == 32 then
    p, n = p + (m + 1), n - m - 1
  end
  local protocol = ffi.string(p, n):find(" HTTP/[0-9.]*$")
  ptr[PATH], len[PATH] = p, protocol and protocol - 1 or n
end

-- origin fills in what concerns upstream servers; w is the message's first word.
local function origin(r, ring, w)
  upstream.run(r)
  local tries = last(UPSTREAM)
  local _, status = last(U_STATUS)
  local b64, b32, b16 = ring.b64, ring.b32, ring.b16
  b64[w + 7] = total(U_SENT) / 1000
  b64[w + 8] = total(U_RECEIVED) / 1000
  b32[w * 2 + 22] = total(U_CONNECT) * 1000
  b32[w * 2 + 23] = total(U_HEADER) * 1000
  b32[w * 2 + 24] = total(U_TIME) * 1000
  b16[w * 4 + 55] = digits(ptr[U_STATUS] + status, len[U_STATUS] - status)
  b16[w * 4 + 56] = min(tries, 65535)
end

-- Texts that most requests have, and groups of texts that most requests have none of. The server's address is not here:
-- it is written apart.
local COMMON = {
  CLIENT_IP, HOST, METHOD, SCHEME, PATH, QUERY, PROTOCOL, REFERER, USER_AGENT, FORWARDED_FOR, CONTENT_TYPE, RAY,
  SERVER_NAME, EDGE, COLO,
}
local SELDOM = { { SSL_PROTOCOL, SSL_CIPHER, SSL_NAME, CLIENT_VERIFY }, { USER, ORIGIN, CACHE, LIMIT_REQ, THREAT } }

-- unrolled makes a function of a text that is repeated for each of these pointers, with $i for its number and $ending for
-- the bytes that end it. There are no loops and hardly a branch in it, for the same reason as in vars.lua.
local function unrolled(head, body, tail, ...)
  local parts = { head }
  local function add(i)
    parts[#parts + 1] = body:gsub("%$(%l+)", { i = i, ending = i == CLIENT_IP and 0 or 1 })
  end
  for _, i in ipairs(COMMON) do
    add(i)
  end
  for _, group in ipairs(SELDOM) do
    local any = {}
    for k, i in ipairs(group) do
      any[k] = "len[" .. i .. "]"
    end
    parts[#parts + 1] = "  if " .. table.concat(any, " + ") .. " > 0 then\n"
    for _, i in ipairs(group) do
      add(i)
    end
    parts[#parts + 1] = "  end\n"
  end
  parts[#parts + 1] = tail
  return assert(loadstring(table.concat(parts), "=spate.encode"))(ffi, bit, ...)
end

-- measure_texts(longest) gives the bytes that the texts need, after cutting those that are too long.
local measure_texts = unrolled([[
local ffi, bit, len = ...
local min = math.min
return function(longest)
  local sum, n = 224
]], [[
  n = min(len[$i], longest)
  len[$i] = n
  sum = sum + n
]], [[
  return sum
end
]], len)

-- new_writer makes write_texts(to, pointer): it puts the texts at the word to, the pointers to them at the word pointer,
-- and gives the word behind the texts. An absent text gets a null pointer; the word that is cleared behind the end
-- then belongs to what comes next.
local function new_writer(ring)
  return unrolled([[
local ffi, bit, ptr, len, b8, b32, b64 = ...
local bor, lshift, rshift, min, max, copy = bit.bor, bit.lshift, bit.rshift, math.min, math.max, ffi.copy
return function(to, pointer)
  local n, present, count, words
]], [[
  n = len[$i]
  present = min(n, 1)
  count = (n + $ending) * present
  words = rshift(count + 7, 3)
  b32[(pointer + $i) * 2] = bor(lshift(to - pointer - $i - 1, 2), 1) * present
  b32[(pointer + $i) * 2 + 1] = bor(lshift(count, 3), 2) * present
  b64[to + max(words - 1, 0)] = 0
  copy(b8 + to * 8, ptr[$i], n)
  to = to + words
]], [[
  return to
end
]], ptr, len, ring.b8, ring.b32, ring.b64)
end

-- new makes the function that records the request at hand. options: edge, colo, max_text, threat. It gives "full" when
-- the ring had no room, "send" when a frame is complete, nil otherwise.
local function new(options, ring)
  if sys.exported("ngx_atoi") then
    number = nginx_digits
  end
  local b8, b16, b32, b64, f32 = ring.b8, ring.b16, ring.b32, ring.b64, ring.f32
  local max_text = options.max_text
  local request = sys.request

  local template = ffi.new("uint8_t[?]", FRONT)
  local t32 = ffi.cast("uint32_t *", template)
  t32[3] = bor(DATA_WORDS, lshift(POINTERS, 16))

  local edge, colo = options.edge, options.colo
  ptr[EDGE], len[EDGE] = ffi.cast("const unsigned char *", edge), #edge
  ptr[COLO], len[COLO] = ffi.cast("const unsigned char *", colo), #colo

  -- The id of a request when the configuration does not use $request_id: 20 random digits of this worker, 12 that count.
  local ray = ffi.new("uint8_t[32]", options.ray)
  local ray16 = ffi.cast("uint16_t *", ray)
  local hex16 = ffi.new("uint16_t[256]")
  for i = 0, 255 do
    local s = ("%02x"):format(i)
    hex16[i] = s:byte(1) + s:byte(2) * 256
  end
  local low24, high24 = 0, 0

  local function next_ray()
    low24 = band(low24 + 1, 0xffffff)
    ray16[15], ray16[14], ray16[13] = hex16[band(low24, 255)], hex16[band(rshift(low24, 8), 255)], hex16[rshift(low24, 16)]
    if low24 == 0 then
      high24 = band(high24 + 1, 0xffffff)
      ray16[12], ray16[11], ray16[10] = hex16[band(high24, 255)], hex16[band(rshift(high24, 8), 255)], hex16[rshift(high24, 16)]
    end
  end

  local always, own_ray, ctx_ref, ctx_tables
  local in_ssl, ssl_ref = ffi.new("int[1]"), ffi.new("int[1]")

  -- What can only be found out with a request at hand.
  local function discover(r)
    local list = {}
    for i, v in ipairs(ALWAYS) do
      list[i] = v
    end
    own_ray = not vars.indexed(r, "request_id")
    if not own_ray then
      list[#list + 1] = { "request_id", RAY }
    end
    if options.threat or vars.known(r, "spate_threat") then
      list[#list + 1] = { "spate_threat", THREAT }
    end
    always = vars.new(list, ptr, len)
    ctx_tables = debug.getregistry().ngx_lua_ctx_tables
    if ctx_tables and pcall(C.ngx_http_lua_ffi_get_ctx_ref, r, in_ssl, ssl_ref) then
      ctx_ref = true
    end
  end

  -- ngx.ctx.spate_threat, without making an ngx.ctx for requests that have none.
  local function threat_of_ctx(ref)
    local ctx = ctx_tables[ref]
    local threat = type(ctx) == "table" and ctx.spate_threat
    if type(threat) == "string" then
      options.last_threat = threat -- keeps the string alive until it is copied
      ptr[THREAT], len[THREAT] = ffi.cast("const unsigned char *", threat), #threat
    end
  end

  local function prepare(r)
    if not always then
      discover(r)
    end
    len[THREAT] = 0
    always.run(r)
    if own_ray then
      next_ray()
      ptr[RAY], len[RAY] = ray, 32
    end
    if len[PATH] == 0 then
      broken(r)
    end
    split()
    if len[SCHEME] == 5 then
      tls.run(r)
    else
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
    if ctx_ref then
      local ref = C.ngx_http_lua_ffi_get_ctx_ref(r, in_ssl, ssl_ref)
      if ref > 0 then
        threat_of_ctx(ref)
      end
    end
    if len[THREAT] > 0 then
      cut(THREAT)
    end
  end

  local function client_address()
    local p, n = ptr[CLIENT_IP], len[CLIENT_IP]
    if n == 16 then
      local a = ffi.cast("const uint32_t *", p)
      if a[0] == 0 and a[1] == 0 and a[2] == 0xffff0000 then -- IPv4 in IPv6
        ptr[CLIENT_IP], len[CLIENT_IP] = p + 12, 4
      end
    elseif n ~= 4 then -- a unix socket
      len[CLIENT_IP] = 0
    end
  end

  -- server_address is the last text, because it alone is known only now; it gives the word behind it.
  local function server_address(c, to, pointer)
    local n = c.ip_len
    if n == 0 then
      return to
    end
    b32[pointer * 2] = bor(lshift(to - pointer - 1, 2), 1)
    b32[pointer * 2 + 1] = bor(lshift(n, 3), 2)
    b64[to + rshift(n - 1, 3)] = 0
    ffi.copy(b8 + to * 8, c.ip, n)
    return to + rshift(n + 7, 3)
  end

  local function write_times(r, w)
    local start = floor(C.ngx_http_lua_ffi_req_start_time(r) * 1000 + 0.5)
    local sec, us = sys.now_us()
    if sec * 1000 + us / 1000 < start then -- the clock was set back
      sec, us = floor(start / 1000), start % 1000 * 1000
    end
    b64[w + 2] = ffi.cast("int64_t", start) * 1000000LL
    b64[w + 3] = ffi.cast("int64_t", sec * 1000000 + us) * 1000LL
  end

  local function write_numbers(r, w, c, requests)
    b64[w + 4] = number(ptr[REQUEST_BYTES], len[REQUEST_BYTES])
    b64[w + 5] = number(ptr[SENT], len[SENT])
    b64[w + 6] = number(ptr[BODY], len[BODY])
    b64[w + 9] = c.id
    b32[w * 2 + 20] = requests
    b32[w * 2 + 21] = c.rtt
    b16[w * 4 + 52] = number(ptr[PORT], len[PORT])
    b16[w * 4 + 53] = c.port
    b16[w * 4 + 54] = C.ngx_http_lua_ffi_get_resp_status(r)
    b8[w * 8 + 16 + 98] = is(REUSED, 114) + 2 * min(len[COMPLETION], 1) + 4 * is(PIPE, 112)
    if len[RATIO] > 0 then
      f32[w * 2 + 4 + 21] = tonumber(ffi.string(ptr[RATIO], len[RATIO])) or 0
    end
    if len[UPSTREAM] > 0 then
      origin(r, ring, w)
    end
  end

  local write_texts = new_writer(ring)

  return function()
    local r = request()
    if r == nil then
      return
    end
    -- The order is such that what branches comes late: LuaJIT compiles what follows a branch once for each way.
    prepare(r)
    client_address()
    local need = FRONT + measure_texts(max_text)
    if need > MAX_MESSAGE then
      need = FRONT + measure_texts(SHORT_TEXT)
    end
    local at = ring:reserve(need)
    if not at then
      return "full"
    end
    local w = at / 8
    ffi.copy(b8 + at, template, FRONT)
    local to = write_texts(w + FRONT / 8, w + 2 + DATA_WORDS)
    write_times(r, w)
    local c, requests = connection(r)
    to = server_address(c, to, w + 2 + DATA_WORDS + SERVER_IP)
    b32[w * 2 + 1] = to - w - 1
    write_numbers(r, w, c, requests)
    if ring:commit((to - w) * 8) then
      return "send"
    end
  end
end

return { new = new }
