-- Finds the functions with which nginx computes its variables, so that they can be called without a look-up each time.
--
-- nginx has a table of all variables by name, but no function that gives an entry of it. We go there from the exported
-- ngx_cycle, and trust nothing on the way: memory is read with a system call, which fails where a pointer would crash; the
-- table is recognised by its content, not by its place; and an entry counts only if it carries the name we look for and its
-- function is in executable memory. If anything is not as expected there are no handlers, and vars.lua takes another way.
-- vars.lua also compares what the functions give with what the Lua module gives.

local ffi = require "ffi"

local C = ffi.C

ffi.cdef [[
typedef struct { void *base; size_t len; } spate_iovec;
typedef struct { uintptr_t ctx_index, index; } spate_module;
intptr_t process_vm_readv(int pid, const spate_iovec *into, unsigned long n, const spate_iovec *from, unsigned long m,
  unsigned long flags);
int getpid(void);
extern void *ngx_cycle;
extern spate_module ngx_http_module, ngx_http_core_module;
]]

-- Sizes and places in nginx's structures: ngx_array_t { elts, nelts, size, nalloc, pool }, ngx_hash_t { buckets, size },
-- ngx_hash_elt_t { value, uint16 len, name }, ngx_http_variable_t { name, set_handler, get_handler, data, flags, index }.
local VARIABLE_SIZE, GET_HANDLER, DATA = 56, 24, 32
local CONF_WORDS = 32 -- how much of the main configuration is searched
local MOST = 65536 -- more variables or buckets than this are not believed

local into, from = ffi.new("spate_iovec[1]"), ffi.new("spate_iovec[1]")
local buffer = ffi.new("uint8_t[256]")

-- bytes gives n bytes of memory at an address as a string, or nil.
local function bytes(address, n)
  if not address or address < 4096 or n > 256 then
    return nil
  end
  into[0].base, into[0].len = buffer, n
  from[0].base, from[0].len = ffi.cast("void *", ffi.cast("uintptr_t", address)), n
  if C.process_vm_readv(C.getpid(), into, 1, from, 1, 0) ~= n then
    return nil
  end
  return ffi.string(buffer, n)
end

-- word gives the eight bytes at an address as a number, or nil. Addresses are below 2^53.
local function word(address)
  if not bytes(address, 8) then
    return nil
  end
  return tonumber(ffi.cast("uint64_t *", buffer)[0])
end

-- executable gives the spans of memory that hold code.
local function executable()
  local spans = {}
  local f = io.open("/proc/self/maps")
  if f then
    for line in f:lines() do
      local low, high = line:match("^(%x+)%-(%x+) ..x")
      if low then
        spans[#spans + 1] = { tonumber(low, 16), tonumber(high, 16) }
      end
    end
    f:close()
  end
  return spans
end

local function within(spans, address)
  for _, s in ipairs(spans) do
    if address >= s[1] and address < s[2] then
      return true
    end
  end
  return false
end

-- entry gives function and argument of the variable structure at an address, if it has the name.
local function entry(address, name, spans)
  if word(address) ~= #name or bytes(word(address + 8), #name) ~= name then
    return nil
  end
  local get, data = word(address + GET_HANDLER), word(address + DATA)
  if not get or not data or data >= 2 ^ 53 or not within(spans, get) then
    return nil
  end
  return { get = get, data = data }
end

-- in_hash looks a name up in what may be a hash table.
local function in_hash(buckets, size, name, key, spans)
  local element = word(buckets + 8 * tonumber(key % size))
  for _ = 1, 64 do
    local value = word(element)
    if not value or value == 0 then
      return nil
    end
    local head = bytes(element + 8, 2)
    local n = head:byte(1) + head:byte(2) * 256
    if n == #name and bytes(element + 10, n) == name then
      return entry(value, name, spans)
    end
    element = element + 8 + math.ceil((n + 2) / 8) * 8
  end
  return nil
end

-- in_array looks for a name among variables that lie one behind the other.
local function in_array(elements, n, name, spans)
  for i = 0, n - 1 do
    local found = entry(elements + i * VARIABLE_SIZE, name, spans)
    if found then
      return found
    end
  end
  return nil
end

-- main_conf gives the address of nginx's main configuration of HTTP, where the tables are.
local function main_conf()
  local all = word(tonumber(ffi.cast("uintptr_t", C.ngx_cycle)))
  local http = all and word(all + 8 * tonumber(C.ngx_http_module.index))
  local main = http and word(http)
  return main and word(main + 8 * tonumber(C.ngx_http_core_module.ctx_index))
end

-- find_all gives { get, data } for every name that it finds. names is a list; key_of gives nginx's hash of a name.
local function find_all(names, key_of)
  local found, spans, conf = {}, executable(), main_conf()
  if not conf then
    return found
  end
  local words = {}
  for i = 0, CONF_WORDS - 1 do
    words[i] = word(conf + 8 * i) or 0
  end
  local host = key_of("host")
  for i = 0, CONF_WORDS - 3 do
    local at, n, size = words[i], words[i + 1], words[i + 2]
    local hash = n > 0 and n <= MOST and in_hash(at, n, "host", host, spans) ~= nil
    local array = size == VARIABLE_SIZE and n > 0 and n <= MOST
    for _, name in ipairs(names) do
      if not found[name] and hash then
        found[name] = in_hash(at, n, name, key_of(name), spans)
      elseif not found[name] and array then
        found[name] = in_array(at, n, name, spans)
      end
    end
  end
  return found
end

-- find is find_all that never fails: it gives an empty table instead.
local function find(names, key_of)
  local ok, found = pcall(find_all, names, key_of)
  return ok and found or {}
end

return { find = find }
