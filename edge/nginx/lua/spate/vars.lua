-- Reading nginx variables without making Lua strings: names in, pointers and lengths out.
--
-- Each variable is read in the cheapest way that works for it, found out once, with the first request of the worker:
--   direct    call the function with which nginx computes it (handlers.lua)
--   keyed     look it up by name with a precomputed hash, by a function that nginx exports
--   portable  the interface of the nginx Lua module, when the two above cannot be had, or gave another answer than this one
-- Pointers are valid until the request is gone.

local ffi = require "ffi"
local bit = require "bit"
local handlers = require "spate.handlers"
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

-- buffers is what the functions made below use.
local function buffers(list, ptr, len)
  local b = {
    ptr = ptr,
    len = len,
    key = ffi.new("uintptr_t[?]", #list),
    name = ffi.new("spate_str[?]", #list),
    names = {},
    value = ffi.new("spate_value[?]", #list),
    get = {},
    low = ffi.new("char[128]"),
    out = ffi.new("char *[1]"),
    out_len = ffi.new("size_t[1]"),
    err = ffi.new("char *[1]"),
  }
  for i, p in ipairs(list) do
    local name = p.alias or p[1]
    b.names[i] = name -- the pointers below do not keep it
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

-- fast says whether nginx's own look-up is there and gives the same values as the Lua module.
local function fast(b, r, list)
  if not sys.exported("ngx_http_get_variable") then
    return false
  end
  for i, p in ipairs(list) do
    if not p.moving and text_of(lookup(r, b.names[i])) ~= portable(b, r, b.names[i]) then
      return false
    end
  end
  return true
end

-- direct_of gives the function for a variable of the list that computes the value which the Lua module gives, or nil.
local function direct_of(b, r, i, p, found)
  local h = found[p[1]]
  if not h or p.stored then
    return nil
  end
  local get = ffi.cast("spate_get", ffi.cast("uintptr_t", h.get))
  local ok = get(r, b.value + i, h.data) == 0
  local value = ok and text_of(b.value[i]) or nil
  if p.moving or (value or "") == (portable(b, r, b.names[i + 1]) or "") then
    return get
  end
end

local DIRECT = [[
  if get$i(r, value + $i, $data) == 0 then
    bits = value[$i].bits
    len[$slot] = band(bits, $length, bnot(arshift(lshift(bits, 1), 31)))
    ptr[$slot] = value[$i].data
  else
    len[$slot] = 0
  end
]]
local KEYED = [[
  v = C.ngx_http_get_variable(r, name + $i, key[$i])
  if v ~= nil then
    bits = v.bits
    len[$slot] = band(bits, $length, bnot(arshift(lshift(bits, 1), 31)))
    ptr[$slot] = v.data
  else
    len[$slot] = 0
  end
]]
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
local C, ptr, len, key, name, value = ffi.C, b.ptr, b.len, b.key, b.name, b.value
local low, out, out_len, err = b.low, b.out, b.out_len, b.err
local band, bnot, lshift, arshift = bit.band, bit.bnot, bit.lshift, bit.arshift
$heads
return function(r)
  local v, bits
$body
end
]]

-- new takes a list of { name, slot } and makes a function(r) that leaves the value of each variable at ptr[slot] and its
-- length, 0 when there is none, at len[slot]. r is a request to try the ways with; found is what handlers.find gave. An
-- entry may say:
--   moving = true  the variable changes while one looks
--   stored = true  it keeps its value over the request (as those of set and map do), so it must be looked up
--   alias = name   nginx does not find it by its own name, only by this one
--
-- The function has no loops, because LuaJIT makes one piece of machine code of the whole log phase only when there is no
-- loop in it.
local function new(list, ptr, len, r, found)
  local b = buffers(list, ptr, len)
  local trusted = fast(b, r, list)
  local heads, body = {}, {}
  for i, p in ipairs(list) do
    b.get[i - 1] = direct_of(b, r, i - 1, p, found)
    local way = b.get[i - 1] and DIRECT or trusted and KEYED or PORTABLE
    if way == DIRECT then
      heads[#heads + 1] = ("local get%d = b.get[%d]"):format(i - 1, i - 1)
    end
    body[i] = way:gsub("%$(%l+)", {
      slot = p[2], i = i - 1, length = LENGTH, data = way == DIRECT and ("%.0f"):format(found[p[1]].data),
    })
  end
  local source = FUNCTION:gsub("%$(%l+)", { heads = table.concat(heads, "\n"), body = table.concat(body) })
  return assert(loadstring(source, "=spate.vars"))(ffi, bit, b)
end

-- agreed says whether all who ask for $request_id get the same one, as they do when the configuration mentions it:
-- otherwise each look-up makes a new one.
local function agreed(r)
  local b = buffers({ { "request_id" } })
  local one = portable(b, r, "request_id")
  return one ~= nil and one == portable(b, r, "request_id")
end

-- known says whether the variable exists, as far as one can tell: either it has a value, or the configuration mentions it,
-- so that two look-ups give the same address.
local function known(r, name)
  if portable(buffers({ { name } }), r, name) then
    return true
  end
  if not sys.exported("ngx_http_get_variable") then
    return false
  end
  local one = lookup(r, name)
  return one ~= nil and one == lookup(r, name)
end

-- find looks for the handlers of all variables in some lists.
local function find(...)
  local names = {}
  for _, list in ipairs { ... } do
    for _, p in ipairs(list) do
      names[#names + 1] = p[1]
    end
  end
  return handlers.find(names, key_of)
end

return { new = new, agreed = agreed, known = known, find = find }
