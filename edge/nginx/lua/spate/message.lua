-- The form of a message of event/http.capnp, in standard framing: one word of framing, one of root pointer, 13 words of
-- data, 25 pointers, two words for each of the two addresses, one for the method and two for the protocol of ordinary
-- requests, the constant texts (scheme, edge, colo, the request id when it is ours), then the other texts, each ended by NUL
-- and padded to 8 bytes. All up to the constant texts is a template that is copied.
--
-- Offsets are those of event/fields.go; a test of package edge/nginx reads what this writes with that package and with the
-- capnp tool.

local ffi = require "ffi"
local bit = require "bit"
local slots = require "spate.slots"

local band, bor, lshift, rshift = bit.band, bit.bor, bit.lshift, bit.rshift
local min = math.min
local ptr, len = slots.ptr, slots.len
local DATA_WORDS, POINTERS, POINTER_WORD, METHOD_WORD, CONSTANT_WORD, HOST = slots.DATA_WORDS, slots.POINTERS, slots.POINTER_WORD, slots.METHOD_WORD, slots.CONSTANT_WORD, slots.HOST
local METHOD, SCHEME, PATH, QUERY, PROTOCOL, REFERER = slots.METHOD, slots.SCHEME, slots.PATH, slots.QUERY, slots.PROTOCOL, slots.REFERER
local USER_AGENT, USER, FORWARDED_FOR, CONTENT_TYPE, SSL_PROTOCOL, SSL_CIPHER = slots.USER_AGENT, slots.USER, slots.FORWARDED_FOR, slots.CONTENT_TYPE, slots.SSL_PROTOCOL, slots.SSL_CIPHER
local SSL_NAME, CLIENT_VERIFY, ORIGIN, CACHE, RAY, SERVER_NAME = slots.SSL_NAME, slots.CLIENT_VERIFY, slots.ORIGIN, slots.CACHE, slots.RAY, slots.SERVER_NAME
local EDGE, COLO, LIMIT_REQ, THREAT = slots.EDGE, slots.COLO, slots.LIMIT_REQ, slots.THREAT

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
  return assert(loadstring(table.concat(source), "=spate.message"))(ffi, bit, ...)
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

return {
  new_measure = new_measure,
  clip = clip,
  new_writer = new_writer,
  new_template = new_template,
  new_ray = new_ray,
}
