-- Reading nginx variables without making Lua strings: names in, pointers and lengths out.
--
-- Each variable is read in the cheapest way that works for it, found out once, with the first request of the worker:
--   indexed   the configuration mentions the variable (deploy/nginx/spate.conf does, in a map that nobody asks), so nginx has
--             given it a number; one call with the number, no look-up. The number is found by comparing addresses: the
--             look-up by name of an indexed variable gives the address of its slot in an array.
--   keyed     look-up by name with a precomputed hash.
--   portable  the interface of the nginx Lua module, when the nginx binary does not export the two functions above, or
--             when they gave another answer than this one.
-- Pointers are valid until the request is gone.

local ffi = require "ffi"
local bit = require "bit"
local sys = require "spate.sys"

local C = ffi.C
local band, rshift = bit.band, bit.rshift

local LENGTH = 0x0fffffff
local NOT_FOUND = 30 -- number of the bit; the code made below shifts it into the sign

-- nginx hashes names as key * 31 + byte.
local function key_of(name)
  local key = 0ULL
  for i = 1, #name do
    key = key * 31 + name:byte(i)
  end
  return key
end

-- buffers is what the functions below need for a list of variables.
local function buffers(list, ptr, len)
  local b = {
    list = list,
    ptr = ptr,
    len = len,
    key = ffi.new("uintptr_t[?]", #list),
    name = ffi.new("spate_str[?]", #list),
    low = ffi.new("char[128]"),
    out = ffi.new("char *[1]"),
    out_len = ffi.new("size_t[1]"),
    err = ffi.new("char *[1]"),
  }
  for i, p in ipairs(list) do
    local name = p.alias or p[1]
    b.key[i - 1] = key_of(name)
    b.name[i - 1].data, b.name[i - 1].len = ffi.cast("const unsigned char *", name), #name
  end
  return b
end

local function text_of(v)
  if v == nil or band(rshift(v.bits, NOT_FOUND), 1) == 1 then
    return nil
  end
  return ffi.string(v.data, band(v.bits, LENGTH))
end

local function portable(b, r, name)
  local rc = C.ngx_http_lua_ffi_var_get(r, name, #name, b.low, 0, b.out, b.out_len, b.err)
  if rc ~= 0 then
    return nil
  end
  return ffi.string(b.out[0], b.out_len[0])
end

-- lookup is one look-up by name, for the time of discovery.
local function lookup(r, name)
  local s = ffi.new("spate_str")
  s.data, s.len = ffi.cast("const unsigned char *", name), #name
  return C.ngx_http_get_variable(r, s, ffi.cast("uintptr_t", key_of(name)))
end

-- index_of gives the number of an indexed variable, or nil. Two look-ups of an indexed one give the same address.
local function index_of(r, name)
  local one = lookup(r, name)
  if one == nil or one ~= lookup(r, name) then
    return nil
  end
  local base = C.ngx_http_get_indexed_variable(r, 0)
  local index = base ~= nil and tonumber(one - base)
  if not index or index < 0 or index > 65535 or C.ngx_http_get_indexed_variable(r, index) ~= one then
    return nil
  end
  return index
end

-- index_between gives the number of the variable that the configuration mentions between these two, or nil.
local function index_between(r, before, after)
  local a, b = index_of(r, before), index_of(r, after)
  return a and b == a + 2 and a + 1 or nil
end

-- fast says whether nginx's own functions are there and give the same values as the Lua module.
local function fast(b, r)
  if not (sys.exported("ngx_http_get_variable") and sys.exported("ngx_http_get_flushed_variable")
    and sys.exported("ngx_http_get_indexed_variable")) then
    return false
  end
  for _, p in ipairs(b.list) do
    local name = p.alias or p[1]
    if not p.moving and text_of(lookup(r, name)) ~= portable(b, r, name) then
      return false
    end
  end
  return true
end

local INDEXED = [[
  v = C.ngx_http_get_$kind_variable(r, $index)
  if v ~= nil then
    bits = v.bits
    len[$slot] = band(bits, $length, bnot(arshift(lshift(bits, 1), 31)))
    ptr[$slot] = v.data
  else
    len[$slot] = 0
  end
]]
local KEYED = INDEXED:gsub("^[^\n]*", "  v = C.ngx_http_get_variable(r, name + $i, key[$i])")
local PORTABLE = [[
  if C.ngx_http_lua_ffi_var_get(r, name[$i].data, name[$i].len, low, 0, out, out_len, err) == 0 then
    len[$slot] = tonumber(out_len[0])
    ptr[$slot] = ffi.cast("const unsigned char *", out[0])
  else
    len[$slot] = 0
  end
]]
local FUNCTION = [[
local ffi, bit, b = ...
local C, ptr, len, key, name = ffi.C, b.ptr, b.len, b.key, b.name
local low, out, out_len, err = b.low, b.out, b.out_len, b.err
local band, bnot, lshift, arshift = bit.band, bit.bnot, bit.lshift, bit.arshift
return function(r)
  local v, bits
$body
end
]]

-- number_of gives the number of a variable of the list, or nil.
local function number_of(r, p)
  if p.alias then
    local index = index_between(r, "spate_before", "spate_after")
    if index then
      return index
    end
  end
  return index_of(r, p.alias or p[1])
end

-- new takes a list of { name, slot } and makes a function(r) that leaves the value of each variable at ptr[slot] and its
-- length, 0 when there is none, at len[slot]. r is a request to try the ways with. Of an entry may be true:
--   moving  the variable changes while one looks
--   fresh   it may have been asked for while the request was not finished, so it is computed anew
-- and alias names a variable that has the value of this one, which nginx does not find by its name; the number of such a
-- one is between those of spate_before and spate_after if deploy/nginx/spate.conf is the first to mention it.
--
-- The function has no loops, because LuaJIT makes one piece of machine code of the whole log phase only when there is no
-- loop in it.
local function new(list, ptr, len, r)
  local b = buffers(list, ptr, len)
  local trusted = fast(b, r)
  local body = {}
  for i, p in ipairs(list) do
    local index = trusted and number_of(r, p)
    local way = index and INDEXED or trusted and KEYED or PORTABLE
    body[i] = way:gsub("%$(%l+)", {
      index = index, slot = p[2], i = i - 1, length = LENGTH, kind = p.fresh and "flushed" or "indexed",
    })
  end
  local source = FUNCTION:gsub("%$body", function() return table.concat(body) end)
  return assert(loadstring(source, "=spate.vars"))(ffi, bit, b)
end

-- indexed says whether the configuration mentions the variable, so that all who ask get the same value.
local function indexed(r, name)
  return sys.exported("ngx_http_get_variable") and sys.exported("ngx_http_get_indexed_variable")
    and index_of(r, name) ~= nil
end

-- known says whether the variable exists, as far as one can tell: one that is not mentioned and has no value does not.
local function known(r, name)
  return indexed(r, name) or (sys.exported("ngx_http_get_variable") and text_of(lookup(r, name)) ~= nil)
end

return { new = new, indexed = indexed, known = known }
