-- Spate for nginx: every request that a worker finishes becomes an event, is collected in the worker's memory and goes to
-- the forwarder over a unix socket. See docs/how-to/nginx.md for the configuration.
--
--   spate.init{...}   in init_by_lua          checks the options
--   spate.start()     in init_worker_by_lua   one buffer and one connection for this worker
--   spate.log()       in log_by_lua           records the request; never blocks, never raises an error
--   spate.stop()      in exit_worker_by_lua   sends what is left
--   spate.stats()     anywhere                the numbers of this worker
--
-- When anything is wrong with the options or with the machine, spate says so in the error log and stays out of the way:
-- requests are served, and not recorded.

local M = { version = "1" }

local DEFAULTS = {
  socket = "/run/spate/nginx.sock",
  edge = nil, -- the host's name
  colo = "",
  buffer = "8m", -- bytes of events that each worker keeps, sent or not, until the forwarder has them on disk
  frame = "128k", -- bytes after which a frame is sent without waiting for the timer
  flush_ms = 100, -- how often what there is gets sent
  max_text = "16k", -- longest text (path, user agent, ...) kept of a request; the rest is cut off
  shutdown_wait = 3, -- seconds that a worker that exits waits for the forwarder
  threat = false, -- true: look up $spate_threat though no request had a value yet when the worker started
}
local NOTE_EVERY = 30 -- seconds between two lines in the error log

local settings, problem
local ring, link, sys
local record -- the function that records a request; made with the first one
local encode -- makes it
local exiting = false
local errors = 0
local next_note, silent = 0, 0

local function say(level, ...)
  ngx.log(level, "spate: ", ...)
end

-- note writes to the error log, but rarely: a forwarder that is away must not fill the disk.
local function note(message)
  local now = sys.monotonic()
  if now < next_note then
    silent = silent + 1
    return
  end
  local more = silent > 0 and " (and " .. silent .. " more since)" or ""
  next_note, silent = now + NOTE_EVERY, 0
  say(ngx.WARN, message, more, "; events kept: ", ring.sealed - ring.acked, " frames, ", ring:kept(), " bytes; lost so far: ",
    ring.total_dropped)
end

local UNITS = { [""] = 1, k = 1024, m = 1024 * 1024 }

local function bytes(value)
  if type(value) == "number" then
    return value
  end
  local n, unit = tostring(value):lower():match("^(%d+)([km]?)$")
  return n and tonumber(n) * UNITS[unit]
end

local function hostname()
  local f = io.open("/proc/sys/kernel/hostname")
  local name = f and f:read("*l")
  if f then
    f:close()
  end
  return (name or "edge"):lower()
end

local function between(o, key, low, high)
  local n = bytes(o[key])
  if not n or n < low or n > high then
    error(key .. " = " .. tostring(o[key]) .. ": must be between " .. low .. " and " .. high, 0)
  end
  o[key] = n
end

local function check(options)
  local o = {}
  for key, value in pairs(DEFAULTS) do
    o[key] = value
  end
  for key, value in pairs(options or {}) do
    if DEFAULTS[key] == nil and key ~= "edge" then
      error("unknown option " .. tostring(key), 0)
    end
    o[key] = value
  end
  o.edge = o.edge or hostname()
  if type(o.edge) ~= "string" or not o.edge:match("^[a-z0-9._-]+$") or #o.edge > 255 then
    error("edge = " .. tostring(o.edge) .. ": must be 1 to 255 lower-case letters, digits, dots, underscores, dashes", 0)
  end
  if type(o.colo) ~= "string" or #o.colo > 64 then
    error("colo = " .. tostring(o.colo) .. ": must be a text of at most 64 bytes", 0)
  end
  if type(o.socket) ~= "string" or #o.socket == 0 or #o.socket > 107 then
    error("socket = " .. tostring(o.socket) .. ": must be a path of at most 107 bytes", 0)
  end
  between(o, "buffer", 1024 * 1024, 1024 * 1024 * 1024)
  between(o, "frame", 4096, 512 * 1024)
  between(o, "flush_ms", 10, 10000)
  between(o, "max_text", 64, 64 * 1024)
  between(o, "shutdown_wait", 0, 60)
  return o
end

-- init checks the options and keeps them for the workers. Wrong options are reported and switch recording off.
function M.init(options)
  local ok, result = pcall(check, options)
  settings, problem = ok and result or nil, not ok and result or nil
  if problem then
    say(ngx.ERR, "not recording: ", problem)
  end
end

local function pump()
  local ok, state = pcall(link.pump, link)
  if ok then
    return state
  end
  errors = errors + 1
  link:shut("internal error: " .. tostring(state))
  return "away"
