-- Records the finished request: reads what nginx knows of it (vars.lua) and writes it as one message (message.lua) straight
-- into the ring.

local ffi = require "ffi"
local bit = require "bit"
local message = require "spate.message"
local slots = require "spate.slots"
local sys = require "spate.sys"
local values = require "spate.values"
local vars = require "spate.vars"

local C = ffi.C
local band, bor, lshift, rshift = bit.band, bit.bor, bit.lshift, bit.rshift
local floor, min = math.floor, math.min
local ptr, len = slots.ptr, slots.len
local digits, number, is, total, last = values.digits, values.number, values.is, values.total, values.last
local cut, split, raw, lower_cache_status = values.cut, values.split, values.raw, values.lower_cache_status
local clip, new_template, new_ray = message.clip, message.new_template, message.new_ray
local POINTERS, POINTER_WORD, IP_WORD, METHOD_WORD, PROTOCOL_WORD, MAX_MESSAGE = slots.POINTERS, slots.POINTER_WORD, slots.IP_WORD, slots.METHOD_WORD, slots.PROTOCOL_WORD, slots.MAX_MESSAGE
local SHORT_TEXT, CLIENT_IP, SERVER_IP, HOST, METHOD, SCHEME = slots.SHORT_TEXT, slots.CLIENT_IP, slots.SERVER_IP, slots.HOST, slots.METHOD, slots.SCHEME
local PATH, PROTOCOL, REFERER, USER_AGENT, USER, FORWARDED_FOR = slots.PATH, slots.PROTOCOL, slots.REFERER, slots.USER_AGENT, slots.USER, slots.FORWARDED_FOR
local CONTENT_TYPE, SSL_PROTOCOL, SSL_CIPHER, SSL_NAME, CLIENT_VERIFY, ORIGIN = slots.CONTENT_TYPE, slots.SSL_PROTOCOL, slots.SSL_CIPHER, slots.SSL_NAME, slots.CLIENT_VERIFY, slots.ORIGIN
local CACHE, RAY, SERVER_NAME, LIMIT_REQ, THREAT, REQUEST_BYTES = slots.CACHE, slots.RAY, slots.SERVER_NAME, slots.LIMIT_REQ, slots.THREAT, slots.REQUEST_BYTES
local SENT, BODY, CONNECTION, REQUESTS, PORT, PIPE = slots.SENT, slots.BODY, slots.CONNECTION, slots.REQUESTS, slots.PORT, slots.PIPE
local COMPLETION, UPSTREAM, RATIO, REQUEST_LINE, SERVER_ADDR, SERVER_PORT = slots.COMPLETION, slots.UPSTREAM, slots.RATIO, slots.REQUEST_LINE, slots.SERVER_ADDR, slots.SERVER_PORT
local RTT, REUSED, U_STATUS, U_CONNECT, U_HEADER, U_TIME = slots.RTT, slots.REUSED, slots.U_STATUS, slots.U_CONNECT, slots.U_HEADER, slots.U_TIME
local U_SENT, U_RECEIVED = slots.U_SENT, slots.U_RECEIVED

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
  local own_ray = not vars.agreed(r)
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
  local measure, write_texts = message.new_measure(), message.new_writer(ring)
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
