-- Reading nginx variables without making Lua strings: names in, pointers and lengths out.
--
-- Each variable is read in the cheapest way that works for it, found out once, with the first request of the worker:
--   indexed   the configuration mentions the variable (deploy/nginx/spate.conf does, in an unused log_format), so nginx has
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
local NOT_FOUND = 30 -- number of the bit

local Vars = {}
Vars.__index = Vars

-- nginx hashes names as key * 31 + byte.
local function key_of(name)
  local key = 0ULL
  for i = 1, #name do
    key = key * 31 + name:byte(i)
  end
  return key
end

-- new takes triples of variable name, slot, and true for a variable that changes while one looks. A fourth value is for a
-- variable that nginx does not find by name, though it has a number: its value can also be had from the variable so named,
-- and its number is between those of spate_before and spate_after if deploy/nginx/spate.conf mentions it first.
-- run(r) leaves the value of each variable at ptr[slot] and its length, 0 when there is none, at len[slot].
local function new(list, ptr, len)
  local self = setmetatable({
    list = list,
    ptr = ptr,
    len = len,
    key = ffi.new("uintptr_t[?]", #list),
    name = ffi.new("spate_str[?]", #list),
    low = ffi.new("char[128]"),
    out = ffi.new("char *[1]"),
    out_len = ffi.new("size_t[1]"),
    err = ffi.new("char *[1]"),
  }, Vars)
  for i, p in ipairs(list) do
    local name = p[4] or p[1]
    self.key[i - 1] = key_of(name)
    self.name[i - 1].data, self.name[i - 1].len = ffi.cast("const unsigned char *", name), #name
  end
  self.run = function(r)
    self:discover(r)
    self.run(r)
  end
  return self
end

local function text_of(v)
  if v == nil or band(rshift(v.bits, NOT_FOUND), 1) == 1 then
    return nil
  end
  return ffi.string(v.data, band(v.bits, LENGTH))
end

local function portable(self, r, name)
  local rc = C.ngx_http_lua_ffi_var_get(r, name, #name, self.low, 0, self.out, self.out_len, self.err)
  if rc ~= 0 then
    return nil
  end
  return ffi.string(self.out[0], self.out_len[0])
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

local function fast(self, r)
  if not (sys.exported("ngx_http_get_variable") and sys.exported("ngx_http_get_flushed_variable")
    and sys.exported("ngx_http_get_indexed_variable")) then
    return false
  end
  for _, p in ipairs(self.list) do
    local name = p[4] or p[1]
    if not p[3] and text_of(lookup(r, name)) ~= portable(self, r, name) then
      return false
    end
  end
  return true
end

local INDEXED = [[
  v = C.ngx_http_get_flushed_variable(r, $index)
  if v ~= nil then
    bits = v.bits
    len[$slot] = band(bits, $length) * (1 - band(rshift(bits, $not_found), 1))
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
local ffi, band, rshift, self = ...
local C, ptr, len, key, name = ffi.C, self.ptr, self.len, self.key, self.name
local low, out, out_len, err = self.low, self.out, self.out_len, self.err
return function(r)
  local v, bits
$body
end
]]

-- discover sorts the variables into the three ways, and makes self.run: a function without loops, because LuaJIT makes
-- one piece of machine code of the whole log phase only when there is no loop in it.
function Vars:discover(r)
  local trusted = fast(self, r)
  local body = {}
  for i, p in ipairs(self.list) do
    local index
    if trusted and p[4] then
      index = index_between(r, "spate_before", "spate_after")
    end
    if trusted and not index then
      index = index_of(r, p[4] or p[1])
    end
    local way = index and INDEXED or trusted and KEYED or PORTABLE
    body[i] = way:gsub("%$([a-z_]+)", {
      index = index, slot = p[2], i = i - 1, length = LENGTH, not_found = NOT_FOUND,
    })
  end
  local source = FUNCTION:gsub("%$body", function() return table.concat(body) end)
  self.run = assert(loadstring(source, "=spate.vars"))(ffi, band, rshift, self)
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