end

local function soon(delay, f)
  if not exiting then
    ngx.timer.at(delay, f)
  end
end

local following = false

-- follow goes on sending what the socket did not take at once.
local function follow(premature)
  following = false
  if not premature and pump() == "busy" then
    following = true
    soon(0.003, follow)
  end
end

local function tick(premature)
  if premature then
    exiting = true
  end
  if link.open then
    ring:seal()
  end
  if pump() == "busy" and not following then
    following = true
    soon(0.003, follow)
  end
end

-- roomy lets LuaJIT compile the log phase as one piece; it is longer than what the defaults allow.
local function roomy()
  require("jit.opt").start("maxrecord=16000", "maxirconst=4000", "maxsnap=2000")
end

local function launch()
  pcall(roomy)
  sys = require "spate.sys"
  assert(sys.available())
  local stream = assert(sys.random(16))
  local id = assert(sys.random(10))
  math.randomseed(stream:byte(1) + stream:byte(2) * 256 + stream:byte(3) * 65536)
  ring = assert(require("spate.ring").new(settings.buffer, settings.frame))
  link = require("spate.link").new({
    socket = settings.socket,
    edge = settings.edge,
    stream = stream,
    pid = ngx.worker.pid(),
    worker = ngx.worker.id() or 0,
  }, ring, note)
  settings.ray = id:gsub(".", function(c) return ("%02x"):format(c:byte()) end) .. "000000000000"
  local maker = require("spate.encode")
  assert(ngx.timer.every(settings.flush_ms / 1000, tick))
  encode = maker
end

-- start prepares this worker. Call it in init_worker_by_lua.
function M.start()
  if encode or not settings or ngx.worker.id() == nil then
    return
  end
  local ok, err = pcall(launch)
  if not ok then
    problem = err
    say(ngx.ERR, "not recording: ", err)
  end
end

local function failed(err)
  errors = errors + 1
  ring:drop()
  pcall(note, "a request could not be recorded: " .. tostring(err))
end

-- full is what happens when the ring has no room: acknowledgements that wait to be read may make some.
local full_calls = 0
local function full()
  full_calls = full_calls + 1
  if full_calls % 64 == 1 then
    ring:seal()
    pump()
    local ok, state = pcall(record)
    if ok and state ~= "full" then
      return
    end
  end
  ring:drop()
end

-- first makes the function that records, with the first request of this worker.
local function first()
  local ok, made = pcall(encode.new, settings, ring, sys.request())
  if ok then
    record = made
    return M.log()
  end
  encode, problem = nil, made
  say(ngx.ERR, "not recording: ", made)
end

-- log records the request at hand. Call it in log_by_lua.
function M.log()
  if not record then
    if encode then
      first()
    end
    return
  end
  local ok, state = pcall(record)
  if not ok then
    failed(state)
  elseif state == "full" then
    pcall(full)
  elseif state == "send" or exiting then
    ring:seal()
    if link.open then
      pump()
    end
  end
end

local function drained()
  return ring.acked == ring.sealed and not ring.open and ring.dropped == 0
end

local function finish()
  exiting = true
  local stop = sys.monotonic() + settings.shutdown_wait
  link.retry_at = math.min(link.retry_at, sys.monotonic())
  repeat
    ring:seal()
    local state = pump()
    if drained() then
      return
    end
    link.retry_at = math.min(link.retry_at, sys.monotonic() + 0.05)
    sys.wait(link.fd or nil, state == "busy", 50)
  until sys.monotonic() >= stop
  if not drained() then
    local lost = ring:unacknowledged() + ring.dropped
    say(ngx.WARN, "worker exits with ", lost, " events that the forwarder has not confirmed")
  end
end

-- stop sends what is left and waits until the forwarder has it, for shutdown_wait at most. Call it in exit_worker_by_lua.
function M.stop()
  if not encode then
    return
  end
  local ok, err = pcall(finish)
  if not ok then
    say(ngx.ERR, "at exit: ", err)
  end
  record, encode = nil, nil
end

-- stats gives the numbers of this worker, or nil and the reason why it does not record.
function M.stats()
  if not encode then
    return nil, problem or "not started"
  end
  return {
    connected = link.open,
    events = ring.total_events + ring.events,
    lost = ring.total_dropped,
    errors = errors,
    frames = ring.sealed,
    acknowledged = ring.acked,
    kept_bytes = ring:kept(),
    buffer_bytes = ring.size,
    connects = link.connects,
    refused = link.refused,
  }
end

return M
