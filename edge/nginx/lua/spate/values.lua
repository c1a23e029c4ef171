-- What a value that nginx gives as text means: numbers, lists, lower case, request targets. All of them work on slots, and
-- none makes a Lua string for requests that are ordinary.

local ffi = require "ffi"
local slots = require "spate.slots"
local sys = require "spate.sys"

local C = ffi.C
local floor, max = math.floor, math.max
local ptr, len = slots.ptr, slots.len
local METHOD, PATH, QUERY, CACHE, REQUEST_LINE = slots.METHOD, slots.PATH, slots.QUERY, slots.CACHE, slots.REQUEST_LINE

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

return {
  digits = digits,
  number = number,
  is = is,
  total = total,
  last = last,
  cut = cut,
  split = split,
  raw = raw,
  lower_cache_status = lower_cache_status,
}
